import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.candidates.baselines import CLPLClassifier
from groupnoise.core.label_sets import (
    holds_plain_labels,
    read_candidate_sets,
    read_candidate_weights,
)
from groupnoise.exceptions import DataError, EmptyGroupError, UnknownTargetError

MATRIX = np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]])


def _object_array(rows):
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array


@pytest.mark.parametrize(
    "candidates",
    [
        MATRIX,
        MATRIX.astype(bool),
        MATRIX.astype(float),
        sparse.csr_matrix(MATRIX),
        sparse.coo_array(MATRIX),
        [{0, 1}, {1}, {1, 2}],
        [[1, 0], [1], [2, 1]],
        [(0, 1), 1, np.array([1, 2])],
        _object_array([{0, 1}, {1}, {1, 2}]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_form_gives_the_same_matrix(candidates):
    indicator, classes = read_candidate_sets(candidates)
    assert indicator.dtype == bool
    np.testing.assert_array_equal(indicator, MATRIX.astype(bool))
    np.testing.assert_array_equal(classes, [0, 1, 2])


@pytest.mark.parametrize(
    "labels", [["b", "a", "b"], np.array(["b", "a", "b"]), np.array(["b", "a", "b"], dtype=object)]
)
def test_plain_labels_are_candidate_sets_of_one(labels):
    indicator, classes = read_candidate_sets(labels)
    np.testing.assert_array_equal(classes, ["a", "b"])
    np.testing.assert_array_equal(indicator, [[False, True], [True, False], [False, True]])


def test_a_data_frame_names_its_classes_by_its_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(MATRIX, columns=["x", "y", "z"])
    indicator, classes = read_candidate_sets(frame)
    np.testing.assert_array_equal(indicator, MATRIX.astype(bool))
    np.testing.assert_array_equal(classes, ["x", "y", "z"])


def test_columns_of_a_data_frame_are_found_by_name_in_any_order():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(MATRIX, columns=["x", "y", "z"])
    indicator, classes = read_candidate_sets(frame[["z", "x", "y"]], classes=["x", "y", "z"])
    np.testing.assert_array_equal(indicator, MATRIX.astype(bool))
    np.testing.assert_array_equal(classes, ["x", "y", "z"])


def test_columns_of_a_data_frame_without_names_are_taken_as_they_come():
    pandas = pytest.importorskip("pandas")
    indicator, _ = read_candidate_sets(pandas.DataFrame(MATRIX), classes=["x", "y", "z"])
    np.testing.assert_array_equal(indicator, MATRIX.astype(bool))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["x", "y", "w"], "has a column 'w', which is not one of the 3 classes"),
        (["x", "y"], "has no column for the class 'z'"),
        ([1, 2, 3], "has a column 1"),
    ],
)
def test_a_data_frame_of_other_classes_is_refused(columns, message):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(MATRIX[:, : len(columns)], columns=columns)
    with pytest.raises(UnknownTargetError, match=message):
        read_candidate_sets(frame, classes=["x", "y", "z"])


@pytest.mark.parametrize(
    "model", [MaxMatchingPartialLabelClassifier.fixed(random_state=0), CLPLClassifier()]
)
def test_a_score_does_not_depend_on_the_order_of_columns(model):
    pandas = pytest.importorskip("pandas")
    answers = np.repeat(np.eye(3, dtype=int), 4, axis=0)
    frame = pandas.DataFrame(answers, columns=["a", "b", "c"])
    model.fit(answers.astype(float), frame)
    assert model.score(answers.astype(float), frame[["c", "a", "b"]]) == 1.0


def test_given_classes_keep_their_order_and_may_go_unseen():
    indicator, classes = read_candidate_sets([{"a"}, {"c", "a"}], classes=["c", "b", "a"])
    np.testing.assert_array_equal(classes, ["c", "b", "a"])
    np.testing.assert_array_equal(indicator, [[False, False, True], [True, False, True]])


def test_a_column_of_labels_is_read_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        indicator, classes = read_candidate_sets(np.array([[3], [5]]))
    np.testing.assert_array_equal(classes, [3, 5])
    np.testing.assert_array_equal(indicator, np.eye(2, dtype=bool))


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([{1}, set(), {2}], "first is row 1; give each row at least one, or drop it"),
        (np.array([[1, 1], [0, 0]]), "first is row 1"),
    ],
)
def test_a_row_without_candidates_is_named_with_the_remedy(candidates, message):
    with pytest.raises(EmptyGroupError, match=message):
        read_candidate_sets(candidates)


@pytest.mark.parametrize("candidates", [[{0}, {7}], [0, 7], ["a", "b"]])
def test_a_label_outside_the_given_classes_is_named(candidates):
    with pytest.raises(UnknownTargetError, match="is not one of the 2 classes"):
        read_candidate_sets(candidates, classes=[0, 1])


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        (None, "y is None"),
        ([], "0 rows"),
        (np.array([0, 0, 0]), "only one class"),
        (np.array([[1, 0], [1, 0]]), "only one class"),
        ([{0}, {1, np.nan}], "NaN or an infinite value in row 1"),
        (np.array([0.0, np.inf]), "NaN or an infinite value in row 1"),
        (np.array([[1, np.nan], [0, 1]]), "row 0 holds nan"),
        (np.array([[1, 2], [0, 1]]), "may hold only 0 and 1; row 0 holds 2"),
        ([0.5, 0.25], "continuous"),
        ([{0, "a"}, {1}], "mixes strings"),
        (["a", float("nan"), "b"], "has no label in row 1; drop this row"),
        (["a", None], "has no label in row 1; drop this row"),
        (["a / b", "b / c", "a / c", "a"], "'a / b' looks like several candidates in one text"),
        (["a or b", "b or c", "c or a", "a"], "'a or b' looks like several candidates"),
        ([[0, 1, 0], [1, 0, 1]], "lists a label twice in row 0"),
        ("abc", "got str"),
        (np.zeros((2, 2, 2)), "one or two dimensions"),
    ],
)
def test_bad_candidates_are_refused_in_one_sentence(candidates, message):
    with pytest.raises(DataError, match=message):
        read_candidate_sets(candidates)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], True),
        (np.array(["a", "b"]), True),
        ([{1}, {2}], False),
        (_object_array([{1}, {2}]), False),
        (MATRIX, False),
        (sparse.csr_matrix(MATRIX), False),
        (None, False),
    ],
)
def test_plain_labels_are_told_from_sets_and_matrices(values, expected):
    assert holds_plain_labels(values) is expected


def test_a_matrix_must_have_a_column_per_class():
    with pytest.raises(DataError, match="3 columns, but there are 2 classes"):
        read_candidate_sets(MATRIX, classes=[0, 1])


@pytest.mark.parametrize(
    "rows", [["a, b", "b", "a"], ["a|b", "b|c", "a|c"], np.array(["x;y", "x"])]
)
def test_candidates_joined_in_one_text_are_refused_with_the_remedy(rows):
    with pytest.raises(
        DataError, match=r"looks like several candidates .* \[\{each\.strip\(\) for"
    ):
        read_candidate_sets(rows)


def test_names_with_commas_are_names():
    rows = ["Paris, France", "Lyon, France", "Rome, Italy"]
    assert read_candidate_sets(rows)[1].tolist() == sorted(rows)
    assert read_candidate_sets([{"a, b"}, {"b"}])[1].tolist() == ["a, b", "b"]


def test_mappings_are_candidates_with_weights():
    rows = [{"a": 0.7, "b": 0.3}, {"b": 2, "c": 0.0}, {"c": 1.0}]
    indicator, classes = read_candidate_sets(rows)
    assert classes.tolist() == ["a", "b", "c"]
    assert indicator.tolist() == [[True, True, False], [False, True, False], [False, False, True]]
    weights = read_candidate_weights(rows, indicator, classes)
    assert weights.tolist() == [[0.7, 0.3, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    assert read_candidate_weights([{"a"}, {"b"}], indicator, classes) is None


def test_weights_that_are_none_and_half_weighted_rows_are_refused():
    rows = [{"a": 0.7, "b": "much"}, {"b": 1.0}]
    with pytest.raises(DataError, match="row 0 of the candidates gives 'b' the weight 'much'"):
        read_candidate_weights(rows, *read_candidate_sets(rows))
    with pytest.raises(DataError, match="1 of 2 rows map candidates to weights"):
        read_candidate_sets([{"a": 0.7}, {"b"}])


def test_weights_of_candidates_decide_like_the_argument():
    rows = np.repeat(np.eye(3), 8, axis=0)
    weighted = [{"a": 0.9, "b": 0.1}] * 8 + [{"b": 0.9, "c": 0.1}] * 8 + [{"c": 0.9, "a": 0.1}] * 8
    indicator, classes = read_candidate_sets(weighted)
    table = read_candidate_weights(weighted, indicator, classes)
    make = MaxMatchingPartialLabelClassifier.fixed
    model = make(max_epochs=5, random_state=0).fit(rows, weighted)
    same = make(max_epochs=5, random_state=0).fit(rows, indicator, candidate_weights=table)
    np.testing.assert_array_equal(model.predict_proba(rows), same.predict_proba(rows))
    assert model.predict(np.eye(3)).tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="beside them"):
        make(max_epochs=1).fit(rows, weighted, candidate_weights=table)
