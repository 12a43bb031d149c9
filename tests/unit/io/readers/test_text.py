"""A column of text becomes features by its words, and further rows are read by the same words."""

from functools import partial

import numpy as np
import pytest

from groupnoise.bags.reading.reader import read_bags
from groupnoise.candidates.reading import read_candidates
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import read_like_training_file

ROWS = [
    ("r1", "Goal, goal and a late win", "sport|food"),
    ("r2", "the win of a late team", "sport"),
    ("r3", "salt and cheese, late", "food"),
    ("r4", "cheese with salt and wine", "food|sport"),
    ("r5", "a goal for the team", "sport"),
    ("r6", "wine of the house", "food"),
]


def frame(**more):
    columns = list(zip(*ROWS, strict=True))
    return {"id": columns[0], "review": columns[1], "candidates": columns[2], **more}


def test_words_of_several_rows_are_the_features():
    said = []
    found = read_candidates(frame(), report=said.append)
    assert "review: goal" in found.feature_names
    assert "review: house" not in found.feature_names  # stands in one row alone
    assert any("words of column 'review' as features" in sentence for sentence in said)
    named = dict(zip(found.feature_names, found.features.T, strict=True))
    assert (named["review: goal"] > 0).tolist() == [True, False, False, False, True, False]
    # A word said twice counts once and a logarithm, and every row has length one.
    assert named["review: goal"][0] / named["review: win"][0] == pytest.approx(1 + np.log(2))
    np.testing.assert_allclose(np.linalg.norm(found.features, axis=1), 1.0, rtol=1e-6)


def test_further_rows_are_read_by_the_words_a_model_learned_from():
    learned = read_candidates(frame())
    other = {"review": ["goal goal goal", "nothing known", None], "id": ["a", "b", "c"]}
    again = read_candidates(other, feature_names=learned.feature_names, labels_needed=False)
    assert again.feature_names == learned.feature_names
    assert again.features[0, learned.feature_names.index("review: goal")] == 1.0
    assert not again.features[1:].any()


def test_text_and_numbers_stand_side_by_side_where_both_are_named():
    stars = [5, 4, 1, 2, 5, 1]
    found = read_candidates(frame(stars=stars), features=["stars", "review"])
    assert found.feature_names[0] == "stars"
    assert found.features[:, 0].tolist() == stars
    again = read_candidates(frame(stars=stars), feature_names=found.feature_names)
    np.testing.assert_array_equal(again.features, found.features)


def test_text_is_read_beside_numbers_where_nothing_is_named():
    found = read_candidates(frame(stars=[5.0, 4.0, 1.0, 2.0, 5.0, 1.5]))
    assert {"stars", "review: goal"} <= set(found.feature_names)


def test_bags_of_sentences_are_read_too():
    rows = frame()
    rows["label"] = ["yes", "yes", "no", "no", "yes", "no"]
    rows["bag"] = ["a", "a", "b", "b", "c", "d"]
    del rows["candidates"]
    assert "review: team" in read_bags(rows).feature_names


def test_text_without_a_common_word_is_refused_with_its_column():
    rows = {"review": ["one two three", "four five six"], "candidates": ["a|b", "b"]}
    with pytest.raises(DataError, match="the text in column 'review' holds no word that stands in"):
        read_candidates(rows)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_a_remembered_encoding_helps_where_a_file_is_not_utf8(tmp_path, encoding):
    path = tmp_path / "bags.csv"
    rows = [f"b{row // 2},{'Übel' if row // 2 % 2 else 'gut'},{row}.5" for row in range(8)]
    path.write_bytes("\n".join(["bag,label,x", *rows]).encode(encoding))
    remembered = {"group": "bag", "encoding": "cp1252"}
    data, used = read_like_training_file(partial(read_bags, path), {}, remembered, None)
    assert sorted(data.class_names) == ["gut", "Übel"]
    assert ("encoding" in used) == (encoding == "cp1252")
