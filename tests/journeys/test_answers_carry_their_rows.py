"""Ids are never features, and they come back with every answer."""

import json

import numpy as np
import pytest

from journeys.own_files import (
    BAG_COLUMNS,
    FEATURES,
    FILES,
    QUICK,
    bag_rows,
    candidate_rows,
    read_csv,
    write_csv,
)


def features_of(folder):
    manifest = json.loads((folder / "model/manifest.json").read_text())
    found = []

    def look(part):
        if isinstance(part, dict):
            if part.get("feature_names_in"):
                found.append(part["feature_names_in"])
            for inner in part.values():
                look(inner)

    look(manifest)
    return found[0]


NEVER_FEATURES = {
    "instance_id": lambda rows: [7 * number + 3 for number in range(len(rows))],
    "": lambda rows: list(range(len(rows))),
    "Unnamed: 0": lambda rows: list(range(len(rows))),
    "sensor": lambda rows: [3] * len(rows),
    "number": lambda rows: list(range(1, len(rows) + 1)),
    "shuffled": lambda rows: np.random.default_rng(0).permutation(len(rows)).tolist(),
    "patientId": lambda rows: [1000 + int(row[0][1:]) for row in rows],
}


@pytest.mark.parametrize("column", list(NEVER_FEATURES))
def test_ids_row_numbers_and_constants_are_never_features(command, tmp_path, column):
    rows = bag_rows()
    extra = NEVER_FEATURES[column](rows)
    table = [(value, *row) for value, row in zip(extra, rows, strict=True)]
    write_csv(tmp_path / "bags.csv", (column, *BAG_COLUMNS), table)
    said = command("fit", "bags.csv", "--setting", "mil", "-o", "model", "-q", *QUICK["mil"])
    assert features_of(tmp_path) == list(FEATURES)
    assert said.err.count("left out") == 1
    assert repr(column) in said.err
    command("predict", "model", "bags.csv", "--setting", "mil", "-o", "answers.csv")
    command("fit", "bags.csv", "--setting", "mil", "-o", "model", "-q", *QUICK["mil"],
               "--features", ",".join([column, *FEATURES]) if column else "f*")  # fmt: skip
    if column:  # what a person names is taken
        assert column in features_of(tmp_path)


def test_answers_bring_ids_and_the_columns_asked_for(command, tmp_path):
    rows = bag_rows()
    table = [(f"x{number}", *row, f"note {number}") for number, row in enumerate(rows)]
    write_csv(tmp_path / "bags.csv", ("instance_id", *BAG_COLUMNS, "remark"), table)
    file = ["bags.csv", "--setting", "mil"]
    command("fit", *file, "-o", "model", "-q", *QUICK["mil"])
    words = ["--keep", "remark", "--keep", "f*", "--keep", "label"]
    for suffix in ("csv", "jsonl", "parquet"):
        command("predict", "model", *file, "-o", f"answers.{suffix}", *words)
    answers = read_csv(tmp_path / "answers.csv")
    assert len(answers) == len(rows)
    for number, (answer, row) in enumerate(zip(answers, rows, strict=True)):
        assert answer["bag"] == row[0]
        assert answer["instance_id"] == f"x{number}"
        assert answer["remark"] == f"note {number}"
        assert answer["input_label"] == row[1]
        assert [float(answer[name]) for name in FEATURES] == list(row[3:])
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [line["remark"] for line in lines] == [answer["remark"] for answer in answers]
    import polars as pl

    assert pl.read_parquet(tmp_path / "answers.parquet").columns == list(answers[0])
    refused = command("predict", "model", *file, "-o", "a.csv", "--keep", "nothing", code=2)
    assert "'nothing'" in refused.err


def test_rows_with_candidates_keep_their_columns_too(command, tmp_path):
    rows = candidate_rows()
    table = [
        (f"face-{number}", *features, "|".join(names), truth)
        for number, (features, names, truth) in enumerate(rows)
    ]
    write_csv(tmp_path / "rows.csv", ("face_id", *FEATURES, "candidates", "truth"), table)
    file = ["rows.csv", "--setting", "pll"]
    command("fit", *file, "-o", "model", "-q", *QUICK["pll"])
    command("predict", "model", *file, "-o", "answers.csv", "--keep", "candidates")
    answers = read_csv(tmp_path / "answers.csv")
    assert [answer["face_id"] for answer in answers] == [row[0] for row in table]
    assert [answer["candidates"] for answer in answers] == [row[5] for row in table]
    new = [(truth, f"face-{number}", *features) for number, (features, _, truth) in
           enumerate(rows[:2])]  # fmt: skip
    write_csv(tmp_path / "new.csv", ("truth", "face", *FEATURES), new)
    command("predict", "model", "new.csv", "-o", "answers.csv")
    answers = read_csv(tmp_path / "answers.csv")
    assert [answer["face"] for answer in answers] == ["face-0", "face-1"]
    assert "truth" not in answers[0]


@pytest.mark.parametrize(
    ("setting", "shape"), [("mil", "csv"), ("mil", "parquet"), ("pll", "bars"), ("rs", "unsorted")]
)
def test_the_cleaned_copy_of_an_audit_comes_in_the_form_of_the_input(
    command, tmp_path, setting, shape
):
    path, words = FILES[setting, shape](tmp_path)
    file = [path.name, "--setting", setting, *words]
    # A model that learned nothing yet finds fault with everything.
    command("fit", *file, "-o", "model", "-q", *QUICK[setting], "-p", "max_epochs=15")
    clean = f"clean{path.suffix}"
    command("audit", *file, "--model", "model", "-o", "audit", "-q", "--clean", clean)
    import polars as pl

    read = pl.read_parquet if path.suffix == ".parquet" else pl.read_csv
    before, after = read(path), read(tmp_path / clean)
    assert after.columns == before.columns
    assert 0 < len(after) <= len(before)
    command("fit", clean, "--setting", setting, *words, "-o", "again", "-q", *QUICK[setting])
