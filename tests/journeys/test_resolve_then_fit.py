"""A file that `resolve` wrote goes on to `fit`, `evaluate`, `predict` and `resolve` itself."""

import csv
import itertools
import json

import numpy as np
import polars as pl
import pytest

from groupnoise import load_model
from groupnoise.io.answer_files import write_columns
from groupnoise.review.questions import RowQuestions
from groupnoise.votes import resolve
from journeys.own_files import write_csv

WRITTEN = ("probability", "second", "margin", "agreement", "look")
QUICK = ("--folds", "2", "--rounds", "1")


@pytest.fixture
def votes_csv(tmp_path):
    """Numbers and votes that are numbers too; one annotator is right, two often guess."""
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 3
    features = 2 * np.eye(3)[truth] + 0.5 * generator.normal(size=(120, 3))
    said = [np.where(generator.random(120) < skill, truth, generator.integers(0, 3, 120))
            for skill in (0.95, 0.6, 0.5)]  # fmt: skip
    rows = [
        [f"r{n}", *map("{:.4f}".format, features[n]), *(votes[n] for votes in said)]
        for n in range(120)
    ]
    names = ["row_id", "f0", "f1", "f2", "ann_1", "ann_2", "Eve"]
    return write_csv(tmp_path / "votes.csv", names, rows)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".xlsx"])
def test_answers_and_votes_are_no_features(command, votes_csv, tmp_path, suffix):
    labels = tmp_path / f"labels{suffix}"
    command("resolve", votes_csv, "--annotators", "ann_*,Eve", *QUICK, "-o", labels)
    done = command("fit", labels, "-o", tmp_path / "model", "-p", "encoder=kernel", "-q")
    said = " ".join(done.err.split())
    assert "took column 'label', which `resolve` wrote" in said
    left_out = said.split("left out 'ann_1'")[1].split("which `resolve` wrote")[0]
    assert all(f"'{name}'" in left_out for name in ("ann_2", "Eve", "why", *WRITTEN))
    assert load_model(tmp_path / "model").feature_names_in_.tolist() == ["f0", "f1", "f2"]
    assert "labels" in command("evaluate", tmp_path / "model", labels, "--setting", "pll").out
    command("predict", tmp_path / "model", labels, "-o", tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open() as stream:
        answers = list(csv.DictReader(stream))
    assert [line["row_id"] for line in answers] == [f"r{n}" for n in range(120)]


def test_votes_and_candidates_under_any_names_are_no_features(command, tmp_path):
    generator = np.random.default_rng(0)
    truth = np.arange(90) % 3
    features = 2 * np.eye(3)[truth] + 0.5 * generator.normal(size=(90, 3))
    names = np.array(["Lob", "Frage", "Klage"])
    said = names[np.where(generator.random((3, 90)) < 0.8, truth, generator.integers(3, size=90))]
    votes = {"ann_1": said[0], "ann_2": said[1], "claude, v2": np.where(truth, said[2], "?")}
    joined = [a if a == b else f"{a} oder {b}" for a, b in zip(said[0], said[1], strict=True)]
    for columns in (votes, {"Vorschlag": joined}):
        numbers = {f"f{k}": features[:, k] for k in range(3)}
        pl.DataFrame({**numbers, **columns}).write_csv(tmp_path / "rows.csv")
        labels = tmp_path / "labels.csv"
        command("resolve", tmp_path / "rows.csv", *QUICK, "-o", labels)
        done = command("fit", labels, "-o", tmp_path / "model", "-p", "encoder=kernel", "-q")
        assert load_model(tmp_path / "model").feature_names_in_.tolist() == ["f0", "f1", "f2"]
        left_out = " ".join(done.err.split()).split("which `resolve` wrote or read as votes")[0]
        assert all(f"{name!r}" in left_out for name in columns)


def test_a_second_resolve_learns_nothing_from_the_first_and_loses_no_column(
    command, votes_csv, tmp_path
):
    words = ("--annotators", "ann_*,Eve", *QUICK)
    columns = ["row_id", "f0", "f1", "f2", "ann_1", "ann_2", "Eve"]
    made = [votes_csv, *(tmp_path / f"{n}.csv" for n in range(3))]
    for given, kept in itertools.pairwise(made):
        said = " ".join(command("resolve", given, *words, "-o", kept).err.split())
        assert "took 3 numeric columns as features, 'f0' to 'f2'" in said
    read = []
    for path in made[1:]:
        with path.open() as stream:
            read.append(list(csv.DictReader(stream)))
    assert [len(rows[0]) for rows in read] == [len(columns) + 7 * n for n in (1, 2, 3)]
    for name in ("label", "probability", "look"):
        first = [row[name] for row in read[0]]
        assert first == [row[name] for row in read[1]]  # the same votes, the same answers
        assert first in ([row[old] for row in read[2]] for old in read[2][0] if name in old)


def test_words_about_the_votes_are_no_text_to_learn_from(command, tmp_path):
    texts = ["a red ripe apple", "a green sour pea", "one red cherry", "some green beans"] * 10
    kinds = ["fruit", "plant", "fruit", "plant"] * 10
    rows = [[text, kind, kind if n % 7 else "plant"] for n, (text, kind) in
            enumerate(zip(texts, kinds, strict=True))]  # fmt: skip
    votes = write_csv(tmp_path / "votes.csv", ["text", "ann_1", "ann_2"], rows)
    command("resolve", votes, *QUICK, "-o", tmp_path / "labels.csv")
    done = command(
        "fit", tmp_path / "labels.csv", "-o", tmp_path / "model", "-p", "encoder=kernel", "-q"
    )
    assert "words of column 'text' as features" in " ".join(done.err.split())
    names = load_model(tmp_path / "model").feature_names_in_.tolist()
    assert {name.split(": ")[0] for name in names} == {"text"}


def test_votes_that_nobody_resolved_are_refused_with_advice_that_can_be_followed(
    command, votes_csv, tmp_path
):
    for words in ([], ["--setting", "pll"]):
        said = command("fit", votes_csv, *words, "-o", tmp_path / "model", code=2).err
        assert f"`groupnoise resolve {votes_csv} -o labels.csv`" in " ".join(said.split())


def test_one_of_several_columns_of_votes_is_not_taken_for_candidates(command, tmp_path):
    said = ["offer", "bill", "spam"]
    rows = [
        [n % 7, n / 3, said[n % 3], said[n % 4 % 3], "offer|bill" if n % 5 else said[n % 3]]
        for n in range(60)
    ]
    path = write_csv(tmp_path / "rows.csv", ["x", "y", "Anna", "Ben", "gpt-4o"], rows)
    words = " ".join(command("fit", path, "-o", tmp_path / "model", code=2).err.split())
    assert f"`groupnoise resolve {path} --annotators 'Anna,Ben,gpt-4o' -o labels.csv`" in words
    command("resolve", path, "--annotators", "Anna,Ben,gpt-4o", "-o", tmp_path / "labels.csv", "-q")
    fit = ["fit", path, "--candidates", "gpt-4o", "-p", "encoder=kernel", "-q"]
    command(*fit, "-o", tmp_path / "model")


def test_columns_with_the_same_labels_under_other_names_are_pointed_out(command, tmp_path):
    rows = [[f"t{n}", "ab"[n % 2], "ab"[n % 3 % 2], "ab"[n % 2], "ab"[n % 2]] for n in range(12)]
    path = write_csv(tmp_path / "rows.csv", ["name", "ann_1", "ann_2", "gpt", "sure"], rows)
    said = command("resolve", path, "--truth", "sure", "-o", tmp_path / "labels.csv").err
    assert "say --annotators 'ann_1,ann_2,gpt'" in " ".join(said.split())


def test_answers_of_a_desk_teach_also_where_nobody_had_named_them(command, tmp_path):
    generator = np.random.default_rng(0)
    truth = np.arange(60) % 3
    features = 2 * np.eye(3)[truth] + 0.4 * generator.normal(size=(60, 3))
    names = np.array(["cat", "dog", "emu"])
    table = pl.DataFrame({f"f{k}": features[:, k] for k in range(3)}).with_columns(
        candidates=pl.Series([f"{names[y]}|{names[(y + 1) % 3]}" for y in truth]),
        note=pl.Series(["own"] * 60),
    )
    found = resolve(table, candidates="candidates", n_rounds=1, n_folds=2)
    outside = names[(truth[7] + 2) % 3]
    answers = {
        7: {"label": outside, "who": "ann", "note": "look"},
        8: {"label": names[truth[8]], "who": "ann", "note": ""},
    }
    exported = RowQuestions(found).export(answers)
    assert exported["input_note"] == ["own"] * 60  # beside the notes of people
    write_columns(tmp_path / "labels.csv", exported)
    words = ("--learn-truth", "answer", "-p", "encoder=kernel", "-q")
    said = command("fit", tmp_path / "labels.csv", "-o", tmp_path / "model", *words).err
    assert "made 1 answers of people, which nobody had named, candidates" in " ".join(said.split())
    assert "learning from 2 right labels" in said
    assert "covering rate" in command("evaluate", tmp_path / "model", tmp_path / "labels.csv").out


def test_objects_of_weights_are_found_kept_and_no_features(command, tmp_path):
    rows = [
        {"id": f"r{n}", "message": f"{word} again and {word} today", "said": said}
        for n in range(30)
        for word, said in [
            (("refund", {"billing": 0.9, "login": 0.1}), ("password", {"login": 0.8}))[n % 2]
        ]
    ]
    rows[4]["said"] = {}
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for suffix in (".jsonl", ".csv"):
        labels = tmp_path / f"labels{suffix}"
        done = command("resolve", tmp_path / "said.jsonl", *QUICK, "-o", labels)
        assert "took 'said' as the candidate labels" in " ".join(done.err.split())
        described = command("data", "describe", labels)
        assert "words of column 'message' as features" in " ".join(
            (described.out + described.err).split()
        )
    kept = [
        json.loads(line)["said"] for line in (tmp_path / "labels.jsonl").read_text().splitlines()
    ]
    assert kept == [row["said"] for row in rows]
    refused = command("data", "describe", labels, "--candidates", "said", code=2)
    assert "line 6: no candidate label there" in " ".join(refused.err.split())
