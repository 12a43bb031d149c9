"""Candidate labels read from tables and arrays."""

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat

from groupnoise.candidates import load_digit_candidates, read_candidates
from groupnoise.exceptions import DataError, EmptyGroupError


def write(path, text):
    path.write_text(text)
    return path


def test_separated_labels_lists_and_indicators_agree(tmp_path):
    separated = write(tmp_path / "a.csv", "x,y,candidates,truth\n1,2,cat;dog,dog\n3,4,dog,\n")
    indicator = write(
        tmp_path / "b.csv", "x,y,candidate_cat,candidate_dog,truth\n1,2,1,1,dog\n3,4,0,1,\n"
    )
    lists = pl.DataFrame(
        {"x": [1, 3], "y": [2, 4], "candidates": [["cat", "dog"], ["dog"]], "truth": ["dog", None]}
    )
    for source in (separated, indicator, lists):
        data = read_candidates(source)
        assert data.class_names == ["cat", "dog"]
        assert data.candidates.tolist() == [[True, True], [False, True]]
        assert data.truth.tolist() == [1, -1]
        assert data.features.tolist() == [[1, 2], [3, 4]]


def test_class_names_of_several_words_are_not_split_at_blanks(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidates\n1,brown creeper|winter wren\n2,winter wren\n")
    assert read_candidates(path).class_names == ["brown creeper", "winter wren"]
    path = write(tmp_path / "b.csv", "x,candidates\n1,3 10\n2,3\n")
    assert read_candidates(path).class_names == ["3", "10"]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        (["['a', 'b, c']", "['b, c']", "('a',)"], ["a", "b, c"]),
        (['["a","\\u00e9"]', '["a"]', '["\\u00e9"]'], ["a", "é"]),
        (["{2, 10}", "{2}", "{10}"], ["2", "10"]),
        (["[2.0, 10.0]", "[2.0]", "[10.0]"], ["2", "10"]),
        (["[2 10]", "[2]", "[10]"], ["2", "10"]),  # as numpy prints them
        (["[a;b]", " [a] ", "[b]"], ["a", "b"]),
        (["[a, b]", "[a]", "[b]"], ["a", "b"]),
    ],
)
def test_lists_written_into_one_cell_are_taken_apart(tmp_path, cells, names):
    pl.DataFrame({"x": [1, 2, 3], "candidates": cells}).write_csv(tmp_path / "a.csv")
    guesses = []
    data = read_candidates(tmp_path / "a.csv", report=guesses.append)
    assert data.class_names == names
    assert data.candidates[0].tolist() == [True, True] or names == ["a", "b, c"]
    assert "took the brackets in column 'candidates' as those of lists" in guesses


def test_empty_columns_without_name_are_left_out(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidates,,\n1,a|b,,\n2,b,,\n")
    guesses = []
    assert read_candidates(path, report=guesses.append).features.tolist() == [[1], [2]]
    assert not any("left out" in guess for guess in guesses)


def test_brackets_around_some_cells_belong_to_the_names(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidates\n1,[a]|b\n2,b\n3,[a]\n")
    assert read_candidates(path).class_names == ["[a]", "b"]


def test_an_empty_list_in_a_cell_is_a_row_without_candidates(tmp_path):
    for empty in ("[]", "{}"):
        pl.DataFrame({"x": [1, 2], "candidates": ["['a']", empty]}).write_csv(tmp_path / "a.csv")
        with pytest.raises(EmptyGroupError):
            read_candidates(tmp_path / "a.csv")


def test_a_mat_file_with_transposed_label_arrays_is_turned(tmp_path):
    digits = load_digit_candidates(random_state=0)
    truth = np.eye(10, dtype=np.uint8)[digits.truth]
    upright = {"data": digits.features, "partial_target": digits.candidates, "target": truth}
    transposed = {**upright, "partial_target": digits.candidates.T, "target": truth.T}
    all_transposed = {name: values.T for name, values in upright.items()}
    for number, arrays in enumerate([upright, transposed, all_transposed]):
        savemat(tmp_path / f"{number}.mat", arrays)
        told = []
        data = read_candidates(tmp_path / f"{number}.mat", report=told.append)
        assert np.array_equal(data.features, digits.features)
        assert np.array_equal(data.candidates, digits.candidates)
        assert np.array_equal(data.truth, digits.truth)
        assert any("transposed" in sentence for sentence in told) == (number > 0)


def test_a_truth_outside_its_candidates_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidates,truth\n1,a;b,a\n2,a,b\n3,b,a\n")
    with pytest.raises(
        DataError, match=r"a.csv, line 3: the truth 'b' is not among the candidates .* \(2 such"
    ):
        read_candidates(path)
    path = write(tmp_path / "b.csv", "x,candidates,truth\n1,a;b,zebra\n")
    with pytest.raises(DataError, match=r"line 2: the truth 'zebra' is not one of the 2 labels"):
        read_candidates(path)


def test_a_row_without_candidates_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidate_a,candidate_b\n1,1,0\n2,0,0\n")
    with pytest.raises(EmptyGroupError, match="line 3: no candidate label"):
        read_candidates(path)
    path = write(tmp_path / "b.csv", "x,candidates\n1,a\n2,\n")
    with pytest.raises(DataError, match="line 3: column 'candidates' is empty"):
        read_candidates(path)


def test_an_indicator_may_hold_only_zero_and_one(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidate_a,candidate_b\n1,1,2\n")
    with pytest.raises(DataError, match=r"line 2: column 'candidate_b' holds 2"):
        read_candidates(path)


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    savemat(tmp_path / "a.mat", {"data": np.ones((4, 3)), "partial_target": np.ones((5, 2))})
    with pytest.raises(DataError, match=r"candidates of shape \(5, 2\) does not fit 4 feature"):
        read_candidates(tmp_path / "a.mat")
    savemat(tmp_path / "b.mat", {"data": np.ones((4, 3))})
    with pytest.raises(DataError, match=r"no array that looks like the candidates.*--candidates"):
        read_candidates(tmp_path / "b.mat")
    both = np.ones((4, 2))
    savemat(tmp_path / "c.mat", {"data": np.ones((4, 3)), "partial_target": both, "target": both})
    with pytest.raises(DataError, match="row 0: 2 labels are marked as the truth"):
        read_candidates(tmp_path / "c.mat")


def test_rows_to_be_answered_about_may_lack_candidates(tmp_path):
    path = write(tmp_path / "a.csv", "x,candidates,truth\n1,b|a,c\n2,,\n3,b,\n")
    some = read_candidates(path, labels_needed=False)
    assert some.class_names == ["a", "b"]
    assert some.candidates.tolist() == [[True, True], [False, False], [False, True]]
    assert some.truth is None
    for name, text in (("none", "x\n1\n2\n"), ("empty", "x,candidates\n1,\n2, \n")):
        bare = read_candidates(write(tmp_path / f"{name}.csv", text), labels_needed=False)
        assert bare.features.tolist() == [[1], [2]]
        assert bare.candidates.shape == (2, 0)
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    assert read_candidates(tmp_path / "a.npz", labels_needed=False).candidates.shape == (3, 0)


@pytest.mark.parametrize("share", [1.0, 0.95])
def test_a_column_that_names_candidates_of_its_rows_is_no_feature(tmp_path, share):
    generator, told = np.random.default_rng(0), []
    birds = np.array(["wren", "robin", "tit"])
    truth = generator.integers(3, size=100)
    said = np.where(generator.random(100) < share, truth, (truth + 1) % 3)
    rows = {
        "length": generator.normal(size=100),
        "candidates": ["|".join({birds[one], birds[(one + 2) % 3]}) for one in truth],
        "reviewer": birds[said],
    }
    path = tmp_path / "rows.csv"
    pl.DataFrame(rows).write_csv(path)
    found = read_candidates(path, report=told.append)
    assert found.feature_names == ("length",)
    assert any("'reviewer' (names candidates of the row" in each for each in told)
