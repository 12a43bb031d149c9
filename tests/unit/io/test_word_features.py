"""What a model never saw in a column of categories is said once, with examples."""

import numpy as np
import polars as pl
import pytest

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates


def rows(colours, n=60):
    generator = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "bag": [f"b{row // 5}" for row in range(n)],
            "label": ["yes" if row // 5 % 2 else "no" for row in range(n)],
            "x": generator.normal(size=n),
            "colour": [colours[row % len(colours)] for row in range(n)],
        }
    )


COMMON = ["red", "red", "red", "blue"]  # a word of most rows is no feature, but it was seen


def learned():
    data = read_bags(rows(COMMON))
    assert data.columns["categories"] == {"colour": ["blue", "red"]}
    return {"feature_names": data.feature_names, "categories": data.columns["categories"]}


def test_categories_that_a_model_never_saw_are_said_once_with_examples():
    said = []
    read_bags(
        rows(["Red", "mauve", "teal", None]), labels_needed=False, report=said.append, **learned()
    )
    about = [sentence for sentence in said if "'colour'" in sentence]
    assert about == [
        "column 'colour' has 30 rows with categories that the model never saw ('mauve', 'teal') "
        "and 15 rows with an empty cell; it tells nothing there, so other columns decide"
    ]


def test_nothing_is_said_of_categories_that_were_seen():
    said = []
    read_bags(rows(COMMON), report=said.append, **learned())
    assert not any("never saw" in sentence for sentence in said)


def test_in_python_it_is_a_warning():
    with pytest.warns(UserWarning, match="60 rows with categories that the model never saw"):
        read_bags(rows(["teal"]), labels_needed=False, **learned())


def test_rows_with_candidates_are_told_of_alike():
    def heard(colours):
        cells = ["a;b" if row % 7 < 4 else "c;d" for row in range(60)]
        return rows(colours).drop("bag", "label").with_columns(candidates=pl.Series(cells))

    data = read_candidates(heard(["red", None, "blue"]))
    assert data.columns["categories"] == {"colour": ["", "blue", "red"]}
    said = []
    read_candidates(
        heard(["red", None, "teal"]),
        labels_needed=False,
        report=said.append,
        feature_names=data.feature_names,
        categories=data.columns["categories"],
    )
    assert any("20 rows with categories that the model never saw ('teal');" in s for s in said)


@pytest.mark.parametrize("features", [None, "x,colour"])
def test_empty_cells_of_categories_are_counted_when_a_model_is_to_learn(features):
    said = []
    read_bags(rows(["red", "blue", "blue", None]), features=features, report=said.append)
    assert any("15 of 60 cells of column 'colour' are empty" in sentence for sentence in said)


def with_text(n=60):
    words = ["app", "parcel", "refund", "late", "crashed", "thanks", "twice", "box"]
    generator = np.random.default_rng(1)
    said = [" ".join(generator.choice(words, size=3, replace=False)) for _ in range(n)]
    return rows(["red"], n).drop("colour").with_columns(text=pl.Series(said))


def test_text_is_read_beside_numbers():
    frame = with_text().drop("bag", "label")
    frame = frame.with_columns(
        candidates=pl.Series(["a;b" if row % 3 else "c" for row in range(60)])
    )
    said = []
    data = read_candidates(frame, report=said.append)
    assert {"x", "text: parcel", "text: refund"} <= set(data.feature_names)
    assert "took the words of column 'text' as features, beside the numbers" in said
    again = read_candidates(frame.head(4), labels_needed=False, feature_names=data.feature_names)
    np.testing.assert_array_equal(again.features, data.features[:4])
    many = frame.with_columns(**{f"e{i}": pl.col("x") + 0.1 * i for i in range(60)})
    assert read_candidates(many).features.shape[1] == 61  # what an embedding of the text may be


def test_text_that_whole_bags_share_tells_no_instance_from_the_others():
    assert "text: parcel" in read_bags(with_text()).feature_names
    shared = with_text().with_columns(pl.col("text").first().over("bag"))
    assert read_bags(shared).feature_names == ("x",)
