"""Updating trained evidence with more clicks on a grown catalogue.

Given the whole log, the vectors of every member are initialised anew, by spectral vectors of the
new log rotated onto the old ones, and its biases, encoder and position weights are kept; then fewer
epochs are needed than in a first training. Continuing from the old vectors instead would pass over
old clicks a fifth and a sixth time, which overfits. Given new clicks alone, a few small steps are
taken from the old vectors. A new item begins at the mean of the items that it was clicked with.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from groupnoise.clicks.evidence.linear import MIN_LEAD, add_linear, linear_length, linear_ranks
from groupnoise.clicks.evidence.model import (
    Evidence,
    EvidenceModel,
    HeldOut,
    evidence_gains,
    sum_evidence,
)
from groupnoise.clicks.evidence.options import (
    SPECTRAL_RATE,
    SPECTRAL_WINDOW,
    EvidenceLearner,
    average_evidence,
    member_encoders,
)
from groupnoise.clicks.evidence.recurrence import Recurrence
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
from groupnoise.clicks.evidence.spectral import cooccurrence_matrix, spectral_vectors
from groupnoise.clicks.evidence.steps import EvidencePlan
from groupnoise.clicks.evidence.training import train_evidence
from groupnoise.clicks.items.catalogue import Catalogue
from groupnoise.clicks.items.features import (
    FeatureMap,
    MeasureBias,
    QueriesBefore,
    blend_vectors,
    learn_feature_map,
)
from groupnoise.clicks.items.table import ItemRows, positions_of
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.clicks.windows.cutting import cut_windows
from groupnoise.core.arrays import (
    FloatArray,
    ProgressCallback,
    count_ids,
    torch_generator,
)
from groupnoise.core.device import keeping_freed_memory
from groupnoise.core.groups import Groups
from groupnoise.core.threads import threads_for
from groupnoise.core.words import counted
from groupnoise.training.state import Moments

NEIGHBOUR_SMOOTHING = 1.0
"""Added to the co-occurrences of a new item; keeps rare ones near the origin."""
EPOCHS_SHARE = 0.75
"""Share of the epochs of a first training, given the whole log."""
CAREFUL_RATE = 0.04
"""Step size of an update from new clicks alone, in units of that of a first training: Adam moves
every row that a batch looks up by as much, however small its gradient."""

VECTORS = ("objects.", "targets.")
"""Prefixes of the optimizer state of the vectors."""

Anchors = tuple[NDArray[np.float32], NDArray[np.float32]]


class ResumedEvidence(EvidenceModel):
    """Trained evidence as a module, to be trained further.

    `evidence`: of one member.
    `generator`: of the dropout of its encoder.
    """

    def __init__(self, evidence: Evidence, generator: np.random.Generator) -> None:
        length = evidence.position_weights.shape[1]
        super().__init__(evidence.objects, evidence.bias, history_length=length, shared=False)
        self._widths = evidence.block_widths
        self.n_blocks = len(self._widths)
        self.targets = nn.Parameter(torch.from_numpy(evidence.targets.copy()))
        with np.errstate(divide="ignore"):
            log_weights = np.log(evidence.position_weights)
        self.log_weights = nn.Parameter(torch.from_numpy(log_weights), requires_grad=False)
        exponents = torch.tensor(evidence.exponents, dtype=torch.float32)
        self.exponent_logits = nn.Parameter(exponents, requires_grad=False)
        if evidence.encoders:
            self.encoder = _load_encoder(evidence.encoders[0], generator)
        self._read = evidence

    @property
    def block_widths(self) -> tuple[int, ...]:
        """Dimensions of each block."""
        return self._widths

    @property
    def exponents(self) -> Tensor:
        """Exponents of the sums of weights that divide the blocks, shape (blocks,)."""
        return self.exponent_logits.data

    @torch.no_grad()
    def evidence(self) -> Evidence:
        """Return the learned parameters as arrays."""
        encoder = self.encoder
        return replace(
            self._read,
            objects=self.objects.numpy().copy(),
            targets=self.targets.numpy().copy(),
            bias=self.bias.numpy().copy(),
            encoders=() if encoder is None else (encoder.as_arrays(torch.ones(self.dim)),),
        )


def _load_encoder(encoder: Recurrence, generator: np.random.Generator) -> RecurrentEncoder:
    sizes = (encoder.width, encoder.hidden, encoder.n_layers, encoder.length)
    reader = RecurrentEncoder(*sizes, generator=torch_generator(generator))
    weights = encoder.named_weights().items()
    reader.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in weights})
    return reader


def resume_training(
    evidence: Evidence,
    histories: Groups,
    parameters: Mapping[str, Any],
    generator: np.random.Generator,
    *,
    is_whole: bool,
    on_epoch: ProgressCallback | None = None,
    moments: list[Moments] | None = None,
) -> tuple[Evidence, list[dict[str, Any]]]:
    """Train evidence further; return it and the records of its epochs.

    `evidence`: of all items, new ones included.
    `parameters`: those chosen when the evidence was first trained.
    `is_whole`: whether the histories are the whole log, not new clicks alone.
    `moments`: the optimizer state of each member, replaced by the new one; that of vectors which
        are initialised anew is dropped.
    """
    linear = {name: values for name, values in (parameters["linear"] or {}).items() if values[0]}
    n_members = len(member_encoders(parameters["encoder"]))
    members, rest = split_members(evidence, n_members, len(linear))
    n_items, dim = members[0].objects.shape
    start = None
    if is_whole and parameters["init"] == "spectral":
        windows = cut_windows(histories, size=SPECTRAL_WINDOW, min_size=1).groups
        start = spectral_vectors(windows, n_items, dim, rate=SPECTRAL_RATE, generator=generator)
    plan = EvidencePlan.of(parameters, max_epochs=1, rate_scale=CAREFUL_RATE)
    if start is not None:
        n_epochs = max(1, round(EPOCHS_SHARE * parameters["max_epochs"]))
        plan = EvidencePlan.of(parameters, n_epochs)
    learned, records = [], []
    for number, member in enumerate(members):
        anchors = None
        remembered: Moments | None = None
        if start is not None:
            f, g = align_vectors(start.vectors, member)
            anchors = (torch.from_numpy(f), torch.from_numpy(g))
            member = replace(member, objects=f, targets=g)
        if moments is not None:
            kept = moments[number]
            if start is not None:
                kept = {name: kept[name] for name in kept if not name.startswith(VECTORS)}
            remembered = moments[number] = kept
        model = ResumedEvidence(member, generator)
        with threads_for(plan.work_of_step(model)), keeping_freed_memory():
            records += train_evidence(
                model,
                histories,
                plan,
                generator,
                anchors=anchors,
                on_epoch=on_epoch,
                moments=remembered,
            )
        learned.append(model.evidence())
    together = average_evidence(learned)
    if not linear:
        return together, records
    if not is_whole:
        return sum_evidence([together, *rest]), records
    learner = EvidenceLearner(n_items, int(generator.integers(1 << 31)))
    regressions = learner.linear(histories, linear_ranks(linear))
    return add_linear(together, regressions, linear, linear_length(histories)), records


def split_members(
    evidence: Evidence, n_members: int, n_linear: int
) -> tuple[list[Evidence], list[Evidence]]:
    """Take apart what :func:`groupnoise.clicks.evidence.model.sum_evidence` put together.

    Returns `members`: each with its own scores, and the common bias; `linear`: one block each,
    without biases. `evidence`: the average of members followed by linear evidence. `n_members`,
    `n_linear`: the number of each.
    """
    n_blocks = len(evidence.block_widths) - n_linear
    sizes = [n_blocks // n_members] * n_members + [1] * n_linear
    parts, block, begin = [], 0, 0
    for size in sizes:
        widths = evidence.block_widths[block : block + size]
        end = begin + sum(widths)
        weights = evidence.position_weights[block : block + size]
        length = int(np.flatnonzero(weights.any(axis=0))[-1]) + 1
        parts.append(
            Evidence(
                evidence.objects[:, begin:end],
                evidence.targets[:, begin:end],
                np.zeros_like(evidence.bias),
                widths,
                weights[:, :length],
                evidence.exponents[block : block + size],
                tuple(
                    each.moved(-begin) for each in evidence.encoders if begin <= each.begin < end
                ),
            )
        )
        block, begin = block + size, end
    members = [replace(part.scaled(n_members), bias=evidence.bias) for part in parts[:n_members]]
    return members, parts[n_members:]


def align_vectors(start: NDArray[np.float32], member: Evidence) -> Anchors:
    """Rotate initial vectors onto those of a member (orthogonal Procrustes).

    Returns f and g of shape (n_items, dim): the rotation closest to g, and the same with the scale
    of f in each block. `start` (n_items, dim): initial vectors. `member`: trained from other
    initial vectors of much the same items.
    """
    left, _, right = np.linalg.svd(start.T @ member.targets)
    targets = (start @ (left @ right)).astype(np.float32)
    objects, begin = targets.copy(), 0
    for width in member.block_widths:
        own = slice(begin, begin + width)
        along_f = float((targets[:, own] * member.objects[:, own]).sum())
        along_g = float((targets[:, own] * member.targets[:, own]).sum())
        objects[:, own] *= along_f / along_g if along_f > 0 and along_g > 0 else 1.0
        begin += width
    return objects, targets


def place_new_items(vectors: ItemVectors, histories: Groups, popularity: FloatArray) -> ItemVectors:
    """Return vectors of a grown catalogue with new items at the mean of their neighbours.

    A new item has the mean vectors of the items it was clicked with, zero without any, and the
    bias that a regression on popularity predicts. `vectors`: of the first items of the catalogue.
    `histories`: item indices in time order, new items included. `popularity`: clicks of every item.
    """
    n_old, n_items = len(vectors.bias), len(popularity)
    if n_items == n_old:
        return vectors
    together = sparse.csr_array((n_items - n_old, n_old))
    if histories.sizes.max() > 1:
        windows = cut_windows(histories, size=SPECTRAL_WINDOW, min_size=1).groups
        together = cooccurrence_matrix(windows, n_items, SPECTRAL_RATE)[n_old:, :n_old]
    weight = np.asarray(together.sum(axis=1)).ravel() + NEIGHBOUR_SMOOTHING

    def with_new(rows: NDArray[np.float32]) -> NDArray[np.float32]:
        new = (together @ rows) / weight[:, None]
        return np.concatenate([rows, new.astype(np.float32)])

    clicks = np.log1p(popularity)
    slope, level = np.polyfit(clicks[:n_old], vectors.bias, 1) if n_old > 1 else (0.0, 0.0)
    bias = (level + slope * clicks[n_old:]).astype(np.float32)
    return ItemVectors(
        with_new(vectors.query), with_new(vectors.target), np.concatenate([vectors.bias, bias])
    )


STRENGTHS = (0.5, 1.0, 2.0, 5.0)
"""Candidate numbers of clicks that features count for."""


def choose_strength(
    catalogue: Catalogue,
    rows: ItemRows,
    trial: Evidence,
    held: HeldOut,
    generator: np.random.Generator,
) -> float:
    """Choose on held-out clicks for how many clicks features count.

    0 if blending is not significantly better: then clicked items are not moved. `trial`: trained
    without the held-out clicks.
    """
    clicks = count_ids(held.training.objects, len(catalogue)).astype(np.float64)
    positions = positions_of(catalogue, rows)
    known = np.flatnonzero(positions >= 0)
    positions = positions[known]
    table = rows.columns[known.tolist()]
    own = ItemVectors(trial.objects[positions], trial.targets[positions], trial.bias[positions])
    told = learn_feature_map(table, own, clicks[positions], generator).vectors(table)

    def gains_with(strength: float) -> FloatArray:
        mixed = blend_vectors(own, told, clicks[positions], strength)
        parts = [part.copy() for part in (trial.objects, trial.targets, trial.bias)]
        for part, moved in zip(parts, mixed, strict=True):
            part[positions] = moved
        objects, targets, bias = parts
        evidence = replace(trial, objects=objects, targets=targets, bias=bias)
        return evidence_gains(evidence, held.queries)

    plain = gains_with(0.0)
    tried = {strength: gains_with(strength) for strength in STRENGTHS}
    best = max(tried, key=lambda strength: float(tried[strength].mean()))
    lead = tried[best] - plain
    is_ahead = lead.mean() > MIN_LEAD * lead.std() / np.sqrt(len(lead))
    return best if is_ahead else 0.0


def place_by_features(
    catalogue: Catalogue,
    rows: ItemRows,
    vectors: ItemVectors,
    clicks: FloatArray,
    generator: np.random.Generator,
    *,
    strength: float = 0.0,
    queries_before: QueriesBefore | None = None,
    measure_bias: MeasureBias | None = None,
) -> tuple[FeatureMap, ItemVectors]:
    """Learn a map from features to vectors, and place items with few clicks or none by it.

    Returns `features`; `vectors`: of all items.
    `catalogue`: all items; those beyond the trained vectors are new.
    `strength`: clicks that features count for beside an item's own.
    `queries_before`, `measure_bias`: as in `learn_feature_map`.
    """
    positions = positions_of(catalogue, rows)
    n_new = len(catalogue) - len(vectors.bias)
    everything = ItemVectors(
        *(np.concatenate([part, np.zeros((n_new, *part.shape[1:]), "f4")]) for part in vectors)
    )
    n_missing = int((clicks > 0).sum() - (clicks[positions] > 0).sum())
    if n_missing:
        warnings.warn(
            f"{counted(n_missing, 'clicked items')} {'has' if n_missing == 1 else 'have'} no row "
            f"in {rows.origin}; they keep what their clicks say.",
            UserWarning,
            stacklevel=3,
        )
    own = ItemVectors(*(part[positions] for part in everything))
    features = learn_feature_map(
        rows.columns,
        own,
        clicks[positions],
        generator,
        positions=positions,
        queries_before=queries_before,
        measure_bias=measure_bias,
    )
    described = features.vectors(rows.columns)
    new = np.flatnonzero(clicks[positions] == 0)
    if len(new):  # a clicked item would be its own nearest item
        placed = features.vectors(rows.columns[new.tolist()], everything)
        for part, moved in zip(described, placed, strict=True):
            part[new] = moved
    mixed = blend_vectors(own, described, clicks[positions], strength)
    for part, moved in zip(everything, mixed, strict=True):
        part[positions] = moved
    return features, everything
