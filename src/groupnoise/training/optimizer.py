"""Adam for encoders, and Adam for tables that touches only the rows a batch looked up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from groupnoise.core.compiled import Kernels
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.table_objective import RowGradient

FUSED_DEVICES = ("cpu", "cuda", "mps")
BETAS = (0.9, 0.999)
"""Decay of the first and second moments, unless a training has its own."""
EPSILON = 1e-8
"""Added to the root of the second moment."""


def _unwrapped(method: Any) -> Any:
    return getattr(method, "__wrapped__", method)


class LightOptimizer(Optimizer):
    """An optimizer that does not load torch's compiler.

    torch wraps these methods in `torch._disable_dynamo`, whose first call imports the compiler:
    more than a second of processor time, as much as a whole small fit.
    """

    add_param_group = _unwrapped(Optimizer.add_param_group)
    zero_grad = _unwrapped(Optimizer.zero_grad)
    state_dict = _unwrapped(Optimizer.state_dict)
    load_state_dict = _unwrapped(Optimizer.load_state_dict)

    def __init_subclass__(cls) -> None:
        """Keep torch from wrapping `step` in hooks and a profiler: a tenth of a small step."""
        cls.step.hooked = True  # type: ignore[attr-defined]

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        """Return the state of a parameter, initialized on first use."""
        state: dict[str, Any] = self.state[parameter]
        if not state:
            kernel = parameter.device.type in FUSED_DEVICES
            state["step"] = torch.zeros((), device=parameter.device if kernel else "cpu")
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        return state


def move_by_adam(
    rows: Tensor,
    gradient: Tensor,
    moments: tuple[Tensor, Tensor],
    step: Tensor,
    rate: float,
    betas: tuple[float, float],
) -> None:
    """Move rows, their moments and the count of steps, in place.

    Torch's fused kernel reads them once, where one operation after the other would six times.
    """
    first, second = moments
    adam(
        [rows], [gradient], [first], [second], [], [step], fused=True, amsgrad=False,
        beta1=betas[0], beta2=betas[1], lr=rate, weight_decay=0.0, eps=EPSILON, maximize=False,
    )  # fmt: skip


class Adam(LightOptimizer):
    """Adam in torch's fused kernel, one call for all parameters.

    `decoupled`: whether weights shrink apart from the gradient (AdamW), or it is added to that.
    """

    def __init__(
        self,
        params: Iterable[Any],
        learning_rate: float,
        *,
        weight_decay: float = 0.0,
        decoupled: bool = True,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        defaults = {
            "lr": learning_rate,
            "weight_decay": weight_decay,
            "betas": betas,
            "eps": EPSILON,
        }
        super().__init__(params, defaults)
        self._update = adamw if decoupled else adam

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            learned = [each for each in group["params"] if each.grad is not None]
            if not learned:
                continue
            states = [self._state_of(each) for each in learned]
            self._update(
                learned,
                [each.grad for each in learned],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                # Devices without the kernel are updated by one operation after the other.
                fused=all(each.device.type in FUSED_DEVICES for each in learned),
                foreach=False,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )


class RowAdam(LightOptimizer):
    """Adam on the rows of sparse gradients, with decoupled weight decay.

    A dense step costs as much as the table is large; this one costs as much as the batch. Rows that
    were not looked up keep their moments as they are (`lazy` Adam); the weight decay they missed is
    made up for when they are next touched, or by `apply_deferred_decay`.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], learning_rate: float, *, weight_decay: float = 0.0
    ) -> None:
        defaults = {
            "lr": learning_rate,
            "weight_decay": weight_decay,
            "betas": BETAS,
            "eps": EPSILON,
        }
        super().__init__(params, defaults)
        self._space: dict[str, Tensor] = {}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the rows that have a gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, group)

    def _update(self, table: nn.Parameter, group: dict[str, Any]) -> None:
        rows, gradient = _distinct_rows(table.grad)  # type: ignore[arg-type]
        self._move(table, rows, table.index_select(0, rows), gradient, group)

    @torch.no_grad()
    def move_rows(self, found: RowGradient, kernels: Kernels | None = None) -> None:
        """Update the rows of one table, as `step` does."""
        for group in self.param_groups:
            if any(each is found.table for each in group["params"]):
                if kernels is None:
                    self._move(*found, group)
                else:
                    self._move_compiled(found, group, kernels)

    def _move_compiled(self, found: RowGradient, group: dict[str, Any], kernels: Kernels) -> None:
        state, (first, second) = self._state_of(found.table), group["betas"]
        state["decay"] += group["lr"] * group["weight_decay"]
        state["step"] += 1
        rate = group["lr"] / (1 - first ** state["step"])
        root = (1 - second ** state["step"]) ** 0.5
        gradient = found.gradient.numpy()
        numbers = (1 - first, second, 1 - second, rate, root, group["eps"])
        kernels.move_rows(
            found.table.detach().numpy(),
            *(state[name].numpy() for name in ("first", "second", "decay_seen")),
            found.rows.numpy(),
            gradient,
            state["decay"],
            np.array(numbers, dtype=gradient.dtype),
        )

    def _move(
        self, table: Tensor, rows: Tensor, current: Tensor, gradient: Tensor, group: dict[str, Any]
    ) -> None:
        state = self._state_of(table)
        first, second = (self._gather_rows(state[name], name, rows) for name in ("first", "second"))
        shrink = group["lr"] * group["weight_decay"]
        if shrink:
            # Decay is summed over steps, so that a changing learning rate is made up for too.
            state["decay"] += shrink
            missed = state["decay"] - state["decay_seen"].index_select(0, rows)
            current *= torch.exp(-missed).to(table.dtype).unsqueeze(-1)
            state["decay_seen"].index_fill_(0, rows, state["decay"])
        # On the rows taken out, lazy Adam is Adam.
        step = torch.tensor(float(state["step"]), device=table.device)
        move_by_adam(current, gradient, (first, second), step, group["lr"], group["betas"])
        state["step"] += 1
        for whole, changed in (
            (table, current),
            (state["first"], first),
            (state["second"], second),
        ):
            _put_rows(whole, rows, changed)

    def _gather_rows(self, moments: Tensor, name: str, rows: Tensor) -> Tensor:
        """Return rows of moments, in memory that is kept from step to step."""
        width = moments.shape[1]
        space = self._space.get(name, moments[:0])
        kind = (moments.dtype, moments.device)
        if space.numel() < len(rows) * width or (space.dtype, space.device) != kind:
            space = self._space[name] = moments.new_empty(len(rows) * width * 9 // 8)
        taken = space[: len(rows) * width].view(len(rows), width)
        return torch.index_select(moments, 0, rows, out=taken)

    def _state_of(self, table: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[table]
        if not state:
            state["step"] = 0
            state["decay"] = 0.0
            # Apple's devices have no double precision.
            wide = torch.float32 if table.device.type == "mps" else torch.float64
            state["decay_seen"] = table.new_zeros(len(table), dtype=wide)
            state["first"] = torch.zeros_like(table)
            state["second"] = torch.zeros_like(table)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, exactly."""
        super().load_state_dict(state_dict)
        tables = [table for group in self.param_groups for table in group["params"]]
        for number, saved in state_dict["state"].items():
            # The base class rounds it to the type of the table.
            self.state[tables[number]]["decay_seen"] = saved["decay_seen"].clone()

    @torch.no_grad()
    def apply_deferred_decay(self) -> None:
        """Apply the weight decay that rows have missed; call before the table is read whole."""
        for group in self.param_groups:
            for table in group["params"]:
                state = self._state_of(table)
                missed = state["decay"] - state["decay_seen"]
                table *= torch.exp(-missed).unsqueeze(-1).to(table.dtype)
                state["decay_seen"].fill_(state["decay"])


def make_optimizers(
    model: MatchingModel, *, learning_rate: float, weight_decay: float
) -> list[Optimizer]:
    """Return a RowAdam for the sparse tables of a model and an Adam for everything else."""
    tables = _sparse_tables(model)
    known = {id(table) for table in tables}
    others = [parameter for parameter in model.parameters() if id(parameter) not in known]
    optimizers: list[Optimizer] = []
    if tables:
        optimizers.append(RowAdam(tables, learning_rate, weight_decay=weight_decay))
    if others:
        optimizers.append(Adam(others, learning_rate, weight_decay=weight_decay))
    return optimizers


def _put_rows(table: Tensor, rows: Tensor, values: Tensor) -> None:
    """Write rows of a table, each named once."""
    if table.device.type == "cpu":
        # numpy copies row by row, which takes a third of the time of torch's index_copy_.
        table.detach().numpy()[rows.numpy()] = values.numpy()
    else:
        table.index_copy_(0, rows, values)


def _distinct_rows(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows a sparse gradient is about, each once, and its values there."""
    if gradient.is_coalesced():
        return gradient.indices()[0], gradient.values()
    rows = gradient._indices()[0]
    # Our lookups name each row once and in order, but autograd forgets to pass that on.
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, gradient._values()
    gradient = gradient.coalesce()
    return gradient.indices()[0], gradient.values()


def _sparse_tables(model: MatchingModel) -> list[nn.Parameter]:
    tables: dict[int, Tensor] = {}
    for module in model.modules():
        if isinstance(module, EmbeddingEncoder) and module.sparse:
            tables[id(module.weight)] = module.weight
    if model.bias is not None and model.sparse:
        tables[id(model.bias)] = model.bias
    return list(tables.values())  # type: ignore[arg-type]
