"""Data frames: a model answers for the columns it learned from, in their order, and no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_n_features_in_after_fitting

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    NoisyLabelClassifier,
    load_model,
)
from groupnoise.bags.baselines import MILRClassifier
from groupnoise.exceptions import DataError

NAMES = ["a", "b", "c"]
QUICK = {"max_epochs": 2, "random_state": 0}
OTHER_ORDER = "must be in the same order"


@pytest.fixture(scope="module")
def rows():
    labels = np.arange(24) % 3
    noise = np.random.default_rng(0).normal(size=(24, 3))
    return pd.DataFrame(3 * np.eye(3)[labels] + noise, columns=NAMES), labels


@pytest.fixture(scope="module")
def bags(rows):
    """Twelve bags of two rows: the flat frame, the bag of each row, the labels of the bags."""
    frame, _ = rows
    return frame, np.repeat(np.arange(12), 2), np.arange(12) % 3


ROW_MODELS = [
    MaxMatchingPartialLabelClassifier.fixed(**QUICK),
    NoisyLabelClassifier(evidence="neighbours", **QUICK),
]
BAG_MODELS = [
    MaxMatchingMILClassifier(**QUICK),
    MaxMatchingMIPLClassifier(**QUICK),
    MILRClassifier(random_state=0),
]
of_rows = pytest.mark.parametrize("model", ROW_MODELS, ids=lambda m: type(m).__name__)
of_bags = pytest.mark.parametrize("model", BAG_MODELS, ids=lambda m: type(m).__name__)


@of_rows
def test_rows_in_another_order_of_columns_are_refused_before_and_after_saving(
    model, rows, tmp_path
):
    frame, labels = rows
    model.fit(frame, labels)
    assert model.feature_names_in_.tolist() == NAMES
    model.save(tmp_path / "model")
    for asked in (model, load_model(tmp_path / "model")):
        assert asked.predict(frame).shape == (24,)
        with pytest.raises(DataError, match=OTHER_ORDER):
            asked.predict(frame[["c", "b", "a"]])


@of_rows
def test_a_fit_on_arrays_forgets_the_names(model, rows):
    frame, labels = rows
    model.fit(frame, labels).fit(frame.to_numpy(), labels)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3


@of_bags
def test_bags_in_another_order_of_columns_are_refused_before_and_after_saving(
    model, bags, tmp_path
):
    frame, bag, labels = bags
    model.fit(frame, labels, groups=bag)
    assert model.feature_names_in_.tolist() == NAMES
    model.save(tmp_path / "model")
    for asked in (model, type(model).load(tmp_path / "model")):
        swapped = frame[["c", "b", "a"]]
        assert asked.predict_bags(frame, groups=bag).shape == (12,)
        with pytest.raises(DataError, match=OTHER_ORDER):
            asked.predict_bags(swapped, groups=bag)
        with pytest.raises(DataError, match=OTHER_ORDER):
            asked.predict(swapped)


@of_bags
def test_a_frame_per_bag_names_the_columns_and_all_must_agree(model, bags):
    frame, bag, labels = bags
    frames = [part for _, part in frame.groupby(bag)]
    model.fit(frames, labels)
    assert model.feature_names_in_.tolist() == NAMES
    frames[7] = frames[7][["b", "a", "c"]]
    with pytest.raises(DataError, match=OTHER_ORDER):
        model.predict_bags(frames)
    with pytest.raises(DataError, match=OTHER_ORDER):
        model.fit(frames, labels)


@pytest.mark.parametrize("model", [*ROW_MODELS, *BAG_MODELS], ids=lambda m: type(m).__name__)
@pytest.mark.filterwarnings("ignore")
def test_another_width_is_refused_in_scikit_learns_words(model):
    check_n_features_in_after_fitting(type(model).__name__, model)
