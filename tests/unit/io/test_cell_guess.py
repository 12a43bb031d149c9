"""Files whose columns are called anything: what their cells tell is taken, or asked."""

import numpy as np
import polars as pl
import pytest

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.exceptions import DataError
from groupnoise.io.columns.setting_guess import guess_setting


def branches(**more):
    """Return loans of forty branches, of which some had a loan denied."""
    generator = np.random.default_rng(0)
    branch = np.repeat(np.arange(40), 6)
    return {
        "branch": [f"B{each}" for each in branch],
        "income": generator.normal(size=240).round(3),
        "debts": generator.integers(0, 5, 240),
        "kind": generator.choice(["house", "flat"], 240),
        **more,
        "denied": np.where(branch % 3 == 0, "yes", "no"),
    }


def told(folder, columns, **given):
    path = folder / "rows.csv"
    pl.DataFrame(columns).write_csv(path)
    return guess_setting(str(path), **given)


def test_what_all_rows_of_a_group_share_is_the_label_of_bags(tmp_path):
    guess = told(tmp_path, branches())
    assert guess.setting == "mil"
    assert guess.columns == {"group": "branch", "label": "denied"}
    assert "'denied' is the same in all rows of each 'branch'" in guess.sentence


def shuffled(columns):
    order = np.random.default_rng(1).permutation(len(columns["income"]))
    return {name: np.asarray(cells)[order] for name, cells in columns.items()}


def test_groups_by_whole_numbers_stand_together_or_have_labels_in_no_order(tmp_path):
    numbered = {**branches(), "branch": np.repeat(np.arange(40), 6)}
    assert told(tmp_path, numbered).columns["group"] == "branch"
    assert told(tmp_path, shuffled(numbered)).columns == {"group": "branch", "label": "denied"}


def test_a_label_that_follows_a_number_makes_no_bags_of_it(tmp_path):
    grade = np.repeat(np.arange(40), 6)
    judged = {**branches(), "branch": grade, "denied": np.where(grade > 15, "yes", "no")}
    with pytest.raises(DataError, match="do not tell"):
        told(tmp_path, shuffled(judged))


def test_few_bags_are_asked_about(tmp_path):
    few = {name: np.asarray(cells)[:36] for name, cells in branches().items()}
    with pytest.raises(
        DataError, match=r"fewer than ten bags .* --group 'branch' --label 'denied'; say that if"
    ):
        told(tmp_path, few)


def test_customers_and_products_beside_a_label_and_measurements_are_asked_about(tmp_path):
    rows = branches(product_id=[f"P{row % 30}" for row in range(240)])
    rows["customer_id"] = rows.pop("branch")
    rows["label"] = rows.pop("denied")
    with pytest.raises(
        DataError,
        match="--user 'customer_id' --item 'product_id' or --group 'customer_id' --label 'label'",
    ):
        told(tmp_path, rows)
    assert told(tmp_path, rows, given={"user": "customer_id", "item": "product_id"}).setting == "rs"
    bare = {name: rows[name] for name in ("customer_id", "product_id", "label", "debts")}
    assert told(tmp_path, bare).setting == "rs"


def told_of_lines(folder, rows):
    path = folder / "rows.jsonl"
    pl.DataFrame(rows).write_ndjson(path)
    return guess_setting(str(path))


def test_lists_and_weights_in_json_beside_numbers_are_candidates(tmp_path):
    generator = np.random.default_rng(0)
    names = ["wren", "robin", "tit"]
    heard = [generator.permutation(names)[: 1 + row % 2].tolist() for row in range(60)]
    numbers = {"a": generator.normal(size=60), "b": generator.normal(size=60)}
    for rows in (
        {**numbers, "heard": heard},
        {**numbers, "heard": [{"wren": 0.5, names[1 + row % 2]: 0.5} for row in range(60)]},
        {"v": generator.normal(size=(60, 3)).tolist(), "heard": heard},
    ):
        guess = told_of_lines(tmp_path, rows)
        assert (guess.setting, guess.columns) == ("pll", {"candidates": "heard"})


def test_the_finest_groups_are_the_bags(tmp_path):
    region = [f"R{each // 12}" for each in range(240)]
    guess = told(tmp_path, branches(region=region, denied=np.repeat(np.arange(20) % 2, 12)))
    assert guess.columns["group"] == "branch"


def test_a_word_for_labels_decides_between_two(tmp_path):
    state = np.repeat(np.arange(40) % 4 == 1, 6)
    assert told(tmp_path, branches(has_loss=state)).columns["label"] == "has_loss"


def test_two_ways_are_a_question(tmp_path):
    big = np.where(np.repeat(np.arange(40) % 4 == 1, 6), "large", "small")
    with pytest.raises(DataError, match="--group 'branch' --label 'size' or --group 'branch'"):
        told(tmp_path, branches(size=big))


def test_what_the_user_names_is_kept(tmp_path):
    big = np.where(np.repeat(np.arange(40) % 4 == 1, 6), "large", "small")
    guess = told(tmp_path, branches(size=big), given={"label": "size"})
    assert guess.columns == {"group": "branch", "label": "size"}


def test_attributes_of_people_beside_times_are_asked_about(tmp_path):
    when = [f"2024-01-{1 + row % 28:02d}" for row in range(240)]
    with pytest.raises(
        DataError, match="uncertain: by their cells --group 'branch' --label 'denied'"
    ):
        told(tmp_path, branches(when=when))
    sample = [f"S{row % 60}" for row in range(240)]
    with pytest.raises(DataError, match="--label 'denied' or --user 'branch' --item 'sample'"):
        told(tmp_path, branches(when=when, sample=sample))
    assert told(tmp_path, branches(when=when), given={"group": "branch"}).setting == "mil"


def test_measurements_beside_times_are_bags_without_a_question(tmp_path):
    days = [f"2024-03-{1 + n % 28:02d}" for n in range(240)]
    drawn = np.random.default_rng(3).normal(size=(4, 240)).round(3)
    acids = {f"acid {n}": values for n, values in enumerate(drawn[:3])}
    assert told(tmp_path, branches(**acids, day=days)).columns == {
        "group": "branch",
        "label": "denied",
    }
    with pytest.raises(DataError, match="beside times that is uncertain"):
        told(tmp_path, branches(day=days))


def test_a_feature_that_is_called_as_labels_are_is_none_if_rows_of_a_bag_differ(tmp_path):
    y = np.random.default_rng(2).normal(size=240).round(3)
    assert told(tmp_path, branches(y=y)).columns == {"group": "branch", "label": "denied"}


@pytest.mark.parametrize("cells", [["0,5", "1,0", "1,5"], ["Ulm, Nord", "Bonn, West", "Ulm, Ost"]])
def test_decimal_commas_and_places_are_no_lists(tmp_path, cells):
    generator = np.random.default_rng(0)
    rows = {"a": generator.normal(size=90), "b": generator.normal(size=90), "c": cells * 30}
    with pytest.raises(DataError, match="do not tell"):
        told(tmp_path, rows)


def test_lists_of_few_words_are_candidates(tmp_path):
    generator = np.random.default_rng(0)
    birds = [
        ";".join(generator.permutation(["wren", "robin", "tit"])[: 1 + row % 2])
        for row in range(60)
    ]
    rows = {"length": generator.normal(size=60), "pitch": generator.normal(size=60), "heard": birds}
    guess = told(tmp_path, rows)
    assert (guess.setting, guess.columns) == ("pll", {"candidates": "heard"})
    titles = [f"The {row}, or {row * 7}, or what" for row in range(60)]
    with pytest.raises(DataError, match="do not tell"):
        told(tmp_path, {**rows, "heard": titles})


def test_two_ids_beside_times_are_clicks(tmp_path):
    generator = np.random.default_rng(0)
    rows = {
        "who": [f"w{each}" for each in generator.integers(30, size=300)],
        "what": [f"x{each}" for each in generator.integers(40, size=300)],
        "moment": [f"2024-01-{1 + row % 28:02d} 10:00" for row in range(300)],
    }
    guess = told(tmp_path, rows)
    assert guess.setting == "rs"
    assert guess.columns == {"user": "who", "item": "what", "time": "moment"}
    assert "the first is taken as the user" in guess.sentence


def test_ids_with_zeros_in_front_are_ids_and_amounts_are_none(tmp_path):
    generator = np.random.default_rng(0)
    rows = {
        "firm": [f"w{each}" for each in generator.integers(30, size=300)],
        "part": [f"{each:08d}" for each in generator.integers(40, size=300)],
        "moment": [f"2024-01-{1 + row % 28:02d} 10:00" for row in range(300)],
        "quantity": generator.integers(1, 50, size=300),
        "price": generator.integers(1, 90, size=300),
        "Days": generator.integers(1, 30, size=300),
    }
    guess = told(tmp_path, rows)
    assert guess.columns == {"user": "firm", "item": "part", "time": "moment"}


def test_a_column_called_as_users_are_is_the_user_wherever_it_stands(tmp_path):
    generator = np.random.default_rng(0)
    rows = {
        "what": [f"x{each}" for each in generator.integers(40, size=300)],
        "customer": [f"w{each}" for each in generator.integers(30, size=300)],
        "moment": [f"2024-01-{1 + row % 28:02d} 10:00" for row in range(300)],
    }
    guess = told(tmp_path, rows)
    assert guess.columns == {"user": "customer", "item": "what", "time": "moment"}
    assert "'customer' is called so" in guess.sentence


def test_whose_rows_follow_each_other_in_time_is_the_user(tmp_path):
    generator = np.random.default_rng(0)
    person = np.repeat(generator.permutation(60), 5)
    order = generator.permutation(300)
    rows = {
        "what": np.array([f"x{each}" for each in generator.integers(40, size=300)])[order],
        "who": np.array([f"w{each}" for each in person])[order],
        "moment": (1_700_000_000 + 60 * np.arange(300))[order],
    }
    guess = told(tmp_path, rows)
    assert guess.columns == {"user": "who", "item": "what", "time": "moment"}
    assert "'who' is taken as the user, for its rows come one after the other" in guess.sentence


def test_columns_that_are_not_there_or_hold_lists_are_left_to_the_reader(tmp_path):
    guess = told(tmp_path, branches(), given={"group": "brnch"})
    assert guess.columns == {"group": "branch", "label": "denied"}
    path = tmp_path / "rows.parquet"
    nested = {"group": [[1], [2]] * 20, "a": [1.0, 2.0] * 20, "b": ["p", "q"] * 20}
    pl.DataFrame(nested).write_parquet(path)
    with pytest.raises(DataError, match="do not tell"):
        guess_setting(str(path))


def test_a_measurement_called_as_labels_are_gives_way_to_what_rows_of_a_bag_share(tmp_path):
    rows = branches(y=np.random.default_rng(2).normal(size=240).round(3))
    rows["slide"] = rows.pop("branch")
    words = {"yes": ["TRUE", "True", "true"], "no": ["FALSE", "false", "False"]}
    rows["has_loss"] = [words[each][row % 3] for row, each in enumerate(rows.pop("denied"))]
    assert told(tmp_path, rows).columns == {"group": "slide", "label": "has_loss"}
    data = read_bags(pl.DataFrame(rows), group="slide", label="has_loss")
    assert data.class_names == ["false", "true"]


def test_a_finding_of_each_sample_beside_dates_and_ages_is_asked_about(tmp_path):
    rows = {
        "Probe": [f"P{row // 5}" for row in range(120)],
        "Befund": ["krank" if row // 5 % 2 else "gesund" for row in range(120)],
        "Datum": [f"{1 + row % 28:02d}.05.2024" for row in range(120)],
        "Alter": [30 + row % 40 for row in range(120)],
    }
    with pytest.raises(DataError, match="--group 'Probe' --label 'Befund' or --user 'Probe'"):
        told(tmp_path, rows)


def test_indicators_of_candidates_tell_what_a_file_holds_in_whatever_words(tmp_path):
    generator = np.random.default_rng(0)
    rows = {"a": generator.normal(size=30), "cand_x": ["TRUE", "False"] * 15}
    rows["cand_y"] = ["False", "true"] * 15
    assert told(tmp_path, rows).setting == "pll"
    data = read_candidates(tmp_path / "rows.csv")
    assert data.candidates[:2].tolist() == [[True, False], [False, True]]


def test_bags_of_several_labels_or_none_are_no_candidates(tmp_path):
    labels = ["dent;crack", None, "rust", "crack;rust"] * 10
    plates = branches(denied=np.repeat(labels, 6))
    guess = told(tmp_path, plates)
    assert (guess.setting, guess.columns) == ("mil", {"group": "branch", "label": "denied"})


def test_bags_of_categories_are_known_and_a_column_that_hardly_differs_is_no_feature(tmp_path):
    columns = branches(roof=["slate"] * 239 + ["straw"])
    columns = {**columns, "door": columns["kind"][::-1]}
    del columns["income"], columns["debts"]
    guess = told(tmp_path, columns)
    assert guess.columns == {"group": "branch", "label": "denied"}
    said = []
    read_bags(tmp_path / "rows.csv", **guess.columns, report=said.append)
    assert said[-1] == "left out 'roof' (hardly ever differs)"


def test_messages_of_threads_are_asked_about_beside_clicks(tmp_path):
    generator = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(400)])
    thread = np.repeat(np.arange(40), 6)
    columns = {
        "thread": [f"T{each}" for each in thread],
        "topic": np.where(thread % 3 == 0, "storage", "other"),
        "message": [" ".join(generator.permutation(words)[:5]) for _ in thread],
        "author": [f"u{each}" for each in generator.integers(30, size=240)],
        "posted": [f"2024-05-{day:02d}" for day in generator.integers(1, 29, 240)],
    }
    asked = "--group 'thread' --label 'topic' or --user 'thread' --item 'author'"
    with pytest.raises(DataError, match=asked):
        told(tmp_path, columns)
    del columns["posted"]
    assert told(tmp_path, columns).columns == {"group": "thread", "label": "topic"}


def test_sentences_that_are_numbered_in_each_ticket_are_the_features_of_bags(tmp_path):
    sizes = np.random.default_rng(0).integers(2, 6, size=60)
    topics = [["billing", "login", "billing, login"][n % 3] for n in range(60)]
    words = ["please help me with this", "the invoice is wrong again", "my password was not taken"]
    rows = {
        "ticket": np.repeat([f"T{n}" for n in range(60)], sizes),
        "no": np.concatenate([np.arange(size) for size in sizes]),
        "sentence": [words[n % 3] for n in range(sizes.sum())],
        "tags": np.repeat(topics, sizes),
    }
    assert told(tmp_path, rows).columns == {"group": "ticket", "label": "tags"}
    bags = read_bags(tmp_path / "rows.csv", group="ticket", label="tags")
    assert bags.feature_names[0].startswith("sentence: ")


def test_what_every_user_has_alone_is_no_item(tmp_path):
    deals = np.repeat(np.arange(60), 3)
    columns = {
        "deal": [f"D{each}" for each in deals],
        "company": [f"C{each % 25}" for each in deals],
        "day": [f"{1 + each % 28:02d}.03.2025" for each in deals],
        "minutes": np.arange(len(deals)) % 7 + 0.5,
        "result": ["won" if each % 3 else "lost" for each in deals],
    }
    with pytest.raises(DataError, match="--group 'deal' --label 'result'; say that") as found:
        told(tmp_path, columns)
    assert "--user" not in str(found.value)


def test_of_several_times_the_one_that_is_called_so_orders_clicks(tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "Lesernummer": rng.integers(1000, 1030, 300),
        "Titel": [f"Band {each}" for each in rng.integers(0, 60, 300)],
        "Ausleihdatum": [f"{1 + each % 28:02d}.03.2025" for each in range(300)],
        "Faellig": [f"{1 + each % 28:02d}.04.2025" for each in range(300)],
    }
    found = told(tmp_path, columns)
    assert found.columns == {"user": "Lesernummer", "item": "Titel", "time": "Ausleihdatum"}


def test_of_two_columns_the_one_that_is_called_so_tells_the_other(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"basket": rng.integers(0, 90, 400), "product": rng.integers(0, 40, 400)}
    assert told(tmp_path, columns).columns == {"user": "basket", "item": "product"}
    assert told(tmp_path, {"user": columns["basket"], "colour": columns["product"]}).columns == {
        "user": "user",
        "item": "colour",
    }
