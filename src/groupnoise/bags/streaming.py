"""Bags larger than memory: stored once, decided on a sample, trained on all of them from disk."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.bags.automatic import MIN_BAGS, Outcome, decide_members
from groupnoise.bags.ensemble import (
    BagEnsemble,
    calibrate_bags,
    calibrate_instances,
    centred_log_probabilities,
)
from groupnoise.bags.files import read_bags
from groupnoise.bags.fitted_members import fitted_member, train_batch
from groupnoise.bags.member_training import MemberBatch
from groupnoise.bags.members import MAX_LOG_ODDS, bag_presence, problem_of
from groupnoise.bags.out_of_fold import (
    MAX_SEARCH_LOGITS,
    MAX_SEARCH_ROWS,
    draw_folds,
    member_log_probabilities,
)
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.batching import parts_of_batch
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.exceptions import DataError
from groupnoise.io.data_folder import (
    is_data_folder,
    made_from,
    open_groups,
    record_origin,
    wait_until_made,
    write_groups,
)
from groupnoise.io.datasets import BagDataset

SAMPLE_BAGS = 120
"""Bags that settings are compared on; of each as many instances as the comparison may hold."""
MIN_OF_CLASS = 4
"""Bags of a class that are in the sample, however rare it is."""
HELD_OUT = 5
"""One in so many bags is held out to calibrate probabilities."""
MAX_HELD_OUT_ROWS = 500_000
MAX_MEMBERS = 4
"""Members that are trained on all bags, each of which must be read for every one."""
MAX_ROWS = 1 << 15
"""Instances that are read at a time for answers."""


def decide_anywhere(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    negative: int | None,
    *,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
    truth: IntArray | None = None,
    **how: Any,
) -> Outcome:
    """Decide on members and train them, in memory or from disk.

    Result: the ensemble, and decisions that tell of the sample.
    `bags`: training bags; streamed ones are decided about on a sample.
    `labels`: of shape (n_bags, n_classes).
    `classes`: what the columns stand for.
    `negative`: column of the negative label.
    `generator`: decides all randomness.
    `patients`: whose bags are held out together.
    `truth`: the column of the true label of each instance of bags in memory, -1 where it is not
        known.
    `how`: all else, as `groupnoise.bags.automatic.decide_members` takes it.
    """
    if not isinstance(bags, StreamedGroups):
        return decide_members(
            bags, labels, classes, negative, generator=generator, patients=patients, truth=truth,
            **how,
        )  # fmt: skip
    taken = draw_bags(labels, generator)
    sample = thinned(bags, taken, search_rows(labels), generator)
    outcome = decide_members(
        sample,
        labels[taken],
        classes,
        negative,
        generator=generator,
        patients=None if patients is None else patients[taken],
        **how,
    )
    members = [
        replace(each, settings=each.settings.for_more_bags(len(taken), len(bags)))
        for each in outcome.ensemble.members
    ]
    decided = replace(outcome.ensemble, members=members)
    ensemble = _trained_on_all(decided, bags, labels, generator, patients)
    said = outcome.decisions
    facts = {
        **said.facts,
        "bags": len(bags),
        "instances": bags.n_objects,
        "instances per bag": round(float(np.mean(bags.sizes)), 2),
        "labels per bag": round(float(labels.sum(axis=1).mean()), 2),
        "bags of the sample": len(taken),
        "instances of the sample": sample.n_objects,
    }
    why = (
        f"The bags are larger than memory: settings were compared on {len(taken)} of them with up "
        f"to {int(sample.sizes.max())} instances each, drawn at random; what was taken was then "
        "trained on all bags from disk."
    )
    return Outcome(ensemble, replace(said, facts=facts, reasons=(why, *said.reasons)))


def search_rows(labels: BoolArray) -> int:
    """Return how many instances settings are compared on."""
    n_targets = int(labels.shape[1]) + 1
    return min(MAX_SEARCH_ROWS, max(2_000, MAX_SEARCH_LOGITS // n_targets))


def draw_bags(labels: BoolArray, generator: np.random.Generator) -> IntArray:
    """Return bags whose labels are as frequent as in all, and a few of each rare class.

    Rows in ascending order. `labels`: of shape (n_bags, n_classes).
    """
    n_parts = -(-len(labels) // SAMPLE_BAGS)
    taken = draw_folds(labels, n_parts, generator) == 0
    for column in labels.T:
        missing = MIN_OF_CLASS - int((column & taken).sum())
        if missing > 0:
            taken[generator.permutation(np.flatnonzero(column & ~taken))[:missing]] = True
    rows: IntArray = np.flatnonzero(taken)
    return rows


def thinned(
    bags: StreamedGroups, taken: IntArray, n_rows: int, generator: np.random.Generator
) -> Groups:
    """Return some of the bags in memory, of large ones as many instances as there is room for.

    In single precision. `n_rows`: instances of all of them together. `generator`: decides which
    instances of a bag are taken.
    """
    at_most = max(1, n_rows // len(taken))
    parts = []
    for row in taken:
        bag = bags[int(row)]
        if len(bag) > at_most:
            bag = bag[np.sort(generator.choice(len(bag), at_most, replace=False))]
        parts.append(bag.astype(np.float32))
    return Groups.from_lists(parts)


def _trained_on_all(
    decided: BagEnsemble,
    bags: StreamedGroups,
    labels: BoolArray,
    generator: np.random.Generator,
    patients: NDArray[Any] | None,
) -> BagEnsemble:
    """Train the members taken on all bags, and calibrate them on bags that a first run held out.

    What was learned of thinned bags would not do: a bag with more instances is likelier to have
    a label by chance. Members that see bags as a whole are left out for the same reason.
    """
    negative = decided.negative
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    has_negative, exclusive = negative is not None, bool((named.sum(axis=1) <= 1).all())
    seed = int(generator.integers(2**31))
    codes = None if patients is None else np.unique(patients, return_inverse=True)[1]
    held = _held_out(bags, named, generator, codes)
    problem = problem_of(bags.subset(held), named[held], has_negative) if len(held) else None
    members = []
    averaged, pooled = torch.zeros(()), np.zeros(())
    kept = sorted(decided.members, key=lambda each: -each.weight)[:MAX_MEMBERS]
    total = sum(each.weight for each in kept)
    # Members side by side read the bags once, those of one likelihood are computed at once.
    kept = sorted(kept, key=lambda each: (str(each.settings.batch), each.settings.likelihood))
    for _, alike in groupby(kept, key=lambda each: each.settings.batch):
        together = list(alike)
        batch, scaler = train_batch(
            [each.settings for each in together], bags, named, has_negative, seed, held
        )
        logits = _held_out_logits(batch, bags.sizes, held)
        for number, each in enumerate(together):
            weight, settings = each.weight / total, each.settings
            member = replace(fitted_member(batch, number, scaler), weight=weight)
            if problem is not None:
                mine = logits[:, number : number + 1]
                shares = batch.mixture[:, batch.columns(number)][:, :1]
                found = bag_presence(mine, problem, settings, shares).log_odds.squeeze(1)
                log_odds = found.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).double().numpy()
                scale, shift = calibrate_bags(log_odds, named[held], exclusive, has_negative)
                log_p = member_log_probabilities(mine.squeeze(1), problem.is_binary(settings))
                centred = centred_log_probabilities(log_p)
                spread = max(float((centred - centred.mean(0)).std()), 1e-6)
                member = replace(
                    member,
                    spread=spread,
                    bag_scale=scale,
                    bag_shift=shift + scale * member.bag_shift,
                )
                averaged = averaged + weight / spread * centred
                pooled = pooled + weight * (log_odds * scale + shift)
            members.append(member)
    ensemble = BagEnsemble(
        members, (), named.shape[1], negative, exclusive, scale=1.0, shift=0.0, bag_scale=1.0,
        bag_shift=0.0,
    )  # fmt: skip
    if problem is None:
        return ensemble
    scale, shift = calibrate_instances(averaged, problem, averaged.shape[1] > named.shape[1])
    bag_scale, bag_shift = calibrate_bags(pooled, named[held], exclusive, has_negative)
    return replace(ensemble, scale=scale, shift=shift, bag_scale=bag_scale, bag_shift=bag_shift)


def _held_out(
    bags: StreamedGroups,
    labels: BoolArray,
    generator: np.random.Generator,
    patients: IntArray | None,
) -> IntArray:
    """Return bags to calibrate on, none where there are too few."""
    if len(bags) < MIN_BAGS:
        return np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(draw_folds(labels, HELD_OUT, generator, patients) == 0)
    rows = generator.permutation(rows)
    fits = int((np.cumsum(bags.sizes[rows]) <= MAX_HELD_OUT_ROWS).sum())
    held: IntArray = np.sort(rows[: max(1, fits)])
    return held if len(held) < len(bags) else held[:0]


def _held_out_logits(batch: MemberBatch, sizes: IntArray, held: IntArray) -> Tensor:
    """Return the logits of held-out instances by who has not seen them, (n, n_members, n_out)."""
    if len(held) == 0:
        return torch.zeros(0)
    parts = parts_of_batch(held, sizes[held], MAX_ROWS)
    with torch.no_grad():
        rows = (batch.rows_of(torch.from_numpy(part)) for part in parts)
        return torch.cat([batch.logits(part)[:, :: batch.n_copies] for part in rows])


def bags_on_disk(
    source: str | Path, folder: str | Path, *, wait: bool = False, **options: Any
) -> BagDataset:
    """Write bags to a folder, or open what an earlier call made of the same files.

    Result: its bags are read from disk whatever their size. `source`: a file or a folder, as
    :func:`groupnoise.bags.read_bags` takes it; a data folder is opened where it lies. `folder`:
    where the bags go; it appears whole or not at all. `wait`: leave the work to another process and
    wait until it is done. `options`: columns and the form of the source, passed to
    :func:`groupnoise.bags.read_bags`. Raises DataError if the folder holds anything else, or the
    source changed since.
    """
    folder = Path(folder)
    if is_data_folder(source):
        return _streamed(source)
    report = options.pop("report", None)
    wanted: dict[str, Any] = {"files": _sizes_of(Path(source))}
    if options:
        wanted["options"] = {name: str(value) for name, value in options.items()}
    if wait:
        wait_until_made(folder, wanted)
    if not folder.exists():
        write_groups(folder, read_bags(source, report=report, **options))
        record_origin(folder, wanted)
    elif made_from(folder) != wanted:
        raise DataError(
            f"{folder} was not made from {source} as it is now; remove it or give another folder."
        )
    return _streamed(folder)


def _streamed(folder: str | Path) -> BagDataset:
    stored = open_groups(folder)
    if not isinstance(stored, BagDataset):
        raise DataError(f"{folder} holds a {type(stored).__name__}, not bags.")
    if isinstance(stored.bags, StreamedGroups):
        return stored
    bags = stored.bags
    return replace(stored, bags=StreamedGroups(bags.objects, bags.offsets))


def _sizes_of(source: Path) -> list[list[Any]]:
    """Return name, size and time of change of every file, so that a change is noticed."""
    files = sorted(source.rglob("*")) if source.is_dir() else [source]
    try:
        found = [(file, os.stat(file)) for file in files if file.is_file()]
    except OSError as error:
        raise DataError(f"{source} cannot be read ({error}).") from None
    return [
        [str(file.relative_to(source.parent)), state.st_size, state.st_mtime_ns]
        for file, state in found
    ]
