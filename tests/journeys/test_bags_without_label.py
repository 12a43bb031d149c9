"""Bags that have none of the labels mean the same to every command, in every kind of file."""

import csv
import json

import numpy as np
import polars as pl
import pytest

NAMES = np.array(["Riss", "Delle", "Rost"])
CENTRES = np.array([[3.0, 0.0], [-3.0, 1.5], [0.0, -3.0], [0.0, 0.0]])
N_BAGS, SIZE = 45, 4
QUICK = ["-q", "--budget", "1s", "-p", "likelihood=noisy_or", "-p", "encoder=identity"]


def read_csv(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def several(empty, truth, *, seed=0):
    """A table of bags with up to two labels; every third has none, as `empty` says it."""
    generator = np.random.default_rng(seed)
    rows = []
    for bag in range(N_BAGS):
        own = np.sort(generator.choice(3, size=bag % 3, replace=False))
        kinds = generator.permutation([*own, *[3] * (SIZE - len(own))])
        points = CENTRES[kinds] + 0.5 * generator.normal(size=(SIZE, 2))
        cell = ";".join(NAMES[own]) or empty
        for kind, (x, y) in zip(kinds, points, strict=True):
            rows.append((f"Blech {bag}", cell, x, y, NAMES[kind] if kind < 3 else truth))
    columns = ["Blech", "Schaeden", "Hoehe", "Breite", "Wahrheit"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def write(frame, path):
    (frame.write_parquet if path.suffix == ".parquet" else frame.write_csv)(path)


ROLES = ["--group", "Blech", "--label", "Schaeden", "--truth", "Wahrheit"]
WITHOUT = "15 of 45 bags have no label: all of their instances are background"


@pytest.mark.parametrize(
    ("name", "empty", "truth"),
    [("teile.csv", None, None), ("teile.parquet", "none", "background")],
)
def test_every_command_knows_bags_without_a_label(command, tmp_path, name, empty, truth):
    write(several(empty, truth), tmp_path / name)
    described = json.loads(command("data", "describe", name, *ROLES, "--json").out)
    assert described["facts"]["bags without a label"] == 15
    said = command("fit", name, *ROLES, "-o", "model", "--validation", "0", *QUICK)
    assert WITHOUT in said.err
    assert "like any other" not in said.err
    assert ("took 'none' in column 'Schaeden' as no label" in said.err) == (empty == "none")
    # Another file may say it by another word, and need not show a bag of two labels.
    new = several("none" if empty is None else None, "background", seed=1)
    write(new.filter(~new["Schaeden"].str.contains(";").fill_null(False)), tmp_path / "neu.csv")
    judged = json.loads(command("evaluate", "model", "neu.csv", "--json").out)
    assert judged["bags without a label"] == 15
    assert judged["bag exact match"] > 0.85
    assert judged["instance accuracy with background"] > 0.9
    assert judged["per_class"]["(no label)"]["bag recall"] > 0.8
    assert "15 of 30 bags have no label" in " ".join(judged["notes"])
    assert "105 of 120 instances are background" in " ".join(judged["notes"])
    said = command("predict", "model", "neu.csv", "--bags", "-o", "bags.csv")
    found = {row["bag"]: row["labels"] for row in read_csv(tmp_path / "bags.csv")}
    n_without = list(found.values()).count("")
    assert abs(n_without - 15) < 3
    assert f"; {n_without} without a label (empty cell)" in said.out
    command("predict", "model", "neu.csv", "-o", "objects.csv")
    assert {row["label"] for row in read_csv(tmp_path / "objects.csv")} == {*NAMES, "background"}
    said = command("select", "model", name, "-o", "carriers.csv")
    assert "; 15 bags of no label that an object carries" in said.out
    carriers = read_csv(tmp_path / "carriers.csv")
    assert sum(row["label"] == "" and row["row"] == "" for row in carriers) == 15
    assert len(carriers) == 15 + 15 + 2 * 15
    command("heatmap", "model", name, "-o", "page.html")
    assert 'data-given="no label"' in (tmp_path / "page.html").read_text()
    audited = ["--folds", "2", "-o", "audit", "--clean", "clean.csv", "-q"]
    audited += ["-p", "background=true", "-p", "max_epochs=15"]
    command("audit", name, *ROLES, *audited)
    cleaned = pl.read_csv(tmp_path / "clean.csv")
    kept = cleaned.filter(pl.col("Schaeden").is_null() | (pl.col("Schaeden") == "none"))
    assert kept["Blech"].n_unique() == 15  # what had no label is no fault of any


def test_methods_are_compared_on_bags_without_a_label(command, tmp_path):
    write(several(None, None), tmp_path / "teile.csv")
    roles = ["--methods", "max-matching,mi-net", "--splits", "1", "--budget", "10m", "--json"]
    compared = json.loads(command("compare", "teile.csv", *ROLES, *roles).out)
    assert all(each.get("failed") is None for each in compared["methods"])


def test_an_empty_cell_among_single_labels_is_refused_by_its_line(command, tmp_path):
    frame = several("Lack", None).with_columns(pl.col("Schaeden").str.split(";").list.first())
    gap = pl.when(pl.col("Blech") == "Blech 2").then(None).otherwise(pl.col("Schaeden"))
    write(frame.with_columns(gap.alias("Schaeden")), tmp_path / "teile.csv")
    refused = command("fit", "teile.csv", *ROLES, "-o", "model", *QUICK, code=2).err
    assert "teile.csv, line 10: column 'Schaeden' is empty there and in 3 other rows" in refused
    assert "--label-separator ';'" in refused
    said = command("data", "describe", "teile.csv", *ROLES, "--label-separator", ";", "--json")
    assert json.loads(said.out)["facts"]["bags without a label"] == 1


@pytest.mark.parametrize("truth", ["background", "negative", None])
def test_the_truth_of_negative_instances_may_have_any_word(command, tmp_path, truth):
    keep = pl.col("Schaeden").is_in(["none", "Riss"])
    frame = pl.concat([several("none", truth, seed=seed).filter(keep).with_columns(
        pl.col("Blech") + f" {seed}") for seed in range(4)])  # fmt: skip
    write(frame, tmp_path / "teile.csv")
    said = command("fit", "teile.csv", *ROLES, "-o", "model", "--validation", "0", *QUICK).err
    assert "like any other" not in said
    # Bags of the negative label are not needed to know it.
    write(frame.filter(pl.col("Schaeden") == "Riss"), tmp_path / "neu.csv")
    for name, n_objects in (("teile.csv", len(frame)), ("neu.csv", None)):
        said = command("evaluate", "model", name, "--on", "all", "--json")
        judged = json.loads(said.out)
        n_objects = n_objects or judged["instances"]
        assert judged["instances with known truth"] == n_objects
        assert judged["instance accuracy"] > 0.9
        assert ("empty cells of column 'Wahrheit' are read as 'none'" in said.err) == (
            truth is None
        )
    said = command("select", "model", "teile.csv", "-o", "carriers.csv").out
    assert "; 60 bags of no label that an object carries" in said
    for row in read_csv(tmp_path / "carriers.csv"):
        assert (row["row"] == "") == (row["label"] == "none")


@pytest.mark.parametrize(
    ("name", "cells", "refused"),
    [
        ("bags.csv", ["yes"] * 4, "column 'label' holds only one label ('yes')"),
        ("bags.csv", ["yes", None] * 2, "line 3: column 'label' is empty there and in 1 other row"),
        ("rows.csv", ["cat"] * 4, "column 'candidates' holds only one label ('cat')"),
    ],
)
def test_a_single_label_is_refused_by_the_name_of_its_column(
    command, tmp_path, name, cells, refused
):
    columns = {"bag": [0, 1, 2, 3], "label": cells} if name == "bags.csv" else {"candidates": cells}
    write(pl.DataFrame({**columns, "f": [0.1, 0.2, 0.4, 0.8]}), tmp_path / name)
    said = command("fit", name, "-o", "model", "-q", "--features", "f", code=2).err
    assert refused in said
    assert " y " not in said
