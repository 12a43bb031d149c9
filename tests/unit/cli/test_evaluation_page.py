"""The page of an evaluation: what a reader of its figures must see."""

from dataclasses import replace

from groupnoise.cli.evaluate import _small_sample_notes
from groupnoise.io.setting import Evaluation
from groupnoise.pages import evaluation_page, with_code


def test_intervals_notes_and_a_risk_of_nothing_are_shown():
    evaluation = Evaluation(
        {"HIT@10": 0.5, "Gini@10": 0.25},
        {"groups": 4},
        notes=("of 4 rows: says little; `fit --validation 0.3` <holds> more",),
        intervals={"HIT@10": (0.125, 0.875)},
        curves={"rows": {"coverage": [0.5, 1.0], "risk": [0.0, 0.0]}},
    )
    page = evaluation_page(evaluation, title="one", about="on few")
    assert "95 % interval" in page
    assert "0.1250 to 0.8750" in page
    assert "<code>fit --validation 0.3</code> &lt;holds&gt; more" in page
    assert page.count(">0.00<") == 1
    assert ">0.10<" in page


def test_a_backtick_that_nothing_closes_stays_one():
    assert with_code("a ` <b>") == "a ` &lt;b&gt;"


def test_classes_of_few_groups_are_named():
    judged = Evaluation(
        {"bag accuracy": 1.0},
        {"groups": 42},
        per_class={"NOK": {"bags": 2}, "OK": {"bags": 40}, "(no label)": {}},
    )
    (sentence,) = _small_sample_notes(judged, "bags", "held-out")
    assert sentence.startswith("few bags have NOK (2): ")
    assert (
        _small_sample_notes(replace(judged, per_class={"OK": {"bags": 42}}), "bags", "held-out")
        == ()
    )
