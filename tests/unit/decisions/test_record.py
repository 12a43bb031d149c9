"""Decisions: read back as written, told in sentences, repeated by their snippet."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from groupnoise.decisions import Decisions
from groupnoise.decisions.halving import successive_halving
from groupnoise.decisions.portfolio import Option
from groupnoise.decisions.record import Trial, render_decisions
from groupnoise.exceptions import ModelFileError

OPTIONS = (
    Option("linear", {"encoder": "linear", "temperature": (1.0, 0.3)}, "few rows", 1.0),
    Option("mlp", {"encoder": "mlp", "hidden": (300,), "patience": None}),
    Option("huge", {"encoder": "mlp", "hidden": (9000,)}),
    Option("last", {}),
)
TRIALS = (
    Trial("linear", 0, 0.5, -0.9, 0.1, 1.0),
    Trial("mlp", 0, 0.5, -0.8, 0.1, 2.0),
    Trial("huge", 0, 0.5, None, None, 0.1, "out of memory"),
    Trial("mlp", 1, 1.0, -0.7, 0.05, 4.0),
)
DECISIONS = Decisions(
    facts={"rows": 1500, "density": 0.031415, "kind": "sparse"},
    options=OPTIONS,
    trials=TRIALS,
    taken=(("linear", 0.25), ("mlp", 0.75)),
    criterion="log likelihood of held-out candidates",
    reasons=("An average of two was better than the best alone.",),
    warnings=("look at the labels.",),
    baselines={"majority": -2.0},
    seconds=7.1,
    budget=60.0,
)


def test_json_gives_back_what_was_written():
    assert Decisions.from_json(DECISIONS.to_json()) == DECISIONS


def test_trials_of_a_real_search_are_written_and_read():
    search = successive_halving(OPTIONS, lambda option, _: [0.1, 0.2, 0.3], rungs=(1, 2))
    decisions = Decisions({}, OPTIONS, tuple(search.trials), ((search.ranking[0].name, 1.0),))
    assert Decisions.from_json(decisions.to_json()) == decisions


def test_numbers_json_lacks_become_none():
    decisions = Decisions({"spread": float("nan")}, OPTIONS, (), (("mlp", 1.0),))
    assert Decisions.from_json(decisions.to_json()).facts == {"spread": None}


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"options": 3}'])
def test_a_damaged_record_is_refused_in_one_sentence(text):
    with pytest.raises(ModelFileError, match="record of decisions"):
        Decisions.from_json(text)


def test_a_record_may_not_take_what_it_does_not_list():
    text = DECISIONS.to_json().replace('"linear",\n      0.25', '"other",\n      0.25')
    with pytest.raises(ModelFileError, match="not listed"):
        Decisions.from_json(text)


def test_the_table_shows_what_was_taken_first_then_by_score():
    rows = DECISIONS.table()
    assert [row["option"] for row in rows] == ["mlp", "linear", "huge", "last"]
    assert rows[0]["score"] == -0.7  # of the last rung
    assert rows[0]["seconds"] == 6.0  # of all rungs
    assert [row["note"] for row in rows] == ["", "", "out of memory", "not tried"]


def test_a_setting_that_did_not_go_on_is_said_to_have_been_compared_on_less():
    alone = replace(DECISIONS, taken=(("mlp", 1.0),))
    assert {row["option"]: row["note"] for row in alone.table()} == {
        "mlp": "",
        "linear": "first round only",
        "huge": "out of memory",
        "last": "not tried",
    }
    assert "Held-out score of this setting: -0.700;" in alone.summary()
    assert "Held-out score of their average: -0.600;" in replace(DECISIONS, held_out=-0.6).summary()


def test_the_summary_says_what_was_taken_why_and_what_to_look_at():
    summary = DECISIONS.summary()
    for part in (
        "Data: 1,500 rows, 0.0314 density, kind: sparse.",
        "Tried 3 of 4 settings in 7.1 s, scored by log likelihood of held-out candidates.",
        "Chosen: mlp (75%); linear (25%).",
        "An average of two was better than the best alone.",
        "Held-out score of the best of them: -0.700; baseline: majority -2.000.",
        "Warning: look at the labels.",
    ):
        assert part in summary


def test_a_score_of_another_kind_is_named_and_never_the_best():
    whole = Option("whole", {}, measure="labels of bags alone")
    decisions = replace(
        DECISIONS,
        options=(*OPTIONS, whole),
        trials=(*TRIALS, Trial("whole", 0, 0.5, -0.1, 0.1, 1.0)),
        taken=(("linear", 0.5), ("mlp", 0.3), ("whole", 0.2)),
    )
    notes = {row["option"]: row["note"] for row in decisions.table()}
    assert notes["whole"] == "scored by labels of bags alone"
    # The heaviest is not the best, and what is of another kind cannot be.
    assert "score of the best of them: -0.700;" in decisions.summary()
    assert "held-out score: -0.700" in decisions.headline()
    assert decisions.headline().endswith("log likelihood of held-out candidates")
    assert Decisions.from_json(decisions.to_json()) == decisions


class Recorder:
    """Stands in for an estimator: keeps what a snippet gives it."""

    def __init__(self, **parameters):
        self.parameters = parameters


def run(snippet):
    names = {"Recorder": Recorder}
    code = snippet.replace("from groupnoise import Recorder", "")
    exec(code, names)
    return names["model"].parameters


def test_the_snippet_of_one_option_is_the_estimator_with_its_parameters():
    decisions = Decisions({}, OPTIONS, (), (("mlp", 1.0),))
    expected = {"encoder": "mlp", "hidden": (300,), "patience": None, "random_state": 0}
    assert run(decisions.snippet("Recorder", random_state=0)) == expected


def test_the_snippet_of_several_names_weights_and_parameters():
    given = run(DECISIONS.snippet("Recorder", random_state=0))
    assert given == {"ensemble": DECISIONS.members, "random_state": 0}
    assert [weight for weight, _ in DECISIONS.members] == [0.75, 0.25]


def test_the_terminal_shows_the_sentences_and_the_settings():
    stream = io.StringIO()
    Console(file=stream, width=120).print(render_decisions(DECISIONS, max_rows=3))
    text = stream.getvalue()
    for part in (
        "Chosen: mlp (75%)",
        "out of memory",
        "-0.7000 ± 0.0500",
        "not shown: 1 not tried",
    ):
        assert part in text


def test_members_of_next_to_no_weight_are_counted_not_listed():
    names = [f"setting {number}" for number in range(30)]
    weights = np.array([50.0, 30.0, 19.0] + [1 / 27] * 27) / 100
    decisions = Decisions(
        {},
        tuple(Option(name, {}) for name in names),
        tuple(Trial(name, 0, 1, -1.0, 0.1, 0.1) for name in names),
        tuple(zip(names, weights.tolist(), strict=True)),
    )
    stream = io.StringIO()
    Console(file=stream, width=120).print(render_decisions(decisions))
    text = stream.getvalue()
    assert "setting 2 (19%); and 27 others (1%)." in text
    assert "not shown: 26 chosen" in text
    assert "< 1%" in text
    assert "setting 9" not in text


def test_settings_shown_and_counted_add_up_to_those_there_are():
    names = [f"setting {number}" for number in range(46)]
    weights = np.array([10.0] * 9 + [9.2, 0.8]) / 100
    decisions = Decisions(
        {},
        tuple(Option(name, {}) for name in names),
        tuple(Trial(name, 0, 1, -1.0, 0.1, 0.1) for name in names[:40]),
        tuple(zip(names, weights.tolist(), strict=False)),
    )
    stream = io.StringIO()
    Console(file=stream, width=400).print(render_decisions(decisions))
    text = stream.getvalue()
    assert "Tried 40 of 46 settings" in text
    assert "setting 4 (10%); and 6 others (50%)." in text
    counted = "not shown: 3 chosen, 29 tried and not chosen, 6 not tried"  # 8 are shown
    assert counted in " ".join(text.split())
