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


def test_the_best_answers_of_a_model_in_a_column_each_are_candidates(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "x,cand_1,cand_2,cand_3\n1,cat,dog,\n2,dog,?,emu\n3,red fox,dog,cat\n4,cat,emu,dog\n",
    )
    said: list[str] = []
    data = read_candidates(path, report=said.append)
    assert data.class_names == ["cat", "dog", "emu", "red fox"]
    assert data.candidates.sum(axis=1).tolist() == [2, 2, 3, 3]
    assert "took the cells of the 3 columns as one label each" in said


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_ages_in_a_column_for_each_guess_are_candidates(missing):
    guesses = {"candidate_1": [28, 31, 45], "candidate_2": [31.0, missing, 28.0]}
    data = read_candidates(pl.DataFrame({"x": [1.5, 2.5, 4.0], **guesses}))
    assert data.class_names == ["28", "31", "45"]
    assert data.candidates.astype(int).tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_digits_from_zero_in_a_column_for_each_guess_are_no_indicators():
    guesses = {"candidate_1": [0, 1, 2, 0], "candidate_2": [1, 0, 1, 2]}
    data = read_candidates(pl.DataFrame({"x": [1.5, 2.5, 4.0, 5.0], **guesses}))
    assert data.class_names == ["0", "1", "2"]
    assert data.candidates.sum(axis=1).tolist() == [2, 2, 2, 2]


def test_scores_in_a_column_for_each_label_are_no_labels():
    frame = pl.DataFrame({"x": [1, 2], "candidate_a": [0.3, 0.8], "candidate_b": [0.7, 0.2]})
    with pytest.raises(DataError, match=r"holds 0.3 .*; write 1 where a row has the label, else 0"):
        read_candidates(frame)


def rows_of_candidates(n_objects=40, n_each=3):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_objects, 4)).repeat(n_each, axis=0)
    frame = pl.DataFrame(features, schema=["a", "b", "c", "d"])
    labels = [rng.permutation(["cat", "dog", "emu", "fox"])[:n_each] for _ in range(n_objects)]
    return frame.with_columns(
        image=np.arange(n_objects).repeat(n_each).astype(str),
        candidate=np.concatenate(labels),
        score=rng.random(len(features)),
    )


def test_a_row_for_each_candidate_is_refused_with_what_joins_them():
    frame = rows_of_candidates()
    with pytest.raises(
        DataError, match=r"row 0: '0' in column 'image' .*40 objects on 120 ro"
    ) as e:
        read_candidates(frame)
    advice = str(e.value).partition(" does with ")[2].rstrip(".")
    joined = read_candidates(eval(advice, {"frame": frame.to_pandas()}))
    assert joined.feature_names == ("a", "b", "c", "d")
    assert joined.candidates.sum(axis=1).tolist() == [3] * 40


def test_rows_without_id_of_which_each_holds_a_candidate_are_refused_too():
    with pytest.raises(DataError, match="in column 'a' stands on several rows"):
        read_candidates(rows_of_candidates().drop("image"))


def test_rows_of_their_own_with_one_candidate_each_are_read():
    frame = rows_of_candidates(n_each=1)
    assert len(read_candidates(frame).features) == 40
    visits = rows_of_candidates().with_columns(pl.lit("cat").alias("candidate"))
    visits = visits.with_columns(pl.Series("candidate", ["cat", "cat", "dog"] * 40))
    assert len(read_candidates(visits).features) == 120
