"""Saves of a fit that makes many trainings, each found again by its data and settings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import ProgressCallback
from groupnoise.core.groups import Groups
from groupnoise.exceptions import CheckpointError, ModelFileError, TrainingStopped
from groupnoise.io.files import read_json, write_json
from groupnoise.io.model_files import read_model, write_model
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.saver import check_same_training, described, fingerprint

KIND = "training of a fit"
FOLDER = "member-fit"
IDENTITY = "fit.json"


class Progress(Protocol):
    """What a training must find again to take the same further steps."""

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything as what JSON holds and as arrays."""

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what was packed."""


@dataclass(frozen=True)
class TrainingSaves:
    """The saves of one training.

    `folder`: of this training alone.
    `checkpoints`: of the whole fit; may ask for a stop.
    """

    folder: Path
    checkpoints: Checkpoints

    def restore(self, progress: Progress) -> bool:
        """Go on after what was saved last, and tell whether there was anything."""
        if not self.folder.is_dir():
            return False
        try:
            content, arrays = read_model(self.folder, kind=KIND)
            progress.unpack(content, arrays)
        except (ModelFileError, KeyError, RuntimeError, ValueError) as error:
            self.checkpoints.report(f"{self.folder} cannot be read and is trained anew: {error}")
            return False
        return True

    def save(self, progress: Progress) -> None:
        """Write the state in place of the last one."""
        content, arrays = progress.pack()
        write_model(self.folder, kind=KIND, manifest=content, arrays=arrays)

    def heed_stop(self) -> None:
        """Leave the training if a stop was asked for; what is finished is saved."""
        if self.checkpoints.requested_stop is not None:
            raise TrainingStopped(
                f"training stopped; what is finished is saved in {self.checkpoints.folder}",
                self.checkpoints.requested_stop,
            )


class FitSaves:
    """All trainings of one fit: those of the search, and the last.

    `checkpoints`: whose folder holds them.
    `groups`: what is learned from.
    `parameters`: of the estimator, and what else is given; a fit with others is refused.
    `generator`: set back to where the fit that is resumed began.
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
        identity = {**{name: described(value) for name, value in parameters.items()}, "data": data}
        known = self.folder / IDENTITY
        if known.is_file():
            if not checkpoints.resume:
                raise CheckpointError(
                    f"{checkpoints.folder} holds checkpoints already; resume from them (--resume, "
                    "or resume=True), or give another folder."
                )
            saved = read_json(known)
            check_same_training(checkpoints.folder, saved["identity"], identity)
            checkpoints.tell_resumed()
            generator.bit_generator.state = saved["generator"]
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(known, {"identity": identity, "generator": generator.bit_generator.state})

    def training(self, *about: object) -> TrainingSaves:
        """Return the saves of a training, found by what decides it.

        `about`: its settings, and groups that it learns from.
        """
        told = [fingerprint(each.arrays()) if isinstance(each, Groups) else each for each in about]
        name = hashlib.blake2b(repr(tuple(told)).encode(), digest_size=8).hexdigest()
        return TrainingSaves(self.folder / name, self.checkpoints)


_saves: ContextVar[FitSaves | None] = ContextVar("saves", default=None)
_report: ContextVar[ProgressCallback | None] = ContextVar("report", default=None)


@contextmanager
def small_models(saves: FitSaves | None, report: ProgressCallback | None) -> Iterator[None]:
    """Say where the small models of a search are saved when trained, and who hears of it."""
    tokens = _saves.set(saves), _report.set(report)
    try:
        yield
    finally:
        _saves.reset(tokens[0])
        _report.reset(tokens[1])


def current_saves() -> FitSaves | None:
    """Return where small models are saved, if anywhere."""
    return _saves.get()


def current_report() -> ProgressCallback | None:
    """Return who hears of the steps of small models that are trained on everything, if anyone."""
    return _report.get()
