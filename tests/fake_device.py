"""A device that is not there: tensors on it hold their values on the CPU, and meet no others."""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

NAME = "meta"
"""What tensors on it say their device is; nothing else in these tests lies there."""
DEVICE = torch.device(NAME)
CROSSINGS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class LeftBehind(AssertionError):
    """A tensor of the CPU met one of the device."""


class OnDevice(torch.Tensor):
    """A tensor on the device."""

    @staticmethod
    def __new__(cls, held):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device=DEVICE,
        )  # fmt: skip
        tensor.held = held
        return tensor

    def __repr__(self):
        return f"OnDevice({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Watch(TorchDispatchMode):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = _run(func, args, kwargs or {})
        if isinstance(result, OnDevice):
            self.calls.append(str(func))
        return result


def _run(func, args, kwargs):
    tensors = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    ours = [each for each in tensors if isinstance(each, OnDevice)]
    theirs = [each for each in tensors if not isinstance(each, OnDevice) and each.dim() > 0]
    if ours and theirs and func not in CROSSINGS:
        raise LeftBehind(
            f"{func}: {[tuple(each.shape) for each in ours]} are on the device, "
            f"{[tuple(each.shape) for each in theirs]} were left behind"
        )
    device = kwargs.get("device")
    stays = bool(ours) if device is None else torch.device(device).type == NAME
    if func is torch.ops.aten.copy_.default:
        stays = isinstance(args[0], OnDevice)
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    plain = tree_map(lambda each: each.held if isinstance(each, OnDevice) else each, (args, kwargs))
    result = func(*plain[0], **plain[1])
    if func._schema.is_mutable and args and isinstance(args[0], torch.Tensor):
        return args[0]  # changed where it lies
    return tree_map(
        lambda each: OnDevice(each) if isinstance(each, torch.Tensor) and stays else each, result
    )


@contextmanager
def fake_device(monkeypatch):
    """Inside the block `device="meta"` is one that is there; yields the operations made on it."""
    from groupnoise.core import device

    calls = []
    monkeypatch.setattr(device, "KINDS", (*device.KINDS, NAME))
    monkeypatch.setattr(device, "available_devices", lambda: ["cpu", NAME])
    with _Watch(calls):
        yield calls
