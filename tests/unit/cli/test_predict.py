"""Answers as rows of a table: candidates are matched by name."""

import numpy as np

from groupnoise.cli._predict import among_candidates
from groupnoise.datasets import PartialLabelDataset

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
