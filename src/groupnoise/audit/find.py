"""Finding issues: every group is judged by a fitted model or out of fold."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import Findings
from groupnoise.audit.issues import GroupIssues
from groupnoise.core.arrays import (
    Columns,
    FloatArray,
    IntArray,
    ProgressCallback,
    RandomState,
    generator_from,
    offsets_from_sizes,
    ragged_rows,
    stratified_folds,
)
from groupnoise.core.checks import check_count
from groupnoise.core.words import counted
from groupnoise.exceptions import CalibrationWarning, DataError, ParameterError
from groupnoise.io.setting import Setting, find_setting, setting_of, setting_of_model

SCALE_GAIN = 2.0
"""Gain in nats, over a block, that fitted label scales reach by chance."""
BLOCK_OBJECTS = 1 << 16
"""Objects judged at a time, which bounds memory."""


class AuditSource(Protocol):
    """Data that models can be trained on and can judge."""

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        ...

    @property
    def dataset(self) -> Any:
        """The data itself."""
        ...

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Names for the numbers in columns of the tables."""
        ...

    @property
    def group_counts(self) -> IntArray:
        """Number of groups of each row, shape (n_rows,)."""
        ...

    @property
    def object_counts(self) -> IntArray:
        """Number of objects of each row, shape (n_rows,)."""
        ...

    @property
    def strata(self) -> IntArray:
        """Strata for the folds, shape (n_rows,)."""
        ...

    def __len__(self) -> int: ...

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on some rows."""
        ...

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a fitted model on rows it has not seen."""
        ...

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return the findings of a fitted model about some rows."""
        ...


def source_of(model: Any, groups: Any, targets: Any = None) -> AuditSource:
    """Return the audit source of data in any supported form."""
    own = setting_to_audit(model)
    dataset = groups if hasattr(groups, "setting") else own.dataset_of(groups, targets)
    source: AuditSource = setting_of(dataset).audit_source(dataset)
    if source.setting != own.name:
        raise DataError(
            f"{type(model).__name__} is for {own.name} data, but {source.setting} data was given."
        )
    return source


def setting_to_audit(model: Any) -> Setting[Any]:
    """Return the setting of an estimator that chooses objects of groups."""
    if hasattr(model, "predict_bags") and hasattr(model, "disambiguate"):
        raise DataError(
            f"a {type(model).__name__} chooses pairs of an instance and a label, which an audit "
            "cannot read; audit the bags with a MaxMatchingMILClassifier."
        )
    if not hasattr(model, "select"):
        raise DataError(
            f"a {type(model).__name__} does not say which object of a group it chose; audit with "
            "a Max-Matching estimator."
        )
    return setting_of_model(model)


def find_group_issues(
    model: Any,
    groups: Any,
    targets: Any = None,
    *,
    n_folds: int | None = None,
    random_state: RandomState = None,
    on_progress: ProgressCallback | None = None,
) -> GroupIssues:
    """Find what looks wrong in grouped data.

    Parameters
    ----------
    model : estimator
        A Max-Matching estimator: fitted, or with `n_folds` a template of which clones are fitted.
    groups : BagDataset, PartialLabelDataset, ClickDataset, or what `select` takes first
        Bags, feature rows or click histories. A data set may lie in a folder that is mapped:
        it is read block by block.
    targets : optional
        What `select` takes second: bag labels or candidate labels.
    n_folds : int, optional
        Cross-fit: split the data in this many folds, judge each fold by a clone that was trained
        on the others and calibrated on this one, so that no model judges what it memorised.
        Without it the model judges as it is.
    random_state : int, generator or None, default=None
        Decides the folds.
    on_progress : callable, optional
        Called with a record after each fit and each block: `stage` ("fitting" or "judging"),
        `done` and `total`.

    Returns
    -------
    GroupIssues
        A table of groups, a table of objects, and lists ranked by how wrong things look.

    Examples
    --------
    >>> from groupnoise import MaxMatchingMILClassifier
    >>> from groupnoise.bags import load_digit_bags
    >>> bags = load_digit_bags(60, random_state=0)
    >>> model = MaxMatchingMILClassifier(max_epochs=5, random_state=0)
    >>> issues = find_group_issues(model, bags, n_folds=2, random_state=0)
    >>> len(issues), len(issues.objects["noise"]) == bags.bags.n_objects
    (60, True)
    """
    source = source_of(model, groups, targets)
    if n_folds is None:
        judges = iter([(model, np.arange(len(source)))])
    else:
        check_count("n_folds", n_folds, least=2)
        if n_folds > len(source):
            raise ParameterError(
                f"{n_folds} folds are too many for "
                f"{counted(len(source), find_setting(source.setting).units)}; ask for fewer with "
                "n_folds (--folds), or give more."
            )
        judges = _cross_fitted(model, source, n_folds, random_state, on_progress)
    return GroupIssues.from_evidence(source, *_collect(source, judges, on_progress))


def _cross_fitted(
    model: Any,
    source: AuditSource,
    n_folds: int,
    random_state: RandomState,
    on_progress: ProgressCallback | None,
) -> Iterator[tuple[Any, IntArray]]:
    """Yield a fitted clone and the rows it has not seen, fold by fold."""
    clusters = getattr(source, "clusters", None)
    fold = _folds(source.strata, n_folds, random_state, clusters)
    for number in range(n_folds):
        held_out = np.flatnonzero(fold == number)
        fitted = source.fit(model, np.flatnonzero(fold != number))
        with warnings.catch_warnings():  # a fold may be small, and nobody chose its size
            warnings.simplefilter("ignore", CalibrationWarning)
            source.calibrate(fitted, held_out)
        if on_progress is not None:
            on_progress({"stage": "fitting", "done": number + 1, "total": n_folds})
        yield fitted, held_out


def _folds(
    strata: IntArray, n_folds: int, random_state: RandomState, clusters: Any = None
) -> IntArray:
    """Return the fold of each row; every stratum is spread over all folds evenly.

    Rows of one cluster, such as the bags of a patient, share a fold.
    """
    if clusters is not None and (n_clusters := len(np.unique(clusters))) < n_folds:
        raise DataError(
            f"{n_folds} folds are too many for {counted(n_clusters, 'patients')}; ask for "
            "fewer with n_folds (--folds), or give more."
        )
    return stratified_folds(strata, n_folds, generator_from(random_state), clusters)


def _collect(
    source: AuditSource,
    judges: Iterator[tuple[Any, IntArray]],
    on_progress: ProgressCallback | None,
) -> tuple[tuple[Columns, Columns], tuple[str, ...]]:
    """Return both tables in the order of the data, and warnings about the models."""
    groups = _Table(source.group_counts)
    objects = _Table(source.object_counts)
    n_done = 0
    gains: list[FloatArray] = []
    messages: list[str] = []
    for model, rows in judges:
        messages += getattr(getattr(model, "decisions_", None), "warnings", ())
        for block in _blocks(rows, source.object_counts):
            evidence = source.judge(model, block)
            groups.fill(block, evidence.groups)
            objects.fill(block, evidence.objects)
            gains += [] if evidence.gain is None else [evidence.gain]
            n_done += len(block)
            if on_progress is not None:
                on_progress({"stage": "judging", "done": n_done, "total": len(source)})
    messages += _chance_warning(gains, find_setting(source.setting).units)
    return (groups.columns, objects.columns), tuple(dict.fromkeys(messages))


def _chance_warning(gains: list[FloatArray], units: str) -> list[str]:
    """Return a warning if labels are predicted no better than by their frequencies.

    `gains`: log-likelihood gains of the rows of each block.
    """
    if not gains:
        return []
    gain = np.concatenate([each - SCALE_GAIN / len(each) for each in gains])
    error = gain.std() / np.sqrt(len(gain))
    if gain.mean() > error:
        return []
    return [
        f"{units} are predicted no better than by the frequencies of their labels; check whether "
        "the features carry information about the labels and whether the labels are right."
    ]


def _blocks(rows: IntArray, object_counts: IntArray) -> Iterator[IntArray]:
    """Cut rows into blocks of about BLOCK_OBJECTS objects, never an empty one."""
    before = np.cumsum(object_counts[rows]) - object_counts[rows]
    cuts = np.flatnonzero(np.diff(before // BLOCK_OBJECTS)) + 1
    yield from np.split(rows, cuts)


class _Table:
    """Columns of known length that are filled in any order of rows."""

    def __init__(self, counts: IntArray) -> None:
        self._offsets = offsets_from_sizes(counts)
        self.columns: Columns = {}

    def fill(self, rows: IntArray, columns: Columns) -> None:
        positions = ragged_rows(self._offsets[rows], np.diff(self._offsets)[rows])
        for name, values in columns.items():
            if name not in self.columns:
                # 32 bits are enough for scores, and for positions of what fits in memory.
                kind = np.float32 if values.dtype.kind == "f" else np.int32
                self.columns[name] = np.zeros(self._offsets[-1], dtype=kind)
            self.columns[name][positions] = values
