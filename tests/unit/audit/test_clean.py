"""Cleaned copies: less noise, nothing made up, and readable again."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from groupnoise.audit import GroupIssues, cleaned_copy
from groupnoise.audit.clean import cleaned_table, describe_changes, write_cleaned_table
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates, read_candidates
from groupnoise.clicks import make_shop
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io import open_groups, write_groups
from groupnoise.io.tables.table import read_table


def found(setting, groups, objects):
    return GroupIssues(setting, groups, objects, {})


def test_bags_lose_wrong_labels_and_go_with_their_last_one(tmp_path):
    bags = load_digit_bags(6, random_state=0)
    bags.labels[0] = [True, True, False, False, False, False]
    source = np.array([0, 0, 1, 2, 3, 4, 5])
    target = np.concatenate([[0, 1], bags.labels[1:].argmax(axis=1)])
    suspicion = np.array([0.9, 0.1, 0.8, 0.1, 0.1, 0.1, 0.1])
    groups = {"source": source, "target": target, "suspicion": suspicion}
    clean = cleaned_copy(bags, found("mil", groups, {"noise": np.zeros(bags.bags.n_objects)}))
    assert len(clean.bags) == 5
    assert np.flatnonzero(clean.labels[0]).tolist() == [1]
    assert clean.bags[1].tolist() == bags.bags[2].tolist()
    assert describe_changes(bags, clean) == ("2 of 7 labels (29%) and 1 of 6 bags (17%)", True)
    assert describe_changes(bags, bags) == ("nothing", False)
    assert bags.labels[0, 0]  # the data audited stays as it was
    write_groups(tmp_path / "clean", clean)
    assert open_groups(tmp_path / "clean").labels.tolist() == clean.labels.tolist()


def test_rows_keep_the_chosen_candidate_and_go_where_the_truth_is_missing():
    rows = load_digit_candidates(part="test", n_distractors=2, random_state=0)
    n_rows = len(rows.features)
    row, label = np.nonzero(rows.candidates)
    noise = np.full(len(label), 0.99)  # even the chosen one looks bad
    suspicion = np.zeros(n_rows)
    suspicion[3] = 0.9
    groups = {"source": np.arange(n_rows), "object": rows.truth, "suspicion": suspicion}
    objects = {"source": row, "object": label, "noise": noise}
    clean = cleaned_copy(rows, found("pll", groups, objects))
    assert len(clean.features) == n_rows - 1
    assert clean.candidates.argmax(axis=1).tolist() == np.delete(rows.truth, 3).tolist()
    assert (clean.candidates.sum(axis=1) == 1).all()
    told, is_much = describe_changes(rows, clean)
    assert told.endswith(f"1 of {n_rows} rows (0%)")
    assert not is_much  # most candidates are there to be dropped


def test_histories_lose_stray_clicks_and_users_with_nothing_left():
    shop = make_shop(5, 40, random_state=0)
    noise = np.where(shop.is_stray, 0.9, 0.1)
    noise[: shop.histories.sizes[0]] = 0.9
    clean = cleaned_copy(shop, found("rs", {}, {"noise": noise}))
    assert clean.user_ids.tolist() == [1, 2, 3, 4]
    assert not clean.is_stray.any()
    kept = shop.histories[1][~shop.is_stray[shop.histories.group_of_object == 1]]
    assert clean.histories[0].tolist() == kept.tolist()
    assert clean.notes["clicks_dropped"] == (noise > 0.5).sum()


def test_users_that_look_like_bots_go_only_when_asked_to():
    shop = make_shop(5, 40, random_state=0)
    calm = found("rs", {}, {"noise": np.zeros(shop.histories.n_objects)})
    issues = replace(calm, users={"source": np.array([1, 3]), "excess": np.ones(2)})
    assert cleaned_copy(shop, issues).user_ids.tolist() == [0, 1, 2, 3, 4]
    clean = cleaned_copy(shop, issues, drop_users=True)
    assert clean.user_ids.tolist() == [0, 2, 4]
    assert clean.histories[1].tolist() == shop.histories[2].tolist()
    with pytest.raises(ParameterError, match="is for click histories"):
        cleaned_copy(load_digit_bags(4, random_state=0), found("mil", {}, {}), drop_users=True)


def test_who_asks_for_users_to_go_keeps_the_stray_clicks_of_others():
    shop = make_shop(5, 40, random_state=0)
    noise = found("rs", {}, {"noise": np.where(shop.is_stray, 0.9, 0.1)})
    issues = replace(noise, users={"source": np.array([1]), "excess": np.ones(1)})
    clean = cleaned_copy(shop, issues, drop_users=True)
    assert clean.histories[0].tolist() == shop.histories[0].tolist()
    assert clean.is_stray.any()
    both = cleaned_copy(shop, issues, drop_users=True, drop_clicks=True)
    assert both.user_ids.tolist() == [0, 2, 3, 4]
    assert not both.is_stray.any()
    neither = cleaned_copy(shop, issues, drop_clicks=False)
    assert neither.histories.n_objects == shop.histories.n_objects


def test_issues_of_other_data_and_data_without_a_good_group_are_refused():
    shop = make_shop(5, 40, random_state=0)
    with pytest.raises(DataError, match="were found in other data"):
        cleaned_copy(shop, found("rs", {}, {"noise": np.zeros(3)}))
    everything = found("rs", {}, {"noise": np.ones(shop.histories.n_objects)})
    with pytest.raises(DataError, match="finds fault with every group"):
        cleaned_copy(shop, everything)


@pytest.mark.parametrize("name", ["clean.xlsx", "clean.csv", "clean.jsonl", "clean.parquet"])
def test_a_cleaned_table_is_a_file_of_the_form_its_name_has(tmp_path, name):
    table = pl.DataFrame({"id": ["a", "b"], "size": [1.5, 2.0]})
    write_cleaned_table(tmp_path / name, table, separator=",", header=True)
    assert (tmp_path / name).is_file()
    again = read_table(tmp_path / name).frame
    assert again["id"].to_list() == ["a", "b"]
    assert [float(cell) for cell in again["size"]] == [1.5, 2.0]


def test_indicators_in_words_lose_candidates_in_the_same_words(tmp_path):
    path = tmp_path / "rows.csv"
    rows = "".join(f"{k},TRUE,True,{'False' if k % 2 else 'true'}\n" for k in (3, 1, 4, 1, 5, 9))
    path.write_text(f"x,cand_a,cand_b,cand_c\n{rows}", encoding="utf-8")
    data = read_candidates(path)
    fewer = data.candidates.copy()
    fewer[:, :2] = [[True, False]]
    left = cleaned_table(read_table(path), data, replace(data, candidates=fewer))
    assert set(left["cand_b"].to_list()) == {"false"}
    assert set(left["cand_a"].to_list()) == {"TRUE"}


def test_labels_in_a_column_for_each_guess_lose_what_is_no_candidate(tmp_path):
    path = tmp_path / "rows.csv"
    rows = "".join(f"{k},{a},{b}\n" for k, a, b in [(3, "a", "b"), (1, "b", "c"), (4, "c", "")])
    path.write_text(f"x,cand_1,cand_2\n{rows}", encoding="utf-8")
    data = read_candidates(path)
    fewer = data.candidates.copy()
    fewer[:2, data.class_names.index("b")] = False
    left = cleaned_table(read_table(path), data, replace(data, candidates=fewer))
    assert left["cand_1"].to_list() == ["a", None, "c"]
    assert left["cand_2"].to_list() == [None, "c", None]
