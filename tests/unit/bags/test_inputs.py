import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import GroupKFold, cross_val_score

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags.reading.inputs import as_bags, read_bag_labels
from groupnoise.bags.reading.labels import negative_label_hint
from groupnoise.bags.reading.negative_label import find_negative_label
from groupnoise.exceptions import (
    DataError,
    EmptyGroupError,
    ParameterError,
    UnknownTargetError,
)

ROWS = np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    "bags",
    [
        [ROWS[:2], ROWS[2:]],
        [ROWS[:2].tolist(), ROWS[2:].tolist()],
        ROWS.reshape(2, 2, 2),
        Groups(ROWS, [0, 2, 4]),
    ],
    ids=["arrays", "lists", "dense", "groups"],
)
def test_every_form_gives_the_same_bags(bags):
    found = as_bags(bags)
    np.testing.assert_array_equal(found.objects, ROWS)
    np.testing.assert_array_equal(found.offsets, [0, 2, 4])


def test_flat_rows_are_gathered_by_their_group_ids():
    found = as_bags(ROWS, groups=["b", "a", "b", "a"])
    np.testing.assert_array_equal(found.objects, ROWS[[0, 2, 1, 3]])
    np.testing.assert_array_equal(found.sizes, [2, 2])


def test_bags_may_differ_in_size():
    assert as_bags([ROWS[:1], ROWS[1:]]).sizes.tolist() == [1, 3]


def test_an_object_array_of_bags_is_a_list_of_them():
    bags = np.empty(2, dtype=object)
    bags[:] = [ROWS[:1], ROWS[1:]]
    found = as_bags(bags)
    np.testing.assert_array_equal(found.objects, ROWS)
    assert found.objects.dtype == ROWS.dtype
    assert found.sizes.tolist() == [1, 3]


def test_flat_rows_alone_are_bags_of_one():
    assert as_bags(ROWS).sizes.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("bags", "groups", "message"),
    [
        (np.zeros((2, 2, 2)), [0, 1], "groups= goes with flat rows"),
        (Groups(ROWS, [0, 4]), [0, 0, 0, 0], "groups= goes with flat rows"),
        (ROWS, [0, 1], "4 rows came with group ids"),
        ([], None, "0 bags"),
        (np.zeros((0, 2)), None, "0 rows"),
        ([ROWS, np.zeros((2, 3))], None, "share one width"),
        (np.full((2, 2, 2), np.nan), None, "NaN"),
        ([ROWS, [["a", "b"]]], None, "numeric"),
    ],
)
def test_bad_bags_are_refused_in_one_sentence(bags, groups, message):
    with pytest.raises(DataError, match=message):
        as_bags(bags, groups)


def test_an_empty_bag_is_named():
    with pytest.raises(EmptyGroupError, match="first at row 1"):
        as_bags([ROWS, np.zeros((0, 2)), ROWS])


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([{"a", "b"}, set(), {"b"}], [[1, 1], [0, 0], [0, 1]]),
        (np.array([[1, 1], [0, 0], [0, 1]]), [[1, 1], [0, 0], [0, 1]]),
        (["a", "b", "a"], [[1, 0], [0, 1], [1, 0]]),
    ],
    ids=["sets", "matrix", "plain"],
)
def test_bag_labels_come_plain_as_sets_or_as_a_matrix(y, expected):
    indicator, _ = read_bag_labels(y, n_bags=3)
    np.testing.assert_array_equal(indicator, np.array(expected, dtype=bool))


def test_labels_repeated_on_every_row_of_a_bag_count_once():
    indicator, _ = read_bag_labels([1, 0, 1, 0], n_bags=2, groups=["b", "a", "b", "a"])
    np.testing.assert_array_equal(indicator, [[False, True], [True, False]])


def test_rows_of_a_bag_with_different_labels_are_named():
    with pytest.raises(DataError, match="bag 'b' has rows with different labels, first at row 2"):
        read_bag_labels([1, 0, 0, 0], n_bags=2, groups=["b", "a", "b", "a"])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "3 bags came with 2 labels"),
        ([1, 1, 1], "only one class"),
        ([set(), set(), set()], "no label in any row"),
        ([0, 1, np.nan], "NaN"),
    ],
)
def test_bad_bag_labels_are_refused_in_one_sentence(y, message):
    with pytest.raises(DataError, match=message):
        read_bag_labels(y, n_bags=3)


def test_a_bag_label_outside_the_classes_is_named():
    with pytest.raises(UnknownTargetError, match="holds 9 in row 1"):
        read_bag_labels([0, 9], n_bags=2, classes=[0, 1])


@pytest.mark.parametrize(
    ("names", "negative"),
    [
        (["healthy", "tumour"], "healthy"),
        (["absent", "owl"], "absent"),
        (["cancer", "normal"], "normal"),
        (["background", "fox"], "background"),
        (["fox", "none"], "none"),
        (["fox", "other"], "other"),
        (["non-smoker", "smoker"], "non-smoker"),
        (["rain", "no rain"], "no rain"),
        ([False, True], False),
        (["negative", "positive"], "negative"),
        (["negativ", "positiv"], "negativ"),
        (["ja", "nein"], "nein"),
        (["non", "oui"], "non"),
        (["in Ordnung", "fehlerhaft"], "in Ordnung"),
        (["infiziert", "nicht infiziert"], "nicht infiziert"),
        (["bad", "OK"], "OK"),
        (["NOK", "ok"], "ok"),
        (["i.O.", "n.i.O."], "i.O."),
        (["Ausschuss", "gut"], "gut"),
        (["clean", "dirty"], "clean"),
        (["krank", "gesund"], "gesund"),
        (["malade", "sain"], "sain"),
        (["enfermo", "sano"], "sano"),
        (["good", "ok"], None),
        (["gut", "ok"], None),
        (["gut", "sehr gut"], None),
        (["bad", "good", "ok"], None),
        (["gesund", "Fuchs", "Eule"], None),
        (["fox", "owl"], None),
        (["healthy", "fox", "owl"], None),
        (["none", "fox", "owl"], "none"),
        (["north", "rth"], None),
        (["não", "sim"], "não"),
        (["fail", "pass"], "pass"),
        (["défaut", "sans défaut"], "sans défaut"),
        (["Hintergrund", "Fuchs", "Eule"], "Hintergrund"),
        (["NOT OK", "OK"], "OK"),
        (["conforme", "non conforme"], "conforme"),
        (["bestanden", "nicht bestanden"], "bestanden"),
        (["normal", "not normal"], "normal"),
        (["good", "not good"], "good"),
        (["conforme", "azul"], None),
    ],
)
def test_negative_labels_are_recognised_beside_others_and_said_aloud(names, negative):
    labels = np.eye(len(names), dtype=bool)
    column, sentences = find_negative_label("auto", np.array(names), labels)
    assert (None if column is None else names[column]) == negative
    assert bool(sentences) == (negative is not None)
    assert find_negative_label("auto", np.array(names), labels, named=False) == (None, ())


def test_a_series_that_names_the_bags_goes_by_their_names_and_a_count_by_their_order():
    groups = ["b", "a", "b", "c"]
    named = pd.Series(["no", "yes", "no"], index=["a", "b", "c"])
    indicator, classes = read_bag_labels(named, 3, groups=groups)
    assert classes[indicator.argmax(axis=1)].tolist() == ["yes", "no", "no"]
    counted = named.reset_index(drop=True)
    indicator, _ = read_bag_labels(counted, 3, groups=[1, 0, 1, 2])
    assert classes[indicator.argmax(axis=1)].tolist() == ["no", "yes", "no"]
    per_row = pd.Series(["yes", "no", "yes", "no"], index=["b", "a", "b", "c"])
    indicator, _ = read_bag_labels(per_row, 3, groups=groups)
    assert classes[indicator.argmax(axis=1)].tolist() == ["yes", "no", "no"]


def test_scikit_learn_cuts_a_list_of_bags_and_scores_bags():
    generator = np.random.default_rng(0)
    bags = [generator.normal(size=(size, 2)) for size in generator.integers(2, 5, 24)]
    for bag in bags[1::2]:
        bag[0] += 6.0
    model = MaxMatchingMILClassifier(max_epochs=5, random_state=0)
    labels = ["no", "yes"] * 12
    plain = cross_val_score(model, bags, labels, cv=2)
    assert plain.min() > 0.8

    def accuracy(model, bags, y):
        return accuracy_score(y, model.predict_bags(bags))

    assert cross_val_score(model, bags, labels, cv=2, scoring=accuracy).tolist() == plain.tolist()


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss"])
def test_a_scorer_by_name_is_told_how_bags_are_scored(scoring):
    bags = [np.full((2, 2), float(number)) for number in range(8)]
    labels = np.array(["no", "yes"] * 4)
    model = MaxMatchingMILClassifier(max_epochs=1, random_state=0)
    with pytest.raises(DataError, match="leave it out, which gives the accuracy of bags"):
        get_scorer(scoring)(model.fit(bags, labels), bags, labels)
    # Rows are no bags, whoever asks.
    rows = np.concatenate(bags)
    get_scorer(scoring)(model, rows, np.repeat(labels, 2))


@pytest.mark.parametrize(
    ("classes", "given", "negative", "is_said"),
    [
        (["comestible", "toxique"], "auto", None, True),
        (["comestible", "toxique"], None, None, False),
        (["no", "yes"], "auto", "no", False),
        (["a", "b", "c"], "auto", None, False),
    ],
)
def test_how_a_negative_label_is_named_is_said_where_there_may_be_one(
    classes, given, negative, is_said
):
    fitted = SimpleNamespace(
        negative_label=given, negative_label_=negative, classes_=np.array(classes)
    )
    said = negative_label_hint(fitted)
    assert ("-p negative_label=comestible, or toxique" in " ".join(said)) == is_said == bool(said)


def test_what_is_no_bags_is_refused_in_words():

    rows = np.ones((4, 2))
    frame = pd.DataFrame(rows, columns=["a", "b"])
    dates = frame.assign(b=pd.Timestamp("2024-01-01"))
    missing = frame.astype("Float64")
    missing.iloc[2] = pd.NA
    for bags, words in (
        ({"x": rows}, "a dict was given; give the list of its values"),
        ((bag for bag in [rows]), "a generator was given; give a list of what it yields"),
        ([np.ones(3), np.ones(2)], r"bag 0 has shape \(3,\); a bag has two dimensions"),
        ([frame, dates], "'b' is not: leave it out"),
        (dates, "'b' is not: leave it out"),
        (dates[["b"]], "'b' is not: leave it out"),
        (missing, "holds 2 NaN or infinite values"),
    ):
        with pytest.raises(DataError, match=words):
            as_bags(bags)
    lazy = type("LazyFrame", (), {"collect": None})()
    with pytest.raises(DataError, match="a LazyFrame was given; give what its collect"):
        as_bags(lazy, groups=[1, 1, 2, 2])


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0.0, 0.0, np.nan, 1.0], "1 of 4 rows have no group id, the first is number 2"),
        (["a", None, "b", None], "2 of 4 rows have no group id, the first is number 1"),
        (np.array(["a", 1, "b", 2], dtype=object), "group ids mix text and numbers"),
    ],
)
def test_rows_of_no_bag_are_refused(groups, words):
    with pytest.raises(DataError, match=words):
        as_bags(np.ones((4, 2)), groups=groups)


def test_frames_of_nullable_numbers_are_bags():

    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}).convert_dtypes()
    bags = as_bags([frame, frame])
    assert bags.objects.tolist() == [[1, 0.5], [2, 1.5]] * 2


def test_rows_that_were_given_without_their_bags_are_told_of():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 2))
    quick = {"max_epochs": 1, "dim": 2, "random_state": 0}
    in_runs = np.repeat(["a", "b"] * 6, 5)
    with pytest.warns(UserWarning, match="labels come in 12 runs"):
        MaxMatchingMILClassifier(**quick).fit(rows, in_runs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MaxMatchingMILClassifier(**quick).fit(rows, in_runs, groups=np.arange(60) // 5)
        MaxMatchingMILClassifier(**quick).fit(rows, np.sort(in_runs))
        MaxMatchingMILClassifier(**quick).fit(rows, generator.permutation(in_runs))


def test_columns_of_one_name_and_labels_of_dates_are_refused():

    rows = pd.DataFrame(np.eye(4), columns=["a", "b", "a", "c"])
    with pytest.raises(DataError, match="two columns are called 'a'"):
        MaxMatchingMILClassifier(max_epochs=1, dim=2).fit(rows, [0, 1, 0, 1])
    days = np.array(["2024-01-01", "2024-01-02"] * 2, dtype="M8[ns]")
    with pytest.raises(DataError, match="strings or whole numbers as labels"):
        MaxMatchingMILClassifier(max_epochs=1, dim=2).fit(np.eye(4), days)


def test_an_object_array_of_bags_is_scored_as_a_list_is():
    bags = [np.eye(2) + number for number in range(6)]
    held = np.empty(6, dtype=object)
    held[:] = bags
    y = [0, 1] * 3
    fitted = MaxMatchingMILClassifier(max_epochs=1, dim=2, random_state=0).fit(held, y)
    assert fitted.score(held, y) == fitted.score(bags, y)


@pytest.mark.parametrize(
    ("options", "given", "words"),
    [
        ({}, {"patients": ["a", None, "b", "b"]}, "1 of 4 bags have no patient"),
        ({}, {"truth": [np.nan] * 8}, "truth says the label of no instance"),
        ({}, {"truth": pd.Series([pd.NA] * 8, dtype="string")}, "the label of no instance"),
        ({"background": "maybe"}, {}, "background must be True, False or 'auto'"),
    ],
)
def test_what_a_fit_cannot_use_is_refused(options, given, words):
    bags = [np.eye(2) + number for number in range(4)]
    with pytest.raises((DataError, ParameterError), match=words):
        MaxMatchingMILClassifier(max_epochs=1, dim=2, **options).fit(bags, [0, 1] * 2, **given)


def test_folds_of_flat_rows_without_their_bags_are_told_of():
    rows = np.random.default_rng(0).normal(size=(120, 2))
    bags = np.arange(120) // 5
    model = MaxMatchingMILClassifier(max_epochs=1, dim=2, random_state=0)
    with pytest.warns(UserWarning, match="name the bag of each row"):
        cross_val_score(model, rows, bags % 2, groups=bags, cv=GroupKFold(3))


def test_tensors_with_gradients_are_bags_and_masked_and_sparse_ones_are_refused():
    rows = np.arange(12.0).reshape(3, 2, 2)
    tensors = [torch.tensor(bag, requires_grad=True) for bag in rows]
    for bags in (tensors, torch.tensor(rows, requires_grad=True)):
        assert as_bags(bags).objects.tolist() == rows.reshape(6, 2).tolist()
    masked = [np.ma.masked_greater(bag, 9) for bag in rows]
    with pytest.raises(DataError, match="bag holds masked values; fill them"):
        as_bags(masked)
    with pytest.raises(DataError, match=r"sparse features are not supported; pass bag.toarray\(\)"):
        as_bags([csr_matrix(bag) for bag in rows])
