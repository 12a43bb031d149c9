"""Saving and resuming one training, or a fit made of many small ones."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.core.arrays import ProgressCallback, blocks
from groupnoise.core.groups import Groups
from groupnoise.exceptions import CheckpointError, ModelFileError, TrainingError, TrainingStopped
from groupnoise.io.files import read_json, write_json
from groupnoise.io.folders.model_files import read_model, write_model
from groupnoise.training.checkpoints import (
    Checkpoints,
    drop_save,
    next_number,
    prepare_folder,
    publish_save,
    read_part,
    write_part,
    writing_save,
)
from groupnoise.training.parameters import TrainingPlan
from groupnoise.training.state import (
    TrainingState,
    first_not_finite,
    pack_state,
    tensors_of,
    unpack_state,
)
from groupnoise.training.workers import Workers

FINGERPRINT = "fingerprint"
KIND = "training of a fit"
FOLDER = "member-fit"
IDENTITY = "fit.json"


def training_identity(
    state: TrainingState,
    plan: TrainingPlan,
    parts: Mapping[str, Any],
    data: Iterable[NDArray[Any] | Tensor | None],
) -> dict[str, Any]:
    """Return, as JSON, everything that must be unchanged for a training to resume."""
    identity = {name: json_description(value) for name, value in parts.items()}
    identity.update(json_description(asdict(plan)))
    for name, tensor in tensors_of(state.model).items():
        identity[f"shape of {name}"] = list(tensor.shape)
    identity["data"] = {FINGERPRINT: fingerprint(data)}
    return json.loads(json.dumps(identity))


def check_same_training(where: object, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a CheckpointError that names the first difference between two trainings."""
    for name in dict.fromkeys([*saved, *now]):
        then, here = saved.get(name), now.get(name)
        if then == here:
            continue
        if isinstance(then, dict) and isinstance(here, dict):
            if FINGERPRINT in then:
                raise CheckpointError(
                    f"the {name} differ from those that {where} was trained on; resume with the "
                    "same or start over in another folder."
                )
            check_same_training(
                where, *({f"{name}.{k}": v for k, v in d.items()} for d in (then, here))
            )
        raise CheckpointError(
            f"{where} was saved with {name} {then!r}, but now it is {here!r}; resume with the same "
            "settings or start over in another folder."
        )


def json_description(value: Any) -> Any:
    """Return a JSON value that is equal for equal settings.

    Dataclasses become their fields, arrays a digest, other objects the name of their type.
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, Tensor)):
        return {FINGERPRINT: fingerprint([value])}
    if isinstance(value, (list, tuple)):
        return [json_description(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): json_description(part) for name, part in value.items()}
    kind = type(value).__qualname__
    if is_dataclass(value):
        parts = {
            field.name: json_description(getattr(value, field.name)) for field in fields(value)
        }
        return {"kind": kind, **parts}
    return kind


def fingerprint(arrays: Iterable[NDArray[Any] | Tensor | None]) -> str:
    """Return a digest of the type, shape and content of arrays, read block by block."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        values = array.detach().numpy() if isinstance(array, Tensor) else np.asanyarray(array)
        if values.dtype.kind == "O":
            values = values.astype(str)
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        for _, part in blocks(values):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()


def exclusive_training(
    checkpoints: Checkpoints | None, workers: Workers
) -> AbstractContextManager[Any]:
    """Lock the folder of the checkpoints inside the block; the first worker does it for all.

    Raises CheckpointError on entry if another training holds the folder.
    """
    if checkpoints is None or workers.rank > 0:
        return nullcontext()
    return checkpoints.held()


class Saver:
    """Saves and restores the state of the training loop.

    `identity`: see :func:`training_identity`.
    `workers`: each saves its own part; the first one decides when.
    """

    def __init__(
        self, checkpoints: Checkpoints, identity: Mapping[str, Any], workers: Workers
    ) -> None:
        self.checkpoints = checkpoints
        self.identity = {**identity, "number of workers": workers.count}
        self.workers = workers
        self._damaged: list[Path] = []
        self._reset_timer()

    def restore(self, state: TrainingState) -> None:
        """Set a state to the newest save that can be read, if there is one."""
        if self.workers.rank == 0:
            prepare_folder(self.checkpoints)
        self.workers.wait()
        saves = self.checkpoints.saves()
        for saved in reversed(saves):
            problem = self._read(saved, state)
            # Workers must resume from the same save, even if one of them alone cannot.
            (n_problems,) = self.workers.sum(float(problem is not None))
            if not n_problems:
                if self.workers.rank == 0:
                    self.checkpoints.announce_resume()
                return
            reason = problem or "the part of another worker is damaged."
            if saved == saves[0]:
                raise CheckpointError(
                    f"no checkpoint in {self.checkpoints.folder} can be read, so remove the folder "
                    f"to start over: {reason}"
                )
            self._damaged.append(saved)
            if self.workers.rank == 0:
                self.checkpoints.report(
                    f"{saved} is passed over, an older checkpoint is used: {reason}"
                )

    def restore_latest(self, state: TrainingState) -> None:
        """Set a state to the newest save of this training, if there is one."""
        for saved in reversed(self.checkpoints.saves()):
            if self._read(saved, state) is None:
                return

    def _read(self, saved: Path, state: TrainingState) -> Exception | None:
        """Set a state to a save; return what is wrong with it, if anything is."""
        try:
            content, arrays = read_part(saved, self.workers.rank)
            check_same_training(saved, content["identity"], self.identity)
            unpack_state(state, content["state"], arrays)
        except (ModelFileError, KeyError, TypeError, ValueError) as error:
            return error
        return None

    def pending(self) -> tuple[float, float]:
        """Return (1 if a stop was requested, 1 if a save is due), to be summed over workers."""
        stop = self.checkpoints.requested_stop is not None
        return float(stop), float(self.workers.rank == 0 and self._is_due())

    def after_step(self, state: TrainingState, *, stop: bool, due: bool) -> None:
        """Save if due or stopping; then raise TrainingStopped if stopping."""
        self._steps += 1
        if not (stop or due):
            return
        saved = self.save(state)
        if stop:
            raise TrainingStopped(
                f"training stopped in epoch {state.epoch + 1} after step {state.step} and is saved "
                f"in {saved}",
                self.checkpoints.requested_stop,
            )

    def save(self, state: TrainingState) -> Path:
        """Write the state beside the earlier saves, then drop the oldest."""
        content, arrays = pack_state(state)
        spoilt = first_not_finite(arrays)
        if spoilt is not None:
            raise TrainingError(
                f"{spoilt} holds NaN or infinity in epoch {state.epoch + 1} after step "
                f"{state.step}; it is not saved. Lower learning_rate ({state.learning_rate})."
            )
        number = next_number(self.checkpoints)
        with writing_save(self.checkpoints, number) as folder:
            write_part(
                folder, self.workers.rank, {"identity": self.identity, "state": content}, arrays
            )
            self.workers.wait()
        if self.workers.rank == 0:
            for damaged in self._damaged:
                drop_save(damaged)
            publish_save(self.checkpoints, number)
        self._damaged.clear()
        self.workers.wait()
        self._reset_timer()
        return self.checkpoints.saves()[-1]

    def _is_due(self) -> bool:
        seconds, steps = self.checkpoints.every_seconds, self.checkpoints.every_steps
        if steps is not None and self._steps + 1 >= steps:
            return True
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def _reset_timer(self) -> None:
        self._saved_at, self._steps = time.monotonic(), 0


class Progress(Protocol):
    """State of a small training that can be saved."""

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state as JSON and arrays."""

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state."""


@dataclass(frozen=True)
class TrainingSaves:
    """The save of one small training, in its own folder, and the checkpoints of the whole fit."""

    folder: Path
    checkpoints: Checkpoints

    def restore(self, progress: Progress) -> bool:
        """Restore the last save; return whether there was one."""
        if not self.folder.is_dir():
            return False
        try:
            content, arrays = read_model(self.folder, kind=KIND)
            progress.unpack(content, arrays)
        except (ModelFileError, KeyError, RuntimeError, ValueError) as error:
            self.checkpoints.report(f"{self.folder} cannot be read and is trained again: {error}")
            return False
        return True

    def save(self, progress: Progress) -> None:
        """Replace the last save."""
        content, arrays = progress.pack()
        write_model(self.folder, kind=KIND, manifest=content, arrays=arrays)

    def check_stop(self) -> None:
        """Raise TrainingStopped if a stop was requested; finished trainings are saved."""
        if self.checkpoints.requested_stop is not None:
            raise TrainingStopped(
                f"training stopped; what is finished is saved in {self.checkpoints.folder}",
                self.checkpoints.requested_stop,
            )


class FitSaves:
    """The saves of all trainings of one fit.

    `parameters`: of the estimator and the call; must be the same to resume.
    `generator`: reset to its state at the beginning of the fit that is resumed.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        groups: Groups,
        parameters: Mapping[str, Any],
        generator: np.random.Generator,
    ) -> None:
        self.checkpoints = checkpoints
        self.folder = checkpoints.folder / FOLDER
        if checkpoints.saves():
            raise CheckpointError(
                f"{checkpoints.folder} holds the checkpoints of another kind of training; give "
                "another folder."
            )
        data = {"fingerprint": fingerprint(groups.arrays())}
        identity = {
            **{name: json_description(value) for name, value in parameters.items()},
            "data": data,
        }
        known = self.folder / IDENTITY
        if known.is_file():
            checkpoints.check_resumed()
            saved = read_json(known)
            check_same_training(checkpoints.folder, saved["identity"], identity)
            checkpoints.announce_resume()
            generator.bit_generator.state = saved["generator"]
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(known, {"identity": identity, "generator": generator.bit_generator.state})

    def training(self, *about: object) -> TrainingSaves:
        """Return the saves of a training, identified by its settings and groups."""
        parts = [fingerprint(each.arrays()) if isinstance(each, Groups) else each for each in about]
        name = hashlib.blake2b(repr(tuple(parts)).encode(), digest_size=8).hexdigest()
        return TrainingSaves(self.folder / name, self.checkpoints)


_saves: ContextVar[FitSaves | None] = ContextVar("saves", default=None)
_report: ContextVar[ProgressCallback | None] = ContextVar("report", default=None)


@contextmanager
def search_context(saves: FitSaves | None, report: ProgressCallback | None) -> Iterator[None]:
    """Set, inside the block, where models of a search are saved and their progress is reported."""
    tokens = _saves.set(saves), _report.set(report)
    try:
        yield
    finally:
        _saves.reset(tokens[0])
        _report.reset(tokens[1])


def current_saves() -> FitSaves | None:
    """Return the saves set by :func:`search_context`."""
    return _saves.get()


def current_report() -> ProgressCallback | None:
    """Return the progress callback set by :func:`search_context`."""
    return _report.get()
