"""The options of evidence models for a log, and their training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from groupnoise.clicks.evidence.linear import (
    MAX_NEXT_CATALOGUE,
    NEXT,
    RANK,
    LinearEvidence,
    fit_ease,
    fit_following,
    fit_next,
)
from groupnoise.clicks.evidence.model import Evidence, EvidenceModel, sum_evidence
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
from groupnoise.clicks.evidence.spectral import SpectralVectors, spectral_vectors
from groupnoise.clicks.evidence.steps import EvidencePlan
from groupnoise.clicks.evidence.training import train_evidence
from groupnoise.clicks.windows.cutting import cut_windows
from groupnoise.core.arrays import ProgressCallback, torch_generator
from groupnoise.core.device import keeping_freed_memory
from groupnoise.core.groups import Groups
from groupnoise.core.threads import threads_for
from groupnoise.decisions.portfolio import Option
from groupnoise.training.saver import FitSaves
from groupnoise.training.state import Moments

DECIDED = (
    *("dim", "shared", "window_size", "candidates", "n_negatives", "init", "max_epochs"),
    *("batch_size", "learning_rate", "weight_decay", "levelling", "encoder"),
)
"""Parameters chosen on held-out clicks where they are "auto"."""
ENCODERS = ("recurrence", "deep recurrence")
DEEP = "deep recurrence"
ENCODER_SIZES = {"recurrence": (64, 1), DEEP: (128, 2)}
"""Width of the states and number of layers of each encoder."""
DEEP_EPOCHS = 2
"""Epochs of a deep recurrence per epoch of the others: it has more to learn, and a single table."""
SPECTRAL_WINDOW = 5
SPECTRAL_RATE = 0.3
DENSE_CLICKS_PER_ITEM = 50
LEVELLING = 0.2
"""How soon the loss of a click levels off: many clicks of a log that is not dense are foretold by
nothing before them, and by the cross-entropy these would move the vectors most."""
MIN_HISTORY, MAX_HISTORY = 20, 200
SMALL_LOG, LARGE_LOG = 20_000, 300_000
"""Targets up to which a batch is smaller, and beyond which it is larger; more passes than four over
the rare items of a log that is not small fit its noise."""
REGRESSIONS = {"together": fit_ease, "following": fit_following, NEXT: fit_next}
TRIAL_TARGETS = 150_000
"""Targets beyond which options are tried on a sample of the histories."""


def click_options(histories: Groups, n_items: int) -> list[Option]:
    """Return the options to try on a log, the safest first."""
    length = int(np.clip(np.percentile(histories.sizes, 95), MIN_HISTORY, MAX_HISTORY))
    n_targets = int(histories.n_objects - len(histories))
    is_dense = histories.n_objects / n_items >= DENSE_CLICKS_PER_ITEM
    common: dict[str, Any] = {
        "dim": min(128, n_items),
        "window_size": length,
        "init": "spectral",
        "candidates": "sampled",
        "n_negatives": 512,
        "max_epochs": 6 if n_targets <= SMALL_LOG else 5 if is_dense else 4,
        "batch_size": 256 if n_targets <= SMALL_LOG else 512 if n_targets <= LARGE_LOG else 1024,
        "learning_rate": 5e-3,
        "weight_decay": 0.3 if is_dense else 1.0,
        "levelling": 0.0 if is_dense else LEVELLING,
    }

    rows: list[tuple[str, str, bool, Any]] = [
        ("two tables", "clicked and next items play different roles", False, None),
        ("one table", "items clicked after each other are similar", True, None),
        ("in order", "the order of clicks matters", False, "recurrence"),
        ("both", "both the clicks and their order matter", False, ("recurrence", None)),
        ("deep", "the order of many clicks matters most", True, DEEP),
        (
            "two in order",
            "order matters most, at short and long range",
            False,
            (DEEP, "recurrence"),
        ),
        ("all three", "they make different errors", False, (DEEP, "recurrence", None)),
    ]
    return [
        Option(name, {**common, "shared": shared, "encoder": encoder}, why)
        for name, why, shared, encoder in rows
    ]


def sample_for_trials(
    histories: Groups, generator: np.random.Generator
) -> tuple[Groups, Groups | None]:
    """Return all histories, or a sample of a large log for short trials, and the rest."""
    if histories.n_objects - len(histories) <= TRIAL_TARGETS:
        return histories, None
    order = generator.permutation(len(histories))
    n_kept = int(np.searchsorted(np.cumsum(histories.sizes[order] - 1), TRIAL_TARGETS)) + 1
    if n_kept == len(histories):
        return histories, None
    return histories.subset(np.sort(order[:n_kept])), histories.subset(np.sort(order[n_kept:]))


def member_encoders(encoder: Any) -> tuple[str | None, ...]:
    """Return the encoder of each member."""
    return tuple(encoder) if isinstance(encoder, (list, tuple)) else (encoder,)


def _members_of(parameters: Mapping[str, Any]) -> list[tuple[dict[str, Any], int]]:
    """Return the parameters of each member, and the number of earlier members with its encoder.

    A deep recurrence always shares one table.
    """
    encoders = member_encoders(parameters["encoder"])
    return [
        (
            {**parameters, "encoder": each, "shared": each == DEEP or bool(parameters["shared"])},
            encoders[:number].count(each),
        )
        for number, each in enumerate(encoders)
    ]


def count_epochs(parameters: Mapping[str, Any], encoder: str | None, share: float) -> int:
    """Return the number of epochs of a member."""
    epochs = int(parameters["max_epochs"]) * (DEEP_EPOCHS if encoder == DEEP else 1)
    return max(1, round(share * epochs))


@dataclass(frozen=True)
class EvidenceLearner:
    """Trains evidence on histories under the parameters of an option.

    `seed`: of all random numbers, the same for all options.
    `saves`: where trainings are saved after each epoch, and resumed from.
    `moments`: filled with the optimizer states of the members of :meth:`train`.
    """

    n_items: int
    seed: int
    saves: FitSaves | None = None
    moments: list[Moments] | None = None
    _known: dict[str, Evidence] = field(default_factory=dict, repr=False, compare=False)
    _initializations: dict[int, tuple[Groups, SpectralVectors]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def train_trial(
        self,
        histories: Groups,
        parameters: Mapping[str, Any],
        share: float,
        on_epoch: ProgressCallback | None = None,
    ) -> Evidence:
        """Return evidence trained with a share of the epochs; members are trained once.

        `histories`: the same in all calls.
        """
        members = []
        for own, repeat in _members_of(parameters):
            key = repr((sorted(own.items()), share, repeat))
            if key not in self._known:
                self._known[key], _ = self._train_member(
                    histories, own, repeat, share, on_epoch=on_epoch
                )
            members.append(self._known[key])
        return average_evidence(members)

    def train(
        self,
        histories: Groups,
        parameters: Mapping[str, Any],
        *,
        validate: Any = None,
        on_epoch: ProgressCallback | None = None,
    ) -> tuple[Evidence, list[dict[str, Any]]]:
        """Return the trained evidence, and the records of its epochs."""
        of_members = _members_of(parameters)
        members, records = [], []
        for number, (own, repeat) in enumerate(of_members):
            more = {} if len(of_members) == 1 else {"member": number + 1}
            moments: Moments | None = None if self.moments is None else {}
            found, epochs = self._train_member(
                histories, own, repeat, validate=validate,
                on_epoch=with_fields(on_epoch, **more), moments=moments,
            )  # fmt: skip
            if self.moments is not None and moments is not None:
                self.moments.append(moments)
            members.append(found)
            records += [{**record, **more} for record in epochs]
        return average_evidence(members), records

    def _train_member(
        self,
        histories: Groups,
        parameters: Mapping[str, Any],
        repeat: int,
        share: float = 1.0,
        *,
        validate: Any = None,
        on_epoch: ProgressCallback | None = None,
        moments: Moments | None = None,
    ) -> tuple[Evidence, list[dict[str, Any]]]:
        encoder: str | None = parameters["encoder"]
        generator = np.random.default_rng(self.seed + repeat)
        dim = min(int(parameters["dim"]), self.n_items)
        if parameters["init"] == "random":
            vectors = generator.normal(scale=0.05, size=(self.n_items, dim)).astype(np.float32)
            bias = np.zeros(self.n_items, dtype=np.float32)
        else:
            vectors, bias = self._spectral(histories, dim, generator)
        plan = EvidencePlan.of(parameters, count_epochs(parameters, encoder, share))
        length = int(parameters["window_size"])
        recurrence = None
        if encoder is not None:
            draws = torch_generator(generator)
            recurrence = RecurrentEncoder(dim, *ENCODER_SIZES[encoder], length, generator=draws)
        model = EvidenceModel(
            vectors,
            bias,
            history_length=length,
            shared=parameters["shared"],
            encoder=recurrence,
        )
        saves = None
        if self.saves is not None:
            settings = sorted(parameters.items())
            saves = self.saves.training(histories, settings, repeat, share)
        with threads_for(plan.work_of_step(model)), keeping_freed_memory():
            records = train_evidence(
                model,
                histories,
                plan,
                generator,
                validate=None if validate is None else lambda: validate(model.evidence()),
                on_epoch=on_epoch,
                saves=saves,
                moments=moments,
            )
        if moments:
            model.rescale(moments)
        return model.evidence(), records

    def _spectral(
        self, histories: Groups, dim: int, generator: np.random.Generator
    ) -> SpectralVectors:
        """Return initial vectors, computed once for all options of the same histories."""
        last = self._initializations.get(dim)
        if last is None or last[0] is not histories:
            windows = cut_windows(histories, size=SPECTRAL_WINDOW, min_size=1).groups
            own = np.random.default_rng(self.seed)
            start = spectral_vectors(windows, self.n_items, dim, rate=SPECTRAL_RATE, generator=own)
            self._initializations[dim] = last = (histories, start)
        generator.integers(1 << 31)  # keeps later draws as without the cache
        return last[1]

    def linear(
        self, histories: Groups, ranks: Mapping[str, int] | None = None
    ) -> dict[str, LinearEvidence]:
        """Return regressions between items.

        `ranks`: number of eigenvectors by regression; by default the maximum of all that suit a
            catalogue of this size.
        """
        usual = [name for name in REGRESSIONS if name != NEXT or self.n_items <= MAX_NEXT_CATALOGUE]
        return {
            name: REGRESSIONS[name](
                histories, self.n_items, np.random.default_rng(self.seed + 1), rank=rank
            )
            for name, rank in (ranks or dict.fromkeys(usual, RANK)).items()
        }


def average_evidence(members: list[Evidence]) -> Evidence:
    """Return evidence with the average scores of the members."""
    if len(members) == 1:
        return members[0]
    return sum_evidence([member.scaled(1 / len(members)) for member in members])


def with_fields(on_epoch: ProgressCallback | None, **more: Any) -> ProgressCallback | None:
    """Return a callback whose records have further fields, such as the trial of an epoch."""
    return None if on_epoch is None else lambda record: on_epoch({**record, **more})
