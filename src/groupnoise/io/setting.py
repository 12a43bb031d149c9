"""The interface of a setting for the commands: read, hold out, fit, evaluate, answer."""

from __future__ import annotations

import hashlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback, release_pages
from groupnoise.core.checks import check_choice
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.io.tables.sources import Report

if TYPE_CHECKING:
    from groupnoise.io.description import Description

SETTING_MODULES = {
    "mil": "groupnoise.bags.setting",
    "pll": "groupnoise.candidates.setting",
    "rs": "groupnoise.clicks.setting",
}
"""The module of each setting; another setting is one more line."""
SETTINGS = tuple(SETTING_MODULES)
_BLOCK_BYTES = 1 << 24

Data = TypeVar("Data", BagDataset, PartialLabelDataset, ClickDataset)


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on some groups.

    `metrics`: values by name.
    `baseline`: the same metrics of the trivial baseline, which always answers the most frequent
        class or the most popular items; empty if there is none.
    `per_class`: metrics of single classes, or of single buckets of items.
    `counts`: numbers of groups, objects, and targets unknown to the model.
    `notes`: caveats, one sentence each.
    `baseline_name`: "majority" or "popularity".
    `breakdown`: what an entry of `per_class` stands for: "class" or "bucket".
    `intervals`: lower and upper ends of the confidence intervals of some metrics.
    `rows`: the metrics of every group, as columns of a table; empty where there are none.
    `curves`: risk-coverage curves of predictions for "rows", "bags" or "instances": "coverage", the
        share of the most confident predictions that are kept, and "risk", their error rate.
    """

    metrics: dict[str, float]
    counts: dict[str, int]
    baseline: dict[str, float] = field(default_factory=dict)
    per_class: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    baseline_name: str = "majority"
    breakdown: str = "class"
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    rows: dict[str, NDArray[Any]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Answers:
    """Predictions of a model, as the columns of a table.

    `columns`: names and cells, all of one length.
    `rows`: the source row of each answer; None if answers are not about rows.
    `notes`: sentences about what could not be predicted.
    """

    columns: dict[str, list[Any]]
    rows: IntArray | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowLabels:
    """The rows of a table that data comes from, with the labels in each.

    `rows`: the row of the table that each object was read from.
    `columns`: the columns that hold the labels; none where rows have no labels.
    `class_names`: the classes.
    `memberships` (n_objects, n_classes): which classes each row is labelled with.
    """

    rows: IntArray
    columns: list[str] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    memberships: BoolArray | None = None


def fingerprints_of(contents: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return a checksum of 8 bytes of each content."""
    digests = (hashlib.blake2b(each, digest_size=8).digest() for each in contents)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


class Setting(ABC, Generic[Data]):
    """What commands need of a setting; `docs/architecture.md` says how to add one."""

    name: str
    """What `--setting` takes."""
    units: str
    """What its groups are called, in the plural."""
    object_name: str
    """What a row of a file describes."""
    held_out_words: str = "{} held out"
    """Phrase about held-out groups, with a place for their number."""
    column_options: tuple[str, ...]
    """Options of the reader that name columns."""
    has_features: bool = True
    """Whether its objects are rows of features."""
    is_streamed: bool = False
    """Whether its files are converted in blocks, as they may be larger than memory."""
    answers_rows: bool = True
    """Whether it predicts for single rows of a table."""
    audit_parameters: ClassVar[dict[str, Any]] = {}
    """Parameters of the estimators that an audit fits."""
    judged_by_protocol: bool = False
    """Whether `evaluate` takes a `protocol` and lengths of a list, `at`."""
    models: tuple[str, ...]
    """Methods that its estimators have and those of other settings lack."""

    @abstractmethod
    def read(self, source: Any, *, report: Report | None = None, **options: Any) -> Data:
        """Read a file."""

    def reader_options(self, fitted: Any) -> dict[str, Any]:
        """Return reader options that depend on a fitted model."""
        return {}

    @abstractmethod
    def n_groups(self, dataset: Data) -> int:
        """Return how many groups the data has."""

    @abstractmethod
    def subset(self, dataset: Data, rows: IntArray) -> Data:
        """Return the groups at `rows`."""

    @abstractmethod
    def hold_out(self, dataset: Data, share: float, seed: int) -> IntArray:
        """Return the groups to hold out of training, in ascending order; none if all are needed.

        `share`: share of the groups, from 0 to 1.
        """

    def without(self, dataset: Data, rows: IntArray) -> Data:
        """Return the training data when `rows` are held out."""
        return self.subset(dataset, np.delete(np.arange(self.n_groups(dataset)), rows))

    @abstractmethod
    def arguments(self, dataset: Data) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of `fit`."""

    def known_labels(self, dataset: Data) -> list[str | None] | None:
        """Return the true labels for `fit(truth=)`, None where unknown.

        None if the data has no column of true labels.
        """
        return None

    @abstractmethod
    def evaluate(
        self, fitted: Any, dataset: Data, rows: IntArray | None = None, *, seed: int = 0
    ) -> Evaluation:
        """Measure a fitted model.

        `dataset`: the data, with the labels that the metrics need. `rows`: the groups to score; all
        by default. `seed`: seed of random draws, such as those of negatives.
        """

    def shares(self, dataset: Data, held_out: IntArray) -> dict[str, Any]:
        """Return label frequencies of the training part, by kind of labelled object."""
        return {}

    @abstractmethod
    def answer(
        self, fitted: Any, dataset: Data, *, top: int = 10, exclude_seen: bool = True
    ) -> Answers:
        """Return the predictions of a fitted model.

        `dataset`: the data; labels may be missing. `top`: how many items a recommender returns.
        `exclude_seen`: whether it leaves out the items of the history itself.
        """

    @abstractmethod
    def describe(self, dataset: Data) -> Description:
        """Return counts, histograms and oddities of the data."""

    @abstractmethod
    def summary(self, dataset: Data) -> str:
        """Return the counts of the data as a phrase."""

    def advice(self, fitted: Any) -> tuple[str, ...]:
        """Return further sentences about a fitted model; none by default."""
        return ()

    @abstractmethod
    def audit_source(self, dataset: Data) -> Any:
        """Return the data as an `AuditSource`."""

    @abstractmethod
    def dataset_of(self, groups: Any, targets: Any) -> Data:
        """Return a data set made from the arguments of `select`."""

    @abstractmethod
    def row_labels(self, dataset: Data) -> RowLabels | None:
        """Return the rows of the source with their labels; None if the source has no rows."""

    @abstractmethod
    def content(self, dataset: Data) -> Iterable[Any]:
        """Yield the arrays and lists that determine the fingerprint of the data."""

    def features(self, dataset: Data) -> FloatArray | None:
        """Return the rows of features that data consists of; None where it has none."""
        return None

    @abstractmethod
    def group_content(self, dataset: Data, row: int) -> bytes:
        """Return the bytes that determine the fingerprint of a group."""

    def group_fingerprints(self, dataset: Data, rows: IntArray) -> NDArray[np.uint64]:
        """Return fingerprints of groups, independent of the file format."""
        return fingerprints_of(self.group_content(dataset, int(row)) for row in rows)

    def identity_fingerprints(self, dataset: Data) -> dict[str, NDArray[np.uint64]]:
        """Return fingerprints of the "names" and the "patients" of groups, by these keys.

        A key is missing where the source names none.
        """
        return {}

    def matching_groups(self, dataset: Data, fingerprints: NDArray[np.uint64]) -> BoolArray:
        """Return which groups have one of some fingerprints, shape (n_groups,)."""
        rows = np.arange(self.n_groups(dataset))
        return np.isin(self.group_fingerprints(dataset, rows), fingerprints)

    def share_found(self, dataset: Data, fingerprints: NDArray[np.uint64]) -> float:
        """Return the share of some fingerprints that belong to groups of a data set.

        A click history also counts as found if clicks were added to it since.
        """
        rows = np.arange(self.n_groups(dataset))
        return float(np.isin(fingerprints, self.group_fingerprints(dataset, rows)).mean())

    def scored(self, dataset: Data, result: Evaluation) -> Data:
        """Return the groups that an evaluation of a whole data set scored."""
        return dataset

    def split_by_protocol(self, dataset: Data, protocol: str) -> Any:
        """Return a click log split into training and test clicks, a `HistorySplit`."""
        raise ParameterError(
            f"--protocol is for click logs (rs); {dataset.name} is {self.name} data."
        )

    def class_names(self, dataset: Data) -> list[str]:
        """Return the names of the classes; none where there are no classes."""
        return getattr(dataset, "class_names", [])

    def fingerprint(self, dataset: Data) -> str:
        """Return a fingerprint of the data, independent of the file format."""
        digest = hashlib.sha256(self.name.encode())
        for part in self.content(dataset):
            _update_digest(digest, part)
        return digest.hexdigest()

    def check_labels(self, dataset: Data) -> None:
        """Refuse labels that cannot be learned; click logs have none."""

    def fit(
        self,
        estimator: Any,
        dataset: Data,
        *,
        on_epoch: ProgressCallback | None = None,
        **named: Any,
    ) -> Any:
        """Fit an estimator and name its columns as the data does.

        `estimator`: ours or a baseline, of this setting. `dataset`: the training data. `on_epoch`:
        set as a parameter of estimators that have it. `named`: further arguments of `fit`:
        `checkpoint`, `workers`, `truth`; those that are None are left out.
        """
        from sklearn.utils.validation import has_fit_parameter

        from groupnoise.core.scaling import set_column_names

        self.check_labels(dataset)
        positional, own = self.arguments(dataset)
        if on_epoch is not None and "on_epoch" in estimator.get_params():
            estimator.set_params(on_epoch=on_epoch)
        for name, value in named.items():
            if value is None:
                continue
            if has_fit_parameter(estimator, name):
                own[name] = value
            elif name == "truth":
                raise ParameterError(
                    f"--learn-truth goes with max-matching; {type(estimator).__name__} learns from "
                    f"{self.units} alone."
                )
            else:
                raise ParameterError(
                    f"--{name} goes with max-matching; {type(estimator).__name__} trains in one go."
                )
        own = {name: value for name, value in own.items() if has_fit_parameter(estimator, name)}
        estimator.fit(*positional, **own)
        names = getattr(dataset, "feature_names", None)
        if names is not None:
            set_column_names(estimator, names)
        return estimator


def find_setting(name: str) -> Setting[Any]:
    """Return a setting by its name."""
    check_choice("--setting", name, SETTINGS)
    return importlib.import_module(SETTING_MODULES[name]).SETTING


def setting_of(dataset: Any) -> Setting[Any]:
    """Return the setting of a data set."""
    return find_setting(dataset.setting)


def setting_of_model(fitted: Any) -> Setting[Any]:
    """Return the setting of an estimator."""
    for name in SETTINGS:
        setting = find_setting(name)
        if all(hasattr(fitted, method) for method in setting.models):
            return setting
    raise DataError(f"a {type(fitted).__name__} is no estimator of this package.")


def check_labels_given(targets: Any) -> None:
    """Refuse groups that come without their labels."""
    if targets is None:
        raise DataError("an audit needs the labels that the groups came with; pass targets.")


def bytes_of_values(values: ArrayLike) -> bytes:
    """Return numbers as bytes that are equal in single and double precision."""
    with np.errstate(over="ignore"):
        return (np.asarray(values).astype(np.float32) + np.float32(0)).tobytes()


def _update_digest(digest: Any, part: Any) -> None:
    """Add an array or a list of text to a digest, independent of the file format."""
    if isinstance(part, np.ndarray) and part.dtype.kind in "iubf":
        digest.update(str(part.shape).encode())
        rows = max(1, _BLOCK_BYTES // max(1, 8 * int(np.prod(part.shape[1:]))))
        for begin in range(0, len(part), rows):
            block = part[begin : begin + rows]
            is_float = part.dtype.kind == "f"
            digest.update(bytes_of_values(block) if is_float else block.astype(np.int64).tobytes())
            release_pages(part)
        return
    for word in part:
        digest.update(f"{word}\0".encode())


def check_two_labels(
    columns: Sequence[str] | None, memberships: BoolArray, class_names: Sequence[str]
) -> None:
    """Refuse data with a single label, naming its column.

    `columns`: that hold the labels; what came otherwise is refused by the estimator. `memberships`
    (n_groups, n_classes): which labels each group has.
    """
    seen = [class_names[column] for column in np.flatnonzero(memberships.any(axis=0)).tolist()]
    if columns is None or len(columns) != 1 or len(seen) != 1:
        return
    remedy = ", so write a word such as 'negative' where there is none"
    raise DataError(
        f"column {columns[0]!r} holds only one label ({seen[0]!r}); a classifier needs two or more"
        f"{'' if memberships.any(axis=1).all() else remedy}."
    )


def evaluation_record(evaluation: Evaluation) -> Mapping[str, Any]:
    """Return an evaluation as plain values, ready for JSON: figures first, by their names."""
    record: dict[str, Any] = {**evaluation.metrics, **evaluation.counts}
    if evaluation.baseline:
        record[evaluation.baseline_name] = evaluation.baseline
    if evaluation.intervals:
        record["intervals"] = {name: list(ends) for name, ends in evaluation.intervals.items()}
    if evaluation.per_class:
        record[f"per_{evaluation.breakdown}"] = evaluation.per_class
    if evaluation.curves:
        record["risk_coverage"] = evaluation.curves
    if evaluation.notes:
        record["notes"] = list(evaluation.notes)
    return record
