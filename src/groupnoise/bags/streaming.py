"""Bags larger than memory: settings chosen on a sample, members trained on all bags from disk."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.reading.reader import read_bags
from groupnoise.bags.search.decide import MIN_BAGS, Outcome, SearchRequest, decide_members
from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.full_training import draw_held_out_bags, train_on_all
from groupnoise.bags.search.held_out_bags import calibrate_ensemble, combine_members, draw_folds
from groupnoise.bags.search.members import PSEUDO_LABELS
from groupnoise.bags.search.out_of_fold import search_rows
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset
from groupnoise.io.folders.data_folder import is_data_folder, make_once, open_groups, write_groups

SAMPLE_BAGS = 120
"""Bags in the sample that settings are compared on."""
MIN_OF_CLASS = 4
"""Minimum bags of a class in the sample."""
MAX_MEMBERS = 4
"""Members trained on all bags; each of them reads all data."""


def decide_from_memory_or_disk(
    bags: Groups,
    labels: BoolArray,
    classes: NDArray[Any],
    negative: int | None,
    request: SearchRequest,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
    truth: IntArray | None = None,
) -> Outcome:
    """Search and train an ensemble, on a sample first if the bags are on disk."""
    if not isinstance(bags, StreamedGroups):
        return decide_members(bags, labels, classes, negative, request, generator, patients, truth)
    taken = sample_bags(labels, generator)
    sample = subsample_instances(bags, taken, search_rows(labels), generator)
    own = None if patients is None else patients[taken]
    # The final training from disk supports no students.
    given = (
        None
        if request.given is None
        else [each for each in request.given if each[1].get("likelihood") != PSEUDO_LABELS]
    )
    request = replace(request, given=given, students=False)
    outcome = decide_members(sample, labels[taken], classes, negative, request, generator, own)
    ensemble = _trained_on_all(outcome.ensemble, len(taken), bags, labels, generator, patients)
    said = outcome.decisions
    facts = {
        **said.facts,
        "bags": len(bags),
        "instances": bags.n_objects,
        "instances per bag": round(float(np.mean(bags.sizes)), 2),
        "labels per bag": round(float(labels.sum(axis=1).mean()), 2),
        "bags in the sample": len(taken),
        "instances in the sample": sample.n_objects,
    }
    why = (
        f"The bags are larger than memory: settings were compared on {len(taken)} of them with up "
        f"to {counted(int(sample.sizes.max()), 'instances')} each, drawn at random; the chosen "
        "ones were then trained on all bags from disk."
    )
    decisions = replace(said, facts=facts, reasons=(why, *said.reasons))
    # Held-out bags of the sample are thinned; instances are what they are all the same.
    return Outcome(ensemble, decisions, outcome.instance_sets)


def sample_bags(labels: BoolArray, generator: np.random.Generator) -> IntArray:
    """Return a stratified sample of bags, with a minimum of each class."""
    n_parts = -(-len(labels) // SAMPLE_BAGS)
    taken = draw_folds(labels, n_parts, generator) == 0
    for column in labels.T:
        missing = MIN_OF_CLASS - int((column & taken).sum())
        if missing > 0:
            taken[generator.permutation(np.flatnonzero(column & ~taken))[:missing]] = True
    return np.flatnonzero(taken)


def subsample_instances(
    bags: StreamedGroups, taken: IntArray, n_rows: int, generator: np.random.Generator
) -> Groups:
    """Return some bags in memory, in single precision, with about `n_rows` instances in total."""
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
    n_compared: int,
    bags: StreamedGroups,
    labels: BoolArray,
    generator: np.random.Generator,
    patients: NDArray[Any] | None,
) -> BagEnsemble:
    """Train the chosen members on all bags, and calibrate them on held-out bags.

    Models of subsampled bags would be biased: a bag with more instances is more likely to have a
    label by chance. Whole-bag members are left out for the same reason.
    """
    negative = decided.negative
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    seed = int(generator.integers(2**31))
    kept = sorted(decided.members, key=lambda each: -each.weight)[:MAX_MEMBERS]
    total = sum(each.weight for each in kept)
    settings = [each.settings.with_scaled_decay(n_compared, len(bags)) for each in kept]
    few = len(bags) < MIN_BAGS
    held = None if few else draw_held_out_bags(bags, named, generator, patients)
    has_negative = negative is not None or not named.any(axis=1).all()
    shares = any(each.background is not None for each in decided.members)
    trained = train_on_all(
        settings, bags, named, has_negative, seed, held, shares_background=shares
    )
    members = [
        replace(member, weight=each.weight / total)
        for member, each in zip(trained.members, kept, strict=True)
    ]
    ensemble = combine_members(members, (), named, negative)
    return (
        ensemble
        if trained.bags is None
        else calibrate_ensemble(ensemble, trained.predictions, trained.bags)
    )


def bags_on_disk(
    source: str | Path, folder: str | Path, *, wait: bool = False, **options: Any
) -> BagDataset:
    """Convert bags to a data folder once, and open it; bags are streamed whatever their size.

    A data folder is opened in place. `wait`: wait for another process to convert. `options`: of
    :func:`groupnoise.bags.read_bags`.
    """
    place = Path(folder)
    if is_data_folder(source):
        return _streamed(source)
    report = options.pop("report", None)
    wanted: dict[str, Any] = {"files": _sizes_of(Path(source))}
    if options:
        wanted["options"] = {name: str(value) for name, value in options.items()}

    def make() -> Path:
        return write_groups(place, read_bags(source, report=report, **options))

    make_once(place, make, wanted, source=source, wait=wait)
    return _streamed(place)


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
