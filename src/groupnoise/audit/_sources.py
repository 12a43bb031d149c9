"""What can be audited: data sets, or the arguments that a model's own `select` takes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from groupnoise._bags import read_bag_labels, read_bags
from groupnoise._candidates import read_candidates, refuse_unequal_rows
from groupnoise._catalogue import Catalogue
from groupnoise._checks import check_features
from groupnoise._typing import IntArray
from groupnoise.audit._bags import BagSource
from groupnoise.audit._candidates import CandidateSource
from groupnoise.audit._clicks import ClickSource
from groupnoise.audit._evidence import Evidence
from groupnoise.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.exceptions import DataError
from groupnoise.groups import Groups


class AuditSource(Protocol):
    """Rows of data that a model can be trained on and can judge."""

    @property
    def setting(self) -> str:
        """One of "mil", "pll" and "rs"."""
        ...

    @property
    def dataset(self) -> Any:
        """The data itself."""
        ...

    @property
    def group_counts(self) -> IntArray:
        """How many groups each row gives, shape (n_rows,)."""
        ...

    @property
    def object_counts(self) -> IntArray:
        """How many objects each row holds, shape (n_rows,)."""
        ...

    @property
    def strata(self) -> IntArray:
        """What folds should hold equal parts of, shape (n_rows,)."""
        ...

    def __len__(self) -> int: ...

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on some rows."""
        ...

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a fitted model on rows it has not seen."""
        ...

    def judge(self, model: Any, rows: IntArray) -> Evidence:
        """Return what a fitted model says of some rows."""
        ...


def source_of(model: Any, groups: Any, targets: Any = None) -> AuditSource:
    """Return the material of an audit from whatever form it comes in.

    Parameters
    ----------
    model : estimator
        Decides the setting where `groups` is no data set.
    groups : BagDataset, PartialLabelDataset, ClickDataset, or what `select` takes first
        Bags, feature rows, or histories.
    targets : optional
        What `select` takes second: bag labels or candidate labels; histories need none.
    """
    own = setting_of_model(model)
    source = _from_dataset(groups) or _from_arguments(own, groups, targets)
    if source.setting != own:
        raise DataError(
            f"{type(model).__name__} is for {own} data, but {source.setting} data was given."
        )
    return source


def setting_of_model(model: Any) -> str:
    """Return the setting an estimator of this package is for."""
    if hasattr(model, "predict_bags") and hasattr(model, "disambiguate"):
        raise DataError(
            f"a {type(model).__name__} chooses pairs of an instance and a label, which an audit "
            "cannot read; audit the bags with a MaxMatchingMILClassifier."
        )
    for method, setting in (("predict_bags", "mil"), ("disambiguate", "pll"), ("recommend", "rs")):
        if hasattr(model, method) and hasattr(model, "select"):
            return setting
    raise DataError(
        f"a {type(model).__name__} does not say which object of a group it chose; audit with a "
        "Max-Matching estimator."
    )


def _from_dataset(groups: Any) -> AuditSource | None:
    if isinstance(groups, BagDataset):
        return BagSource(groups)
    if isinstance(groups, PartialLabelDataset):
        return CandidateSource(groups)
    if isinstance(groups, ClickDataset):
        return ClickSource(groups)
    return None


def _from_arguments(setting: str, groups: Any, targets: Any) -> AuditSource:
    if setting == "rs":
        return ClickSource(_clicks(groups))
    if targets is None:
        raise DataError("an audit needs the labels that the groups came with; pass targets.")
    if setting == "mil":
        bags = read_bags(groups)
        labels, classes = read_bag_labels(targets, len(bags))
        return BagSource(BagDataset("bags", bags, labels, _names(classes)))
    features = check_features("X", groups)
    candidates, classes = read_candidates(targets)
    refuse_unequal_rows(features, candidates)
    return CandidateSource(PartialLabelDataset("rows", features, candidates, _names(classes)))


def _clicks(histories: Any) -> ClickDataset:
    if isinstance(histories, Groups):
        items = np.arange(int(histories.objects.max()) + 1)
        indexed = histories
    else:
        rows = list(histories)
        catalogue = Catalogue.of_histories(rows)
        items, flat = catalogue.ids, catalogue.index(rows)
        indexed = Groups(flat.items, flat.offsets)
    return ClickDataset("histories", indexed, items, np.arange(len(indexed)))


def _names(classes: Any) -> list[str]:
    return [str(label) for label in classes.tolist()]
