"""Answers as rows of a table: candidates are matched by name, rows come as in the file."""

from dataclasses import replace

import numpy as np

from groupnoise import Groups
from groupnoise.bags.setting import instance_sources
from groupnoise.candidates.setting import among_candidates
from groupnoise.io import BagDataset, PartialLabelDataset
from groupnoise.io.columns.features import find_name_column
from groupnoise.io.labels.spellings import match_model_labels
from groupnoise.io.tables.table import read_table

PROBABILITIES = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])


def candidates_of(class_names, rows):
    return PartialLabelDataset("rows", np.zeros((2, 1)), np.array(rows, dtype=bool), class_names)


def test_candidates_are_matched_by_name_not_by_place():
    data = candidates_of(["2", "9", "10"], [[1, 0, 1], [0, 1, 0]])
    inside = among_candidates(data, np.array(["10", "2", "9"]), PROBABILITIES)
    assert inside.tolist() == [[0.5, 0.3, -1], [-1, -1, 0.3]]


def test_candidates_unknown_to_the_model_are_left_aside():
    data = candidates_of(["b", "z"], [[1, 1], [0, 1]])
    inside = among_candidates(data, np.array(["a", "b", "c"]), PROBABILITIES)
    assert inside.tolist() == [[-1, 0.3, -1], [-1, -1, -1]]


def test_classes_that_are_only_numbered_are_matched_in_order():
    data = candidates_of(["a", "b", "c"], [[1, 0, 0], [0, 0, 1]])
    inside = among_candidates(data, np.arange(3), PROBABILITIES)
    assert inside.tolist() == [[0.5, -1, -1], [-1, -1, 0.3]]


def test_instances_are_named_by_row_and_bag_of_their_file():
    bags = BagDataset(
        "bags", Groups(np.zeros((3, 1)), [0, 2, 3]), np.ones((2, 1), dtype=bool), ["a"]
    )
    rows, ids = instance_sources(bags)
    assert (rows.tolist(), ids.tolist()) == ([0, 1, 2], [0, 0, 1])
    named = replace(bags, bag_ids=np.array(["x", "y"]), source_rows=np.array([0, 2, 1]))
    rows, ids = instance_sources(named)
    assert (rows.tolist(), ids.tolist()) == ([0, 2, 1], ["x", "x", "y"])


def test_labels_are_spelt_as_a_model_spells_them_and_others_are_told():
    named = np.array([[True, False, False], [False, True, False], [False, False, True]])
    names, merged, truth, said = match_model_labels(
        ["OK", "ok ", "odd"], named, np.array([0, 1, -1, 2]), ["NOK", "OK"], "bags"
    )
    assert names == ["OK", "odd"]
    assert merged.tolist() == [[True, False], [True, False], [False, True]]
    assert truth.tolist() == [0, 0, -1, 1]
    assert said == [
        "labels are read as the model spells them: 'ok ' as 'OK'",
        "1 of 3 bags have labels that the model does not know ('odd'): no answer names these",
    ]
    assert match_model_labels(["NOK", "OK"], named[:, :2], None, ["NOK", "OK"], "bags")[3] == []


def test_numbers_with_decimal_commas_name_no_rows():
    cells = {"x": ["465,0", "3,25", "1.200,5"], "name": ["a1", "b2", "c3"]}
    assert find_name_column(read_table(cells)) == "name"
