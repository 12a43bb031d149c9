"""The page of the paper's settings says of every parameter what `.paper()` gives."""

import ast
import re
from pathlib import Path

import pytest

from groupnoise import (
    Groups,
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)
from groupnoise.clicks import cut_windows

PAGE = (Path(__file__).parents[2] / "docs" / "paper_settings.md").read_text(encoding="utf-8")
MAKES_NO_FIGURE = set(re.findall(r"`(\w+)`", PAGE.rpartition("left out of the tables:")[2]))
CLASSES = (
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)


def table_of(name):
    """Parameter to value, of the section of a class."""
    section = PAGE.partition(f"`{name}.paper()`\n\n")[2].partition("\n## ")[0]
    table = section.partition("|---|---|---|\n")[2]
    rows = re.findall(r"^\| (\w+) \| `(.+?)` \| (.+) \|$", table, re.MULTILINE)
    return {parameter: (ast.literal_eval(value), words) for parameter, value, words in rows}


@pytest.mark.parametrize("estimator_class", CLASSES, ids=lambda each: each.__name__)
def test_every_parameter_stands_on_the_page_with_its_value(estimator_class):
    given = estimator_class.paper().get_params()
    shown = {name: value for name, (value, _) in table_of(estimator_class.__name__).items()}
    assert shown == {name: v for name, v in given.items() if name not in MAKES_NO_FIGURE}


def test_what_the_page_calls_exact_differs_in_nothing_and_can_be_fitted():
    call = re.search(r"^model = MaxMatchingRecommender\.paper\((.+)\)", PAGE, re.MULTILINE).group(1)
    keywords = ast.parse(f"f({call})").body[0].value.keywords
    overrides = {each.arg: ast.literal_eval(each.value) for each in keywords}
    rows = table_of("MaxMatchingRecommender")
    differs = {name for name, (_, words) in rows.items() if "Differs" in words}
    # Without a sample there is no number of negatives.
    assert differs - {"n_negatives"} == set(overrides)
    histories = [[item % 7, 1, 2, 3, 4, 5, (item + 1) % 7, 2] for item in range(20)]
    segments = cut_windows(Groups.from_lists(histories), "chunks", size=5).groups
    model = MaxMatchingRecommender.paper(**{**overrides, "max_epochs": 2}, dim=4, random_state=0)
    model.fit(segments)
    assert [len(segment) for segment in segments][:2] == [5, 1]
    assert len(model.history_) == 2
    assert not model.decisions_.trials
