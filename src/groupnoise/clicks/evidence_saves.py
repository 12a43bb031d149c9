"""Trainings of evidence on disk after each epoch, so that a fit that was ended goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer

from groupnoise.core.groups import Groups
from groupnoise.exceptions import CheckpointError, ModelFileError, TrainingStopped
from groupnoise.io.files import read_json, write_json
from groupnoise.io.model_files import read_model, write_model
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.saver import check_same_training, described, fingerprint

KIND = "training of evidence"
FOLDER = "member-evidence"
IDENTITY = "fit.json"


@dataclass
class EvidenceProgress:
    """What a training of evidence must find again to take the same further steps.

    `model`: what is trained.
    `optimizers`: with their moments.
    `generator`: decides the order of batches.
    `draws`: decide dropped clicks and negatives.
    `records`: one per finished epoch.
    `best`: best validation so far.
    `kept`: the weights that reached it.
    """

    model: nn.Module
    optimizers: list[Optimizer]
    generator: np.random.Generator
    draws: list[torch.Generator]
    records: list[dict[str, Any]] = field(default_factory=list)
    best: float = -np.inf
    kept: dict[str, Tensor] = field(default_factory=dict)

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything as what JSON holds and as arrays."""
        arrays = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        arrays |= {f"kept.{name}": value for name, value in self.kept.items()}
        for name, parameter, optimizer in self._parameters():
            arrays |= {f"{name}.{key}": value for key, value in optimizer.state[parameter].items()}
        for number, draw in enumerate(self.draws):
            arrays[f"draw.{number}"] = draw.get_state()
        content = {
            "generator": self.generator.bit_generator.state,
            "records": self.records,
            "best": None if np.isinf(self.best) else self.best,
        }
        return content, {name: value.detach().cpu().numpy() for name, value in arrays.items()}

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what was packed."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        self.model.load_state_dict(_below("model.", tensors))
        self.kept = _below("kept.", tensors)
        for name, parameter, optimizer in self._parameters():
            state = _below(f"{name}.", tensors)
            optimizer.state[parameter] = {
                key: value.to(parameter.device) for key, value in state.items()
            }
        for number, draw in enumerate(self.draws):
            draw.set_state(tensors[f"draw.{number}"])
        self.generator.bit_generator.state = content["generator"]
        self.records = list(content["records"])
        self.best = -np.inf if content["best"] is None else float(content["best"])

    def _parameters(self) -> list[tuple[str, Tensor, Optimizer]]:
        return [
            (f"optimizer.{number}.{place}", parameter, optimizer)
            for number, optimizer in enumerate(self.optimizers)
            for place, parameter in enumerate(
                each for group in optimizer.param_groups for each in group["params"]
            )
        ]


@dataclass(frozen=True)
class TrainingSaves:
    """The saves of one training.

    `folder`: of this training alone.
    `checkpoints`: of the whole fit; may ask for a stop.
    """

    folder: Path
    checkpoints: Checkpoints

    def restore(self, progress: EvidenceProgress) -> None:
        """Go on after the last epoch that was saved, if there is one."""
        if not self.folder.is_dir():
            return
        try:
            content, arrays = read_model(self.folder, kind=KIND)
            progress.unpack(content, arrays)
        except (ModelFileError, KeyError, RuntimeError, ValueError) as error:
            self.checkpoints.report(f"{self.folder} cannot be read and is trained anew: {error}")

    def save(self, progress: EvidenceProgress) -> None:
        """Write the state after an epoch in place of the last one."""
        content, arrays = progress.pack()
        write_model(self.folder, kind=KIND, manifest=content, arrays=arrays)

    def heed_stop(self) -> None:
        """Leave the training if a stop was asked for; the last epoch is saved."""
        if self.checkpoints.requested_stop is not None:
            raise TrainingStopped(
                f"training stopped; finished epochs are saved in {self.checkpoints.folder}",
                self.checkpoints.requested_stop,
            )


class EvidenceSaves:
    """All trainings of one fit: those of the search, and the last.

    `checkpoints`: whose folder holds them.
    `histories`: what is learned from.
    `parameters`: of the estimator; a fit with others is refused.
    `generator`: set back to where the fit that is resumed began.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        histories: Groups,
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
        data = {"fingerprint": fingerprint([histories.objects, histories.offsets])}
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
            generator.bit_generator.state = saved["generator"]
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(known, {"identity": identity, "generator": generator.bit_generator.state})

    def training(self, histories: Groups, *settings: object) -> TrainingSaves:
        """Return the saves of a training, found by its data and settings.

        `histories`: what it learns from: all clicks, or those that were not held out. `settings`:
        whatever else decides it.
        """
        about = (fingerprint([histories.objects, histories.offsets]), *settings)
        name = hashlib.blake2b(repr(about).encode(), digest_size=8).hexdigest()
        return TrainingSaves(self.folder / name, self.checkpoints)


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
