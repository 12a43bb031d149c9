"""Rows go to one person at a time, and answers are on the disk before they count."""

import json

import numpy as np
import pandas as pd
import pytest

from groupnoise.exceptions import DataError, OutputError
from groupnoise.review import Desk
from groupnoise.review.desk import LOCK_SECONDS, TakenError, expected_errors
from groupnoise.review.questions import RowQuestions
from groupnoise.votes import resolve

ROWS = pd.DataFrame(
    {
        "text": ["one", "two", "three", "four"],
        "ann_1": ["x", "x", "y", "y"],
        "ann_2": ["x", "y", "y", "x"],
    }
)


def learned(known):
    return resolve(ROWS, known=known)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def found():
    return resolve(ROWS)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def desk(found, tmp_path, clock):
    opened = Desk(found, tmp_path / "answers.jsonl", clock=clock)
    yield opened
    opened.close()  # also where a test has closed it


def test_doubtful_rows_come_first_with_the_labels_that_were_named(desk):
    shown = desk.next_row("ann")
    assert shown["row"] in (1, 3)
    assert shown["cells"]["text"] in ("two", "four")
    assert [each["named"] for each in shown["labels"]] == [True, True]


def test_the_truth_is_not_shown_to_who_answers():
    rows = ROWS.assign(Truth=["x", "x", "y", "y"], checked=["x", None, None, None])
    found = resolve(rows, truth="checked")
    questions = RowQuestions(found, truth="checked")
    assert questions.hidden == ["Truth", "checked"]
    assert list(questions.describe(1)["cells"]) == ["text", "ann_1", "ann_2"]
    assert questions.export({})["Truth"] == ["x", "x", "y", "y"]


def test_two_people_never_see_one_row(desk, clock):
    first, second = desk.next_row("ann"), desk.next_row("bob")
    assert first["row"] != second["row"]
    assert desk.next_row("ann")["row"] == first["row"]
    with pytest.raises(TakenError):
        desk.answer(first["row"], "bob", "x")
    clock.now += LOCK_SECONDS + 1
    desk.answer(first["row"], "bob", "x")


def test_answers_survive_and_undo_gives_the_row_back(found, desk, tmp_path):
    first = desk.next_row("ann")["row"]
    desk.answer(first, "ann", "y", "sure")
    desk.answer(first, "ann", "y", "sure")  # sent again after a lost connection
    second = desk.next_row("ann")["row"]
    desk.answer(second, "ann", "x")
    assert desk.undo("ann") == second
    assert desk.undo("bob") is None
    desk.close()
    again = Desk(found, tmp_path / "answers.jsonl")
    assert again.progress()["answered"] == 1
    columns = again.export()
    assert (columns["label"][first], columns["answered_by"][first]) == ("y", "ann")
    assert [answer for answer in columns["answer"] if answer is not None] == ["y"]
    assert (columns["note"][first], columns["probability"][first]) == ("sure", 1.0)
    assert again.undo("ann") == first
    again.close()


def test_a_note_comes_back_with_its_row_after_an_undo_and_a_skip(found, desk, tmp_path):
    first = desk.next_row("ann")
    assert first["note"] == ""
    desk.answer(first["row"], "ann", "y", "blurred")
    assert desk.show(desk.undo("ann"))["note"] == "blurred"
    desk.answer(first["row"], "ann", None, "ask Ben")
    desk.close()
    again = Desk(found, tmp_path / "answers.jsonl")
    while (shown := again.next_row("ben"))["row"] != first["row"]:
        again.answer(shown["row"], "ben", shown["labels"][0]["label"])
    assert shown["note"] == "ask Ben"
    again.close()


def test_the_export_of_an_answered_row_follows_the_answer(desk):
    before = desk.export()
    assert desk.export()["look"] == before["look"]
    row = before["look"].index(1)
    other = before["second"][row]
    desk.answer(row, "ann", other)
    desk.answer(0, "ann", None, "ask the author")
    after = desk.export()
    columns = ("label", "probability", "second", "margin", "agreement", "look", "answered_by")
    told = [after[name][row] for name in columns]
    assert told == [other, 1.0, before["label"][row], 1.0, 0.5, 4, "ann"]
    assert sorted(after["look"]) == [1, 2, 3, 4]
    assert (after["note"][0], after["answered_by"][0]) == ("ask the author", None)
    assert after["label"][0] == before["label"][0]
    assert desk._questions.found.columns["label"] == before["label"]  # what was resolved stays


def test_mistakes_among_sure_proposals_make_the_rest_doubtful():
    left = np.full(100, 1e-6)
    nobody = expected_errors(left, np.array([]), np.array([], dtype=bool))
    assert nobody == pytest.approx(1e-4)
    judged = np.full(5, 1e-6)
    doubts = [expected_errors(left, judged, np.arange(5) < wrong) for wrong in (0, 1, 3)]
    assert doubts[0] < 0.1
    assert 1 < doubts[1] < doubts[2] < 50
    # As many mistakes as foretold change little, and none where many were foretold calm.
    even = np.full(100, 0.3)
    assert expected_errors(even, np.full(10, 0.3), np.arange(10) < 3) == pytest.approx(30, abs=3)
    assert expected_errors(even, np.full(10, 0.3), np.zeros(10, dtype=bool)) < 20


def test_the_estimate_holds_answers_against_what_stood_there_then(found, tmp_path):
    desk = Desk(found, tmp_path / "e.jsonl", relearn=learned)
    assert desk.progress()["found_wrong"] == 0
    desk.answer(0, "ann", "y")
    assert desk.progress()["found_wrong"] == 1
    assert desk.learn()
    desk._learning.join()
    assert desk.progress()["found_wrong"] == 1
    desk.close()
    again = Desk(found, tmp_path / "e.jsonl")
    assert again.progress()["found_wrong"] == 1
    again.close()


def test_an_answered_row_keeps_its_second_choice_when_the_desk_has_learned(tmp_path):
    rows = ROWS.assign(ann_z=["y", "y", "z", "z"], ann_w=["z", "z", "z", "x"])
    desk = Desk(
        resolve(rows), tmp_path / "s.jsonl", relearn=lambda known: resolve(rows, known=known)
    )
    desk.answer(2, "ann", "z")
    before = desk.export()["second"][2]
    assert desk.learn()
    desk._learning.join()
    assert desk.export()["second"][2] == before == "y"
    desk.close()


def test_a_skipped_row_comes_last(desk):
    skipped = desk.next_row("ann")["row"]
    desk.answer(skipped, "ann", None)
    order = []
    for _ in range(4):
        order.append(desk.next_row("ann")["row"])
        desk.answer(order[-1], "ann", "x")
    assert order[-1] == skipped
    assert desk.next_row("ann") is None


def test_a_line_that_was_cut_off_is_dropped(found, tmp_path):
    path = tmp_path / "a.jsonl"
    desk = Desk(found, path)
    desk.answer(0, "ann", "x")
    desk.close()
    with path.open("a") as stream:
        stream.write('{"row": 1, "who": "ann", "lab')
    again = Desk(found, path)
    assert again.progress()["answered"] == 1
    again.answer(1, "ann", "y")
    again.close()
    assert [json.loads(line) for line in path.read_text().splitlines()][-1]["label"] == "y"


def test_answers_about_other_rows_and_a_second_server_are_refused(found, tmp_path):
    path = tmp_path / "a.jsonl"
    desk = Desk(found, path)
    with pytest.raises(OutputError, match="another review"):
        Desk(found, path)
    desk.close()
    with pytest.raises(DataError, match="answers about other rows"):
        Desk(resolve(ROWS.assign(text="other")), path)
    with pytest.raises(OutputError, match="cannot be written"):
        Desk(found, tmp_path / "missing" / "a.jsonl")


def test_a_label_or_a_row_that_does_not_exist_is_refused(desk):
    with pytest.raises(DataError, match="'z' is none of the answers to row 0"):
        desk.answer(0, "ann", "z")
    with pytest.raises(DataError, match="there is no row 9"):
        desk.answer(9, "ann", "x")


def test_what_is_left_is_put_in_order_by_the_answers(found, tmp_path):
    desk = Desk(found, tmp_path / "l.jsonl", relearn=learned)
    assert not desk.learn()
    desk.answer(1, "ann", "y")
    desk.answer(3, "ann", "x")
    before = desk.show(0)["labels"]
    assert desk.learn()
    desk._learning.join()
    assert desk.progress()["learned"] == 2
    assert desk.show(0)["labels"] != before
    desk.close()


def test_a_desk_that_cannot_learn_says_so_and_stays_open(found, tmp_path):
    def fails(known):
        raise DataError("no memory left")

    desk = Desk(found, tmp_path / "f.jsonl", relearn=fails)
    desk.answer(1, "ann", "y")
    assert desk.learn()
    desk._learning.join()
    assert desk.progress()["failure"] == "could not learn from the answers: no memory left"
    assert desk.next_row("ann") is not None
    desk.close()


def test_what_is_proposed_is_a_button_though_nobody_named_it(tmp_path):
    rows = pd.DataFrame({"text": list("abc"), "ann_1": ["x", "x", "y"], "ann_2": ["x", "x", "y"]})
    opened = Desk(resolve(rows, known={0: "y"}), tmp_path / "answers.jsonl")
    assert {each["label"]: each["named"] for each in opened.show(0)["labels"]}["y"]
    assert {each["label"]: each["named"] for each in opened.show(2)["labels"]}["y"]
    opened.close()


def test_a_desk_that_is_opened_again_learns_from_the_answers_it_has(found, tmp_path):
    first = Desk(found, tmp_path / "l.jsonl", relearn=learned)
    assert not first.progress()["learning"]  # there is nothing to learn from
    first.answer(0, "ann", "y")
    first.close()
    again = Desk(found, tmp_path / "l.jsonl", relearn=learned)
    again._learning.join()
    assert again.progress()["learned"] == 1
    again.close()


def test_data_that_changed_under_the_desk_teach_nothing(found, tmp_path):
    desk = Desk(found, tmp_path / "c.jsonl", relearn=lambda known: resolve(ROWS[::-1], known=known))
    desk.answer(0, "ann", "y")
    assert desk.learn()
    desk._learning.join()
    assert "the data have changed" in desk.progress()["failure"]
    assert desk.show(0)["cells"]["text"] == "one"
    desk.close()


def test_an_export_that_is_resolved_again_keeps_what_people_answered(found, desk):
    desk.answer(0, "ann", "y")
    notes = []
    again = resolve(pd.DataFrame(desk.export()), report=notes.append)
    assert again.columns["label"][0] == "y"
    assert again.columns["probability"][0] == 1.0
    assert any("what people answered at the desk, 1 label of column" in note for note in notes)


def test_a_row_goes_with_the_name_of_its_person(desk):
    first = desk.next_row("person")["row"]
    assert desk.next_row("Eve")["row"] != first
    assert desk.next_row("Ann", "person")["row"] == first
    assert desk.next_row("person")["row"] != first
