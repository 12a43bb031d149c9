"""fit, predict and evaluate on files of one's own, in whatever order rows and columns come."""

import csv
import json

import numpy as np
import pytest

N_CLASSES = 12


def write_csv(path, columns, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def candidate_rows(seed=0, n_rows=240, classes=range(N_CLASSES)):
    """Well separated classes 0 to 11 with three candidates a row: features, candidates, truth."""
    centres = np.random.default_rng(0).normal(size=(N_CLASSES, 6)) * 4
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        truth = int(rng.choice(list(classes)))
        others = rng.choice(list(classes), 2, replace=False).tolist()
        features = (centres[truth] + rng.normal(size=6) * 0.5).round(4).tolist()
        rows.append((features, sorted({truth, *others}), truth))
    return rows


COLUMNS = [f"f{number}" for number in range(6)]


def write_candidates(path, rows):
    lines = [[*features, "|".join(map(str, named)), truth] for features, named, truth in rows]
    return write_csv(path, [*COLUMNS, "candidates", "truth"], lines)


def fit_candidates(command, path, *words):
    command(
        "fit", path, "--setting", "pll", "-o", "model", "-q", "-p", "max_epochs=15", *words
    )  # fmt: skip


@pytest.mark.slow
def test_the_best_candidate_is_found_by_name_whatever_the_order_of_the_classes(command, tmp_path):
    rows = candidate_rows()
    fit_candidates(command, write_candidates(tmp_path / "rows.csv", rows))
    command("predict", "model", "rows.csv", "--setting", "pll", "-o", "answers.csv")
    best = [int(answer["best_candidate"]) for answer in read_csv(tmp_path / "answers.csv")]
    assert np.mean([one == truth for one, (_, _, truth) in zip(best, rows, strict=True)]) > 0.95

    order = list(range(N_CLASSES))[::-1]
    names = [f"candidate_{number}" for number in order]
    lines = [[*features, *(int(k in named) for k in order)] for features, named, _ in rows]
    write_csv(tmp_path / "columns.csv", [*COLUMNS, *names], lines)
    command("predict", "model", "columns.csv", "--setting", "pll", "-o", "again.csv")
    again = [int(answer["best_candidate"]) for answer in read_csv(tmp_path / "again.csv")]
    assert again == best


@pytest.mark.slow
def test_new_rows_may_lack_classes_or_have_unknown_ones(command, tmp_path):
    fit_candidates(command, write_candidates(tmp_path / "rows.csv", candidate_rows()))
    rows = candidate_rows(seed=1, n_rows=4, classes=[3, 10, 11])
    features, named, truth = rows[0]
    rows[0] = (features, [*named, 77], truth)
    rows[1] = (rows[1][0], [77, 78], 78)
    write_candidates(tmp_path / "new.csv", rows)
    command("predict", "model", "new.csv", "--setting", "pll", "-o", "answers.jsonl")
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert answers[0]["best_candidate"] in map(str, named)
    assert answers[1]["best_candidate"] is None
    assert answers[1]["label"] in {"3", "10", "11"}


def bag_rows(n_bags=40, seed=0):
    """Bags whose first instance carries the label: (bag, label, features) in a mixed order."""
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(n_bags):
        for place in range(int(rng.integers(1, 4))):
            features = rng.normal(size=3) * 0.3
            features[bag % 3] += 4 * (place == 0)
            rows.append((f"{bag:03d}", ("cat", "dog", "emu")[bag % 3], *features.round(4).tolist()))
    return [rows[number] for number in rng.permutation(len(rows))]


BAG_COLUMNS = ["bag", "label", "f0", "f1", "f2"]


@pytest.mark.slow
def test_reordered_and_extra_columns_change_no_answer_and_missing_ones_are_named(command, tmp_path):
    rows = candidate_rows()
    fit_candidates(command, write_candidates(tmp_path / "rows.csv", rows))
    metrics = command("evaluate", "model", "rows.csv", "--setting", "pll").out
    lines = [
        ["", truth, "|".join(map(str, named)), *features[::-1], number]
        for number, (features, named, truth) in enumerate(rows)
    ]
    columns = ["age", "truth", "candidates", *COLUMNS[::-1], "id"]
    write_csv(tmp_path / "turned.csv", columns, lines)
    figures = metrics.split("\n", 1)[1]
    turned = command("evaluate", "model", "turned.csv", "--setting", "pll").out
    assert turned.split("\n", 1) == ["turned: 24 rows, held out of training", figures]
    command("data", "convert", "turned.csv", "stored", "--setting", "pll", "--features", "f*")
    assert command("evaluate", "model", "stored").out.endswith(figures)

    columns[columns.index("f1")], columns[columns.index("f4")] = "g1", "g4"
    write_csv(tmp_path / "other.csv", columns, lines)
    refused = command("evaluate", "model", "other.csv", "--setting", "pll", code=2).err
    assert "other.csv lacks 2 of the 6 columns that the model learned from: 'f1', 'f4'." in refused


@pytest.mark.parametrize("method", ["max-matching", "milr"])
def test_columns_of_bags_are_matched_by_name_in_predictions_and_audits(command, tmp_path, method):
    rows = bag_rows()
    write_csv(tmp_path / "bags.csv", BAG_COLUMNS, rows)
    write_csv(tmp_path / "turned.csv", BAG_COLUMNS[::-1], [row[::-1] for row in rows])
    quick = ["-p", "max_epochs=2"] if method == "max-matching" else []
    words = ["--setting", "mil", "-o", "model", "-q", "--method", method, *quick]
    command("fit", "bags.csv", *words)
    for name in ("bags", "turned"):
        said = command(
            "predict", "model", f"{name}.csv", "--setting", "mil", "-o", f"{name}-answers.csv"
        )
        assert "warn" not in said.err.lower()
        if method == "max-matching":
            command(
                "audit", f"{name}.csv", "--model", "model", "--setting", "mil", "-o", name, "-q"
            )
    answers = [(tmp_path / f"{name}-answers.csv").read_text() for name in ("bags", "turned")]
    assert answers[0] == answers[1]
    if method == "max-matching":
        groups = read_csv(tmp_path / "bags/groups.csv")
        assert groups == read_csv(tmp_path / "turned/groups.csv")
        for group in groups:
            assert rows[int(group["object"])][:2] == (group["source"], group["target"])


def test_answers_about_bags_come_in_the_order_of_the_file_under_its_ids(command, tmp_path):
    rows = bag_rows()
    write_csv(tmp_path / "bags.csv", BAG_COLUMNS, rows)
    command("fit", "bags.csv", "--setting", "mil", "-o", "model", "-q", "-p", "max_epochs=2")
    command("data", "convert", "bags.csv", "stored", "--setting", "mil")
    command("predict", "model", "bags.csv", "--setting", "mil", "-o", "answers.csv")
    command("predict", "model", "stored", "-o", "again.csv")
    answers = read_csv(tmp_path / "answers.csv")
    assert [answer["row"] for answer in answers] == [str(number) for number in range(len(rows))]
    assert [answer["bag"] for answer in answers] == [row[0] for row in rows]
    assert read_csv(tmp_path / "again.csv") == answers

    rows[7] = (*rows[7][:3], 1e300, rows[7][4])
    write_csv(tmp_path / "huge.csv", BAG_COLUMNS, rows)
    words = ["--setting", "mil", "-o", "huge-answers.csv"]
    refused = command("predict", "model", "huge.csv", *words, code=2).err
    assert "row 7, column 1 of the features holds 1e+300" in refused
    assert not (tmp_path / "huge-answers.csv").exists()


def test_rows_without_candidates_and_bags_without_labels_are_predicted(command, tmp_path):
    rows = candidate_rows(n_rows=60)
    write_candidates(tmp_path / "rows.csv", rows)
    linear = ["-p", "max_epochs=2", "-p", "encoder=linear"]
    command("fit", "rows.csv", "--setting", "pll", "-o", "rows", "-q", *linear)
    command("predict", "rows", "rows.csv", "--setting", "pll", "-o", "labelled.csv")
    write_csv(tmp_path / "new.csv", COLUMNS, [features for features, _, _ in rows])
    command("predict", "rows", "new.csv", "--setting", "pll", "-o", "unlabelled.csv")
    labelled = read_csv(tmp_path / "labelled.csv")
    for answer in labelled:
        del answer["best_candidate"]
    assert read_csv(tmp_path / "unlabelled.csv") == labelled
    refused = command("evaluate", "rows", "new.csv", "--setting", "pll", code=2).err
    assert "no column that looks like the candidates" in refused

    bags = bag_rows()
    write_csv(tmp_path / "bags.csv", BAG_COLUMNS, bags)
    command("fit", "bags.csv", "--setting", "mil", "-o", "bags", "-q", "-p", "max_epochs=2")
    write_csv(tmp_path / "bare.csv", ["bag", *BAG_COLUMNS[2:]], [[b, *f] for b, _, *f in bags])
    for name in ("bags", "bare"):
        command("predict", "bags", f"{name}.csv", "--setting", "mil", "-o", f"{name}.jsonl")
    assert (tmp_path / "bare.jsonl").read_text() == (tmp_path / "bags.jsonl").read_text()


def write_clicks(path, histories):
    rows = [
        (f"u{user}", item, step)
        for user, items in enumerate(histories)
        for step, item in enumerate(items)
    ]
    return write_csv(path, ["user", "item", "time"], rows)


def test_places_that_a_small_catalogue_cannot_fill_are_left_out(command, tmp_path):
    write_clicks(tmp_path / "clicks.csv", ["abc", "bcd", "cda", "dab"] * 5)
    quick = ["-p", "max_epochs=1", "-p", "dim=4", "--validation", 0]
    command("fit", "clicks.csv", "--setting", "rs", "-o", "model", "-q", *quick)
    write_clicks(tmp_path / "new.csv", ["ab", "az", "zz"])
    said = command(
        "predict", "model", "new.csv", "--setting", "rs", "-o", "answers.jsonl", "--top", 100
    )
    lines = (tmp_path / "answers.jsonl").read_text().splitlines()
    answers = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    ranks = {user: [a["rank"] for a in answers if a["user"] == user] for user in ("u0", "u1", "u2")}
    assert ranks == {"u0": [1, 2], "u1": [1, 2, 3], "u2": [1, 2, 3, 4]}
    assert "items the model does not know: 3; " in said.err
    assert "answered by popularity: 1" in said.err
    sources = {answer["user"]: answer["source"] for answer in answers}
    assert sources == {"u0": "history", "u1": "history", "u2": "popularity"}


def test_a_log_of_other_items_is_refused_and_one_of_every_item_says_why_it_gets_none(
    command, tmp_path
):
    write_clicks(tmp_path / "clicks.csv", ["abc", "bcd", "cda", "dab"] * 5)
    quick = ["-p", "max_epochs=1", "-p", "dim=4", "--validation", 0]
    command("fit", "clicks.csv", "--setting", "rs", "-o", "model", "-q", *quick)
    words = ("predict", "model", "new.csv", "-o", "answers.csv")
    write_clicks(tmp_path / "new.csv", ["xyz"])
    said = command(*words, code=2)
    assert "knows none of the 3 items of these clicks, such as 'x'; its own are" in said.err
    write_clicks(tmp_path / "new.csv", ["abcd"])
    assert "1 history got no item: every item was seen; --no-excl" in command(*words).err
    said = command(*words, "--no-exclude-seen")
    assert "4 rows written" in said.out
    assert "got no item" not in said.err


def test_a_parameter_of_another_setting_is_refused_before_the_data_is_read(command, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item,time\nu1,a,1\nu1,b,2\nu2,,3\n")
    words = ("fit", "clicks.csv", "-o", "model")
    assert "line 4" in command(*words, code=2).err  # what reading it says
    said = command(*words, "-p", "ordinal_smoothing=0.1", code=2)
    assert "'ordinal_smoothing' is no parameter of max-matching; known: selection" in said.err
    assert "line 4" not in said.err
