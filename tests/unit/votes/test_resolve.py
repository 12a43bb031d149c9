"""One label per row from votes, candidates, text and exports."""

import csv
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from groupnoise.candidates import read_candidates
from groupnoise.core.label_sets import read_candidate_sets
from groupnoise.exceptions import DataError, MissingColumnError
from groupnoise.io.columns.setting_guess import guess_setting
from groupnoise.votes import Votes, krippendorff_alpha, read_votes, resolve
from groupnoise.votes.calibration import best_calibrated
from groupnoise.votes.cells import parse_vote
from groupnoise.votes.classifiers import default_fits

ANSWERS = ["label", "probability", "second", "margin", "agreement", "why", "look"]


def nearest_mean(rows, named, weights):
    """A classifier that is learned at once: the weighted mean of each class."""
    share = weights / weights.sum(axis=1, keepdims=True)
    means = (share.T @ rows) / np.maximum(share.sum(axis=0)[:, None], 1e-9)

    class Means:
        def predict_proba(self, held):
            distances = ((held[:, None, :] - means[None]) ** 2).sum(axis=2)
            likely = np.exp(-(distances - distances.min(axis=1, keepdims=True)))
            return likely / likely.sum(axis=1, keepdims=True)

    return Means()


def voted_frame(n_rows=240, skills=(0.9, 0.65, 0.6), seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n_rows)
    words = np.array(["cat", "dog", "eel"])
    frame = {"row_id": np.arange(n_rows) + 7000}
    centres = np.array([[3.0, 0], [0, 3.0], [-3.0, -3.0]])
    points = centres[truth] + generator.normal(size=(n_rows, 2))
    frame |= {"x": points[:, 0], "y": points[:, 1]}
    for who, skill in enumerate(skills):
        wrong = (truth + generator.integers(1, 3, size=n_rows)) % 3
        said = words[np.where(generator.random(n_rows) < skill, truth, wrong)].astype(object)
        said[generator.random(n_rows) < 0.3] = None
        frame[f"ann_{who}"] = said
    return pd.DataFrame(frame), words[truth]


def accuracy(resolution, truth):
    return np.mean(np.array(resolution.columns["label"]) == truth)


def test_votes_and_features_beat_the_majority_and_votes_alone():
    frame, truth = voted_frame()
    both = resolve(frame, annotators="ann_*", fit=nearest_mean)
    alone = resolve(frame.drop(columns=["x", "y"]), annotators="ann_*")
    majority = np.array(both.votes.class_names)[both.votes.totals().argmax(axis=1)]
    assert accuracy(both, truth) > max(accuracy(alone, truth), np.mean(majority == truth)) + 0.1
    assert accuracy(both, truth) > 0.93
    assert both.belief.predicted is not None
    assert alone.belief.predicted is None


def test_max_matching_is_the_classifier_of_its_own_accord():
    frame, truth = voted_frame(n_rows=90)
    found = resolve(frame, n_rounds=1, n_folds=2)
    assert "took the 3 columns ann_* as annotators" in found.notes
    assert accuracy(found, truth) > 0.85


def test_probabilities_are_about_as_often_right_as_they_say():
    frame, truth = voted_frame(n_rows=600)
    found = resolve(frame, fit=nearest_mean)
    assert np.mean(found.columns["probability"]) == pytest.approx(accuracy(found, truth), abs=0.04)


def test_the_first_to_look_at_are_wrong_more_often():
    frame, truth = voted_frame(n_rows=600, skills=(0.7, 0.6))
    found = resolve(frame, fit=nearest_mean)
    is_wrong = np.array(found.columns["label"]) != truth
    first = found.order[:60]
    assert is_wrong[first].mean() > 3 * is_wrong.mean()
    assert sorted(found.columns["look"]) == list(range(1, 601))


def test_what_was_found_is_shown_in_a_few_lines():
    frame = agreeing_votes()
    shown = repr(resolve(frame, annotators=["Anna", "Ben"], features=None)).splitlines()
    assert shown[0] == "60 rows resolved; to_frame(sort=True) has them"
    assert any(line.startswith("Anna: right in an estimated ") for line in shown)
    assert shown[-1].startswith("expected to be wrong: ")
    assert len(shown) == 6


def test_every_input_column_is_kept_and_called_names_are_renamed():
    frame, _ = voted_frame(n_rows=30)
    frame["label"] = "mine"
    columns = resolve(frame, annotators="ann_*", fit=nearest_mean).to_columns(sort=True)
    kept = ["row_id", "x", "y", "ann_0", "ann_1", "ann_2", "input_label"]
    assert list(columns) == [*kept, *ANSWERS]
    assert columns["look"] == list(range(1, 31))
    assert set(columns["input_label"]) == {"mine"}


def test_rows_without_votes_are_predicted_and_marked():
    frame, truth = voted_frame()
    frame.loc[:9, ["ann_0", "ann_1", "ann_2"]] = None
    found = resolve(frame, fit=nearest_mean)
    assert np.mean(np.array(found.columns["label"][:10]) == truth[:10]) > 0.7
    assert all(why.startswith("no vote; rows like it") for why in found.columns["why"][:10])
    assert found.columns["agreement"][:10] == [None] * 10
    assert any("rows have no vote, the first at row 0" in note for note in found.notes)


def test_a_row_about_which_nothing_is_known_has_no_label_and_comes_first():
    frame = pd.DataFrame({"ann_1": ["x", "y", None, "x"], "ann_2": ["x", "y", None, "y"]})
    found = resolve(frame)
    assert found.columns["label"][2] is None
    assert found.columns["look"][2] == 1
    assert "found no features and no text: labels come from the votes alone" in found.notes


def test_unanimous_rows_and_an_annotator_of_one_label_are_pointed_out():
    frame = pd.DataFrame({"ann_1": ["x"] * 12 + ["y"] * 3, "ann_2": ["x"] * 12 + ["y"] * 3})
    assert any("nothing to resolve" in note for note in resolve(frame).notes)
    frame["ann_2"] = "x"
    said = resolve(frame).notes
    assert any("annotator 'ann_2' said 'x' in all of 15 votes" in note for note in said)


def test_candidate_columns_become_one_label_each():
    frame, truth = voted_frame()
    generator = np.random.default_rng(1)
    others = generator.choice(["cat", "dog", "eel"], size=len(truth))
    frame = frame[["row_id", "x", "y"]].assign(
        candidates=[json.dumps(sorted({a, b})) for a, b in zip(truth, others, strict=True)]
    )
    found = resolve(frame, fit=nearest_mean)
    assert accuracy(found, truth) > 0.9
    named = found.votes.candidates()
    chosen = [found.votes.class_names.index(label) for label in found.columns["label"]]
    assert named[np.arange(len(named)), chosen].all()
    assert found.reliability is None


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("a", "a"),
        ('["a", "b"]', ["a", "b"]),
        ("{'a': 1, 'b': 3}", {"a": 1, "b": 3}),
        ("a and b", ["a", "b"]),
        ("[not closed", "[not closed"),
        ("  ", None),
        (None, None),
        (3.0, "3"),
    ],
)
def test_a_cell_holds_a_label_several_or_weights(cell, said):
    assert parse_vote(cell, " and ") == said


def crowd_lines(n_rows=20):
    """Three people who mostly agree, a line each."""
    return [
        (row, f"u{who}", "yn"[(row + (row % 7 == who)) % 2])
        for row in range(n_rows)
        for who in range(3)
    ]


@pytest.mark.parametrize("with_text", [False, True])
@pytest.mark.parametrize("named", [("ticket", "label"), ("ticket_id", "label"), ("case", "mood")])
def test_numbers_of_votes_are_no_rows_where_another_column_names_these(named, with_text):
    rows, people, labels = map(list, zip(*crowd_lines(), strict=True))
    lines = {"id": range(1, 61), named[0]: [f"t{row}" for row in rows], "annotator": people}
    frame = pd.DataFrame({**lines, named[1]: labels})
    if with_text:
        frame["message"] = [f"it is the message {row}" for row in rows]
    found = read_votes(frame)
    assert len(found.table) == 20
    assert found.votes.counts.tolist() == [3] * 20


def test_single_votes_are_said_where_rows_might_have_another_name():
    said = []
    lines = pd.DataFrame({"id": range(8), "annotator": list("abababab"), "label": list("xyxyyxyx")})
    assert len(read_votes(lines, report=said.append).table) == 8
    assert any("no row has two votes" in sentence for sentence in said)


def test_lines_of_toloka_are_read():
    rows, people, labels = zip(*crowd_lines(), strict=True)
    lines = pd.DataFrame({
        "INPUT:text": [f"text {row}" for row in rows],
        "OUTPUT:mood": labels,
        "ASSIGNMENT:assignment_id": [f"a{at}" for at in range(60)],
        "ASSIGNMENT:task_id": [f"t{row}" for row in rows],
        "ASSIGNMENT:worker_id": people,
        "ASSIGNMENT:status": "APPROVED",
    })  # fmt: skip
    assert read_votes(lines).votes.counts.tolist() == [3] * 20


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("AssignmentStatus", ("Approved", "Rejected")),
        ("ASSIGNMENT:status", ("APPROVED", "REJECTED")),
    ],
)
def test_votes_of_rejected_work_do_not_count(status, words):
    rows, people, labels = zip(*crowd_lines(), strict=True)
    lines = pd.DataFrame({"HITId": rows, "WorkerId": people, "Answer.label": labels})
    lines[status] = [words[person == people[0] and row == rows[0]] for row, person, _ in
                     crowd_lines()]  # fmt: skip
    found = read_votes(lines, report=(said := []).append)
    assert found.votes.counts.sum() == 59
    assert any(f"1 vote that column {status!r} calls rejected" in each for each in said)
    # A status of the row itself is none of the vote.
    lines[status] = "open"
    assert read_votes(lines).votes.counts.sum() == 60


def test_lines_of_prodigy_that_an_annotator_took_back_are_no_votes():
    said = []
    lines = pd.DataFrame({
        "_input_hash": [7, 7, 7, 8, 8],
        "accept": [["x"], ["y"], ["x"], ["y"], []],
        "answer": ["accept", "ignore", "accept", "accept", "reject"],
        "_annotator_id": ["ann", "bob", "eve", "ann", "bob"],
    })  # fmt: skip
    found = read_votes(lines, report=said.append)
    assert found.votes.counts.tolist() == [2, 1]
    assert any("2 votes that column 'answer' takes back" in sentence for sentence in said)
    lines = lines.drop(columns="accept").assign(label="SPAM")
    found = read_votes(lines, report=said.append)
    assert found.votes.class_names == ["SPAM", "not SPAM"]
    assert found.votes.candidates().tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("name", ["sure", "Conf", "probability"])
def test_how_sure_a_vote_is_is_known_by_other_names_too(name):
    lines = {"row": ["t1", "t1"], "who": ["ann", "bob"], "label": ["x", "y"], name: [0.9, 0.5]}
    np.testing.assert_allclose(read_votes(lines).votes.weights, [[0.95, 0.05], [0.25, 0.75]])
    lines["mark"] = lines.pop(name)
    said = []
    read_votes(lines, report=said.append)
    assert "if 'mark', between 0 and 1, says how sure a vote is: --confidence mark" in said


def test_one_vote_per_line_becomes_one_row_per_row():
    lines = pd.DataFrame(
        {
            "task_id": ["t1", "t1", "t2", "t2"],
            "annotator": ["ann", "bob", "ann", "bob"],
            "label": ["x", "x", "y", "x"],
            "confidence": [0.9, 1.0, 0.8, 0.5],
            "text": ["one", "one", "two", "two"],
            "seconds": [3, 4, 5, 6],
        }
    )
    said = []
    voted = read_votes(lines, report=said.append)
    assert voted.table.frame.columns == ["task_id", "text"]
    assert voted.votes.annotator_names == ["ann", "bob"]
    np.testing.assert_allclose(voted.votes.weights[0], [0.95, 0.05])
    assert voted.votes.candidates().tolist() == [[True, False], [True, True]]
    assert "took column 'annotator' as the annotator of a vote" in said
    assert "left out 'seconds', where votes on one row differ" in said
    assert not any("--confidence" in sentence for sentence in said)


def test_votes_of_a_second_table_find_their_rows_by_id():
    rows = pd.DataFrame({"doc_id": ["a", "b", "c"], "size": [1.0, 2.5, 3.1]})
    votes = pd.DataFrame({"doc_id": ["c", "a"], "rater": ["r", "r"], "label": ["x", "y"]})
    voted = read_votes(rows, votes=votes)
    assert voted.votes.counts.tolist() == [1, 0, 1]
    said = []
    other = votes.rename(columns={"doc_id": "task"})
    found = read_votes(rows, votes=other, report=said.append)
    assert found.votes.counts.tolist() == [1, 0, 1]
    assert "took column 'doc_id' of the rows for 'task' of the votes: it holds all its ids" in said
    twins = rows.assign(copy=rows["doc_id"])
    with pytest.raises(DataError, match="'doc_id' and 'copy' hold all these ids; name the column"):
        read_votes(twins, votes=other)
    assert read_votes(twins, votes=other, id="copy").votes.counts.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="column 'doc_id' holds 'a' in two rows"):
        read_votes(pd.concat([rows, rows]), votes=votes)
    stray = pd.concat([votes, votes.assign(rater="s")], ignore_index=True)
    stray.loc[0, "doc_id"] = "zz"
    with pytest.raises(DataError, match="row 0: a vote on row 'zz', which is not among the rows;"):
        read_votes(rows, votes=stray)
    stray = pd.concat([stray, stray]).rename(columns={"doc_id": "task"})
    with pytest.raises(DataError, match="'zz', which is not among the rows and in 1 other row"):
        read_votes(rows, votes=stray)


LABEL_STUDIO = [
    {
        "id": 5,
        "data": {"text": "fine work"},
        "annotations": [
            {
                "completed_by": {"id": 1, "email": "ann@x"},
                "result": [{"from_name": "tone", "value": {"choices": ["good"]}}],
            },
            {"completed_by": 2, "was_cancelled": True, "result": []},
        ],
        "predictions": [
            {
                "model_version": "llm",
                "score": 0.8,
                "result": [{"from_name": "tone", "value": {"choices": ["good", "bad"]}}],
            }
        ],
    },
    {"id": 6, "data": {"text": "poor work"}, "annotations": []},
]
ARGILLA = [
    {
        "id": "r1",
        "fields": {"text": "fine work"},
        "responses": {"tone": [{"value": "good", "user_id": "u1"}]},
        "suggestions": {"tone": {"value": "bad", "score": 0.7, "agent": "llm"}},
    }
]
OLDER_ARGILLA = [
    {
        "id": "r1",
        "fields": {"text": "fine work"},
        "responses": [{"user_id": "u1", "values": {"tone": {"value": "good"}}}],
        "suggestions": [{"question_name": "tone", "value": "bad", "score": 0.7, "agent": "llm"}],
    }
]


@pytest.mark.parametrize("records", [LABEL_STUDIO, ARGILLA, OLDER_ARGILLA])
def test_exports_of_annotation_tools_are_read(records, tmp_path):
    path = tmp_path / "export.json"
    path.write_text(json.dumps(records))
    voted = read_votes(path)
    assert voted.votes.class_names == ["bad", "good"]
    assert voted.votes.annotator_names[-1] == "llm"
    assert voted.table.frame["text"][0] == "fine work"
    with pytest.raises(DataError, match="no answer to 'size'; it has tone"):
        read_votes(path, label="size")


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_tables_of_argilla_keep_people_apart_and_drafts_out(tmp_path, suffix):
    frame = pl.DataFrame({
        "id": ["r1", "r2", "r3"], "text": ["one", "two", "three"],
        "tone.responses": [["good", "bad"], ["bad"], None],
        "tone.responses.users": [["ann", "ben"], ["ann"], None],
        "tone.responses.status": [["submitted", "draft"], ["submitted"], None],
        "tone.suggestion": ["good", "good", "bad"], "tone.suggestion.agent": ["m1", "m1", None],
        "tone.suggestion.score": [0.9, 0.8, None],
    })  # fmt: skip
    path = tmp_path / f"records.{suffix}"
    frame.write_parquet(path) if suffix == "parquet" else frame.write_ndjson(path)
    voted = read_votes(path, report=(notes := []).append)
    assert "took the table as an export of Argilla" in notes
    assert voted.votes.annotator_names == ["ann", "m1", "model"]
    assert voted.votes.counts.tolist() == [2, 2, 1]
    assert voted.table.frame.columns == ["id", "text"]
    two = frame.with_columns(pl.col("^tone.responses.*$").name.replace("tone", "other"))
    with pytest.raises(DataError, match="several questions \\(tone, other\\); name one"):
        read_votes(two)
    assert len(read_votes(two, label="other").votes) == 2


def test_other_json_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('[{"a": {"b": 1}}]')
    with pytest.raises(DataError, match="no export of Label Studio"):
        read_votes(path)
    path.write_text('[{"annotations": [3]}]')
    with pytest.raises(DataError, match="task 0: its answers are not laid out as Label Studio"):
        read_votes(path)


def test_plain_records_are_a_table_and_drafts_are_no_votes(tmp_path):
    path = tmp_path / "short.json"
    records = [
        {"id": "1", "annotator": who, "tone": said, "text": "so so"}
        for who, said in (("ann", "good"), ("bob", "bad"))
    ]
    path.write_text(json.dumps(records))
    voted = read_votes(path, label="tone")
    assert voted.table.frame.columns == ["id", "text"]
    assert voted.votes.counts.tolist() == [2]
    with pytest.raises(DataError, match=r"short\.json has no column that looks like the label"):
        read_votes(path)
    records[0]["tone"] = {"choices": ["good", "bad"]}
    path.write_text(json.dumps(records))
    assert read_votes(path, label="tone").votes.weights.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    answers = [{"value": "good", "user_id": "u1"}, {"value": "bad", "status": "draft"}]
    record = {"fields": {"text": "x"}, "responses": {"tone": answers}}
    assert read_votes([record]).votes.class_names == ["good"]


def test_text_without_an_embedding_works():
    generator = np.random.default_rng(0)
    words = {
        "sport": ["goal", "match", "team", "ball"],
        "money": ["bank", "price", "share", "market"],
    }
    truth = generator.choice(list(words), size=120)
    frame = pd.DataFrame({
        "text": [" ".join(generator.choice([*words[t], "the", "a"], size=8)) for t in truth],
        "ann_1": [t if generator.random() < 0.7 else "sport" for t in truth],
        "ann_2": [t if generator.random() < 0.7 else "money" for t in truth],
    })  # fmt: skip
    found = resolve(frame, fit=nearest_mean)
    assert "took column 'text' as text" in found.notes
    assert accuracy(found, truth) > 0.95
    frame["length"] = frame["text"].str.len()
    found = resolve(frame, fit=nearest_mean)
    assert "took column 'text' as text, beside the others" in found.notes
    assert not any("left out 'text'" in note for note in found.notes)
    assert accuracy(found, truth) > 0.95
    frame["text"] = [f"a{row} b{row} c{row}" for row in range(120)]
    found = resolve(frame, fit=nearest_mean)
    assert "left out 'text', whose words stand in one row each" in found.notes


def test_confidences_in_columns_beside_votes_are_heeded_and_no_features():
    frame, _ = voted_frame(60)
    frame = frame[["ann_0", "ann_1"]].assign(ann_0_confidence=0.7, ann_1_comment="so so it is")
    found = read_votes(frame.assign(ann_1_confidence="high"))
    first = found.votes.weights[found.votes.annotators == 0]
    np.testing.assert_allclose(first.max(axis=1), 0.8)
    assert (found.votes.weights[found.votes.annotators == 1].max(axis=1) == 1).all()
    notes = resolve(frame, fit=nearest_mean).notes
    assert "took column 'ann_0_confidence' as how sure the votes of 'ann_0' are" in notes
    assert any("found no features and no text" in note for note in notes)


def test_categories_are_compared_without_being_named():
    frame, truth = voted_frame()
    regions = ["north", "south", "east"]
    frame = frame[["ann_0", "ann_1"]].copy()
    codes = {label: regions[at] for at, label in enumerate(sorted(set(truth)))}
    frame["region"] = [codes[t] if at % 9 else "west" for at, t in enumerate(truth)]
    found = resolve(frame, fit=nearest_mean)
    assert "took the categories of 'region' as features" in found.notes
    assert accuracy(found, truth) > accuracy(resolve(frame, features=[], fit=nearest_mean), truth)


def test_all_columns_of_text_are_read_but_no_reasons_for_labels():
    generator = np.random.default_rng(0)
    truth = generator.choice(["sport", "money"], size=80)
    words = {"sport": ["goal", "match", "team"], "money": ["bank", "price", "share"]}
    frame = pd.DataFrame({
        "title": [" ".join(generator.choice(words[t], size=3)) for t in truth],
        "body": [" ".join(generator.choice(["the", "a", "of", "is"], size=9)) for _ in truth],
        "reason": [f"it says so in line {row}" for row in range(80)],
        "seen": ["12 May 2024 10:00"] * 80,
        "ann_1": [t if generator.random() < 0.7 else "sport" for t in truth],
        "ann_2": [t if generator.random() < 0.7 else "money" for t in truth],
    })  # fmt: skip
    found = resolve(frame, fit=nearest_mean)
    assert "took columns 'title' and 'body' as text" in found.notes
    assert accuracy(found, truth) > 0.95


def test_embeddings_need_one_vector_per_row(tmp_path):
    frame, truth = voted_frame()
    np.save(tmp_path / "e.npy", frame[["x", "y"]].to_numpy())
    found = resolve(frame[["ann_0", "ann_1"]], embedding=tmp_path / "e.npy", fit=nearest_mean)
    assert accuracy(found, truth) > 0.9
    with pytest.raises(DataError, match="holds 3 vectors for 240 rows"):
        resolve(frame, embedding=np.zeros((3, 2)))


def test_a_label_outside_the_list_is_named_with_its_row():
    frame = pd.DataFrame({"ann_1": ["x", "y"], "ann_2": ["x", "q"]})
    with pytest.raises(DataError, match="row 1: 'ann_2' names 'q', which is not one of the 2"):
        resolve(frame, labels=["x", "y"])


def test_misspelt_votes_of_a_second_table_are_named_where_they_stand(tmp_path):
    said = ["sport", "culture"] * 10
    (tmp_path / "rows.csv").write_text("id\n" + "".join(f"r{row}\n" for row in range(20)))
    lines = [f"r{row},{who},{label}" for row, label in enumerate(said) for who in ("ann", "bob")]
    lines[4] = "r2,ann,sprot"
    (tmp_path / "votes.csv").write_text("\n".join(["id,who,label", *lines]))
    given = {"source": tmp_path / "rows.csv", "votes": tmp_path / "votes.csv"}
    found = resolve(**given)
    (note,) = (note for note in found.notes if "typing error" in note)
    assert note.startswith(f"'sprot' ({tmp_path}/votes.csv, line 6) looks like")
    assert "'sport' (19 votes) and counts as that; correct it" in note
    assert (found.columns["label"][2], found.columns["agreement"][2]) == ("sport", 1.0)
    assert found.alpha == 1.0
    assert found.reliability.class_names == ["culture", "sport"]
    np.testing.assert_allclose(found.reliability.confusion.sum(axis=2), 1.0)
    with pytest.raises(DataError, match=r"votes.csv, line 6: 'ann' names 'sprot', which is not"):
        resolve(**given, labels=["sport", "culture"])


def test_the_only_column_that_votes_and_rows_share_names_the_rows(tmp_path):
    said = ["Lob", "Frage"] * 5
    rows = pd.DataFrame({"Ticket-Nr": [f"T{k}" for k in range(10)], "Text": "a"})
    votes = pd.DataFrame(
        [(f"T{k}", who, label) for k, label in enumerate(said) for who in ("ann", "ben")],
        columns=["Ticket-Nr", "Person", "Urteil"],
    )
    found = resolve(rows, votes=votes, annotator="Person", label="Urteil")
    assert found.columns["label"] == said
    assert "took column 'Ticket-Nr' as the row of a vote" in found.notes


def test_an_annotator_who_uses_other_words_than_all_others_is_pointed_out():
    said = ["Lob", "Frage"] * 10
    words = {"Lob": "praise", "Frage": "question"}
    frame = pd.DataFrame({"ann": said, "ben": said, "carl": [words[label] for label in said]})
    notes = resolve(frame, annotators="*").notes
    assert (
        "annotator 'carl' names no label that anybody else names, but 'praise' and 'question'; "
        "where they mean the same, write them alike"
    ) in notes
    frame.loc[0, "carl"] = "Lob"
    assert not any("anybody else names" in note for note in resolve(frame, annotators="*").notes)


def test_all_labels_outside_the_list_are_told():
    frame = pd.DataFrame({"ann_1": [*"xabcdef"], "ann_2": [*"xyyyyyy"]})
    told = (
        r"row 1: 'ann_1' names 'a', which is not one of the 2 labels; nor are 'b' \(row 2\), "
        r"'c' \(row 3\), 'd' \(row 4\), 'e' \(row 5\), 1 more; correct them or add them"
    )
    with pytest.raises(DataError, match=told):
        resolve(frame, labels=["x", "y"])


def test_a_table_without_votes_says_what_to_name():
    with pytest.raises(MissingColumnError, match="--annotators 'ann_\\*'"):
        resolve(pd.DataFrame({"a": [1.0, 2.0]}))


def test_the_command_writes_every_format_and_keeps_rows_in_order(groupnoise, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    frame, _ = voted_frame(n_rows=12)
    frame["note"] = "=1+1"
    frame["zip"] = [f"0{n:04d}" for n in range(12)]
    frame.to_csv(tmp_path / "votes.csv", index=False)
    words = ("resolve", "votes.csv", "--annotators", "ann_*", "--features", "x,y")
    for name in ("out.csv", "out.jsonl", "out.parquet", "out.xlsx"):
        code, said, err = groupnoise(*words, "-o", name, "--reliability", "who.json")
        assert code == 0, err
    assert "12 rows written" in said
    assert "Krippendorff's alpha" in said
    with open(tmp_path / "out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["row_id"] for row in rows] == [str(7000 + n) for n in range(12)]
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])["label"]
    assert pd.read_parquet(tmp_path / "out.parquet").columns[-1] == "look"
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    cells = {cell.value: sheet.cell(2, cell.column) for cell in sheet[1]}
    assert (cells["note"].value, cells["note"].data_type) == ("=1+1", "s")
    assert (cells["row_id"].value, cells["zip"].value) == (7000, "00000")
    assert cells["x"].value == pytest.approx(frame["x"][0])
    assert len(json.loads((tmp_path / "who.json").read_text())) == 3


def test_the_command_refuses_bad_input_in_one_sentence(groupnoise, tmp_path):
    (tmp_path / "votes.csv").write_text("id,ann_1,ann_2\n1,x,y\n2,x,zz\n")
    code, _, err = groupnoise("resolve", "votes.csv", "-o", "o.csv", "--labels", "x,y")
    assert code == 2
    assert "votes.csv, line 3: 'ann_2' names 'zz'" in err
    assert groupnoise("resolve", "votes.csv", "-o", "o.pdf")[0] == 2
    assert groupnoise("resolve", "votes.csv", "-o", "votes.csv")[0] == 2


def test_a_few_true_labels_teach_who_can_be_trusted():
    frame, truth = voted_frame(skills=(0.55, 0.3, 0.3), seed=3)
    votes_alone = frame.drop(columns=["x", "y"])
    known = {row: str(truth[row]) for row in range(60)}
    taught, untaught = resolve(votes_alone, known=known), resolve(votes_alone)
    assert taught.columns["label"][:60] == truth[:60].tolist()
    assert accuracy(taught, truth) > accuracy(untaught, truth)
    rest = np.array(taught.columns["label"][60:]) == truth[60:]
    assert rest.mean() > np.mean(np.array(untaught.columns["label"][60:]) == truth[60:])
    with_features = resolve(frame, known=known, fit=nearest_mean)
    assert with_features.columns["probability"][:60] == [1.0] * 60
    with pytest.raises(DataError, match="known says 'owl' of row 3"):
        resolve(frame, known={3: "owl"})


def test_a_column_of_true_labels_teaches_and_is_no_feature():
    frame, truth = voted_frame()
    cells = [*truth[:20], *[None] * (len(frame) - 20)]
    known = {row: str(truth[row]) for row in range(20)}
    by_column = resolve(frame.assign(checked=cells), truth="checked", fit=nearest_mean)
    by_row = resolve(frame, known=known, fit=nearest_mean)
    assert by_column.columns["label"] == by_row.columns["label"]
    assert by_column.columns["label"][:20] == truth[:20].tolist()
    with pytest.raises(DataError, match="column 'checked' says 'owl', which nobody voted for"):
        resolve(frame.assign(checked=["owl", *cells[1:]]), truth="checked")


@pytest.mark.parametrize("is_featured", [True, False])
def test_the_second_choice_of_a_known_row_is_the_likeliest_other_label(is_featured):
    frame, _ = voted_frame()
    frame = frame if is_featured else frame.drop(columns=["x", "y"])
    before = resolve(frame, fit=nearest_mean).columns
    after = resolve(frame, known={0: before["second"][0]}, fit=nearest_mean).columns
    assert after["second"][0] == before["label"][0]
    known = {row: before["label"][row] for row in range(60)}
    seconds = resolve(frame, known=known, fit=nearest_mean).columns["second"][:60]
    assert np.mean(np.array(seconds) == before["second"][:60]) > 0.8
    assert set(seconds) == {"cat", "dog", "eel"}


def test_the_second_choice_of_a_known_row_is_its_other_candidate():
    frame = pd.DataFrame({"labels": ["ant|cow", "bee|cow", "ant|bee"]})
    found = resolve(frame, candidates="labels", known={1: "cow"}).columns
    assert (found["label"][1], found["second"][1]) == ("cow", "bee")


def test_columns_of_annotators_are_found_however_they_are_numbered():
    for names in (["annotator 1", "annotator 2"], ["rater1", "rater2"], ["LLM-a", "LLM-b"]):
        frame = pd.DataFrame({"annual": ["u", "v"], names[0]: ["x", "y"], names[1]: ["x", "x"]})
        assert read_votes(frame).columns == tuple(names)


def test_advice_names_the_columns_that_hold_the_same_labels():
    frame = pd.DataFrame({"text": ["a b", "c d"], "Anna": ["x", "y"], "Ben": ["y", "x"]})
    with pytest.raises(MissingColumnError, match=r"same labels: --annotators 'Anna,Ben'"):
        resolve(frame)
    assert resolve(frame, annotators="Anna,Ben").votes.class_names == ["x", "y"]


def agreeing_votes(n_rows=60):
    generator = np.random.default_rng(0)
    truth = generator.integers(3, size=n_rows)
    said = [
        np.where(generator.random(n_rows) < skill, truth, generator.integers(3, size=n_rows))
        for skill in (0.9, 0.8)
    ]
    names = np.array(["Lob", "Frage", "Klage"])
    return pd.DataFrame({
        "Nr": [f"S{n}" for n in range(n_rows)], "Anna": names[said[0]], "Ben": names[said[1]],
        "Carl": "Lob",
    })  # fmt: skip


def test_columns_that_hold_the_same_labels_and_agree_are_annotators_the_lazy_one_too():
    found = read_votes(agreeing_votes(), report=(said := []).append)
    assert found.columns == ("Anna", "Ben", "Carl")
    assert any("'Anna', 'Ben', 'Carl' as annotators: they hold the same labels" in s for s in said)
    yes = agreeing_votes().replace({"Lob": "yes", "Frage": "no", "Klage": "no"})
    with pytest.raises(MissingColumnError, match="--annotators 'Anna,Ben,Carl'"):
        read_votes(yes)  # as answers to three questions would


def test_lines_that_are_votes_are_known_by_their_cells_under_any_names():
    wide = agreeing_votes()
    long = wide.melt("Nr", ["Anna", "Ben"], var_name="wer war es", value_name="Einordnung")
    long = long.sample(frac=1.0, random_state=0).assign(Dauer=range(len(long)))
    long = long.rename(columns={"Nr": "Vorgang"})
    said: list[str] = []
    found = read_votes(long, report=said.append)
    assert (found.votes.n_rows, len(found.votes)) == (60, 120)
    assert found.votes.annotator_names == list(dict.fromkeys(long["wer war es"]))
    assert (
        "took each line as a vote, by its cells: --row 'Vorgang' --annotator 'wer war es' "
        "--label 'Einordnung' (these options say otherwise)"
    ) in said


def test_a_column_called_as_a_person_among_columns_of_people_is_one_of_them():
    frame = agreeing_votes().rename(columns={"Anna": "Prüferin", "Ben": "Bewerter 2"})
    assert read_votes(frame).columns == ("Prüferin", "Bewerter 2", "Carl")


def test_a_model_that_names_two_labels_or_is_unsure_votes_beside_people():
    frame = agreeing_votes()
    words = [
        f"{label} and {other}"
        for label, other in zip(frame["Anna"], frame["Ben"][::-1], strict=True)
    ]
    frame["gpt-4o"] = ["unsure", *frame["Anna"][1:-12], *words[-12:]]
    frame["remark"] = [f"seen on day {n}" for n in range(len(frame))]
    found = read_votes(frame)
    assert found.columns == ("Anna", "Ben", "Carl", "gpt-4o")
    assert found.votes.annotator_names[-1] == "gpt-4o"


@pytest.mark.parametrize(
    ("name", "cells", "is_percent"),
    [
        ("Sicherheit (%)", ["90", "100", "40", "70"], True),
        ("confidence", ["90 %", "100%", "40 %", "70 %"], True),
        ("Sicherheit", ["87,5 %", "100 %", "40 %", "70 %"], True),
        ("confidence", ["90", "100", "40", "70"], True),
        ("confidence", ["0.9", "1", "0.4", "0.7"], False),
    ],
)
def test_confidences_in_percent_are_read_and_said(tmp_path, name, cells, is_percent):
    said_of = ["1;a;x", "1;b;y", "2;a;x", "2;b;x"]
    lines = [f"{vote};{cell}" for vote, cell in zip(said_of, cells, strict=True)]
    (tmp_path / "v.csv").write_text("\n".join([f"Zeile;Prüfer;Klasse;{name}", *lines]))
    found = read_votes(tmp_path / "v.csv", report=(said := []).append)
    assert found.votes.weights.max(axis=1)[1:].tolist() == pytest.approx([1.0, 0.7, 0.85])
    assert (f"read column {name!r} as percent" in said) == is_percent


def test_grades_of_confidence_are_no_percent(tmp_path):
    (tmp_path / "v.csv").write_text("row,annotator,label,confidence\n1,a,x,3\n1,b,y,5\n")
    with pytest.raises(DataError, match="must lie between 0 and 1"):
        read_votes(tmp_path / "v.csv")


def test_lists_of_few_words_under_any_name_are_candidates():
    frame = pd.DataFrame({
        "text": [f"row {n} of it" for n in range(20)], "guess": ["a|b", "b|c", "c", "a|c"] * 5
    })  # fmt: skip
    found = read_votes(frame, report=(said := []).append)
    assert found.is_candidates
    assert "took 'guess' as the candidate labels" in said


def test_the_only_column_of_json_holds_the_candidates():
    cells = ['{"x": 0.7, "y": 0.3}', '["y"]', ""]
    found = resolve(pd.DataFrame({"id": [1, 2, 3], "guess": cells}))
    assert "took 'guess' as the candidate labels" in found.notes
    np.testing.assert_allclose(found.probabilities[0], [0.7, 0.3])


@pytest.mark.parametrize(
    ("table", "words", "sentence"),
    [
        (
            "row,annotator,label\n1,a,x\n1,a,y\n",
            (),
            "v.csv, row '1': 'a' voted twice, for 'x' and for 'y'",
        ),
        ("id,ann_1,ann_2\n1,,\n2,,\n", (), "v.csv holds no vote at all"),
        (
            "row,annotator,label,confidence\n1,a,x,high\n2,a,y,1\n",
            (),
            "line 2: the confidence 'high' is no number from 0 to 1",
        ),
        ('id,w\n1,"{""x"": ""much""}"\n', (), "line 2: 'w' gives 'x' the weight 'much'"),
        ('id,w\n1,"{""x"": y}"\n2,"{}"\n', (), "line 2: {\"x\": y} in 'w' is no JSON"),
        (
            'id,w\n1,"[""x"", ""y""]"\n2,"[""x"", ""y"\n',
            ("--candidates", "w"),
            'line 3: ["x", "y in \'w\' is no JSON',
        ),
        (
            "f,g,ann_1,ann_2\n1,2.5,x,y\n2,0.5,x,x\n3,1.5,y,y\n4,2,y,x\n5,bad,x,x\n",
            (),
            "line 6: column 'g' holds 'bad', which is not a number",
        ),
        ("ann_1,ann_2\nx,y\n", ("--embedding", "v.npy"), "v.npy does not exist"),
        ("ann_1,ann_2\nx,y\n", ("--embed", "none"), "no column that looks like text to embed"),
        ("Anna,Ben\nx,y\ny,x\n", (), "--annotators 'Anna,Ben'"),
        ("id,w\n1,a|b\n2,a|c\n", ("--candidates", "w", "--labels", "a,b"), "'w' names 'c'"),
        ("ann_1,ann_2\nx,y\n", ("--folds", "1"), "--folds must be a whole number of at least 2"),
        ("ann_1,ann_2\nx,y\n", ("--rounds", "0"), "--rounds must be a whole number of at least 1"),
    ],
)
def test_bad_votes_end_in_one_sentence_that_helps(groupnoise, tmp_path, table, words, sentence):
    (tmp_path / "v.csv").write_text(table)
    code, _, err = groupnoise("resolve", "v.csv", "-o", "o.csv", *words)
    assert code == 2
    told = [line for line in err.splitlines() if line.startswith("error")]
    assert len(told) == 1
    assert sentence in told[0]
    assert not (tmp_path / "o.csv").exists()


def test_what_is_dropped_or_doubtful_is_counted(groupnoise, tmp_path):
    votes = "doc,who,label\na,ann,x\na,ann,x\nb,ann,y\nb,bob,y\n"
    (tmp_path / "v.csv").write_text(votes)
    code, _, err = groupnoise("resolve", "v.csv", "-o", "o.csv")
    assert code == 0
    assert "1 vote was given more than once alike and counted once, the first by 'ann'" in err
    ids = "".join(f"{k},x,y\n" for k in (1, 2, 3, 4, 5, 5))
    (tmp_path / "w.csv").write_text(f"id,ann_1,ann_2\n{ids}")
    code, _, err = groupnoise("resolve", "w.csv", "-o", "o.csv")
    assert code == 0
    assert "1 id of column 'id' stands in more than one row, '5' at w.csv, line 6" in err
    assert len((tmp_path / "o.csv").read_text().splitlines()) == 7


def test_the_only_id_that_comes_back_names_the_rows_of_votes():
    table = pd.DataFrame({
        "annotation_id": range(4), "ticket_id": ["T1", "T1", "T2", "T2"],
        "annotator_id": ["ann", "bob", "ann", "bob"], "label": ["x", "x", "y", "x"],
    })  # fmt: skip
    found = resolve(table)
    assert found.rows["ticket_id"].to_list() == ["T1", "T2"]
    assert "took column 'ticket_id' as the row of a vote" in found.notes
    with pytest.raises(MissingColumnError, match="looks like the row of a vote"):
        resolve(table.rename(columns={"annotation_id": "thread_id"}).assign(thread_id=[1, 1, 2, 2]))


def test_labels_that_may_mean_several_are_pointed_out():
    frame = pd.DataFrame(
        {"ann_1": ["Cat", "cat", "dog", "none"], "ann_2": ["cat", "dog and cat", "dog", "dog"]}
    )
    notes = resolve(frame).notes
    assert any(note.startswith("took 'none' as labels like any other") for note in notes)
    assert (
        "took 'dog and cat' as one label; where it means several, say --label-separator ' and '"
        in notes
    )
    assert resolve(frame, label_separator=" and ").votes.class_names == ["cat", "dog", "none"]


def test_words_for_no_vote_and_other_spellings_make_no_labels():
    said = ["offer", "ham", "spam"] * 10
    odd = ["?", "Unsure", "weiß nicht", "keine Angabe", "-", "n/a", "OFFER ", "skip", "spam", "??"]
    frame = pd.DataFrame({"ann_1": said, "ann_2": said, "ann_3": odd * 3})
    found = resolve(frame)
    assert found.votes.class_names == ["ham", "offer", "spam"]
    assert found.columns["label"] == said
    assert found.votes.counts.tolist() == [2, 2, 2, 2, 2, 2, 3, 2, 3, 2] * 3
    (none,) = (note for note in found.notes if "as no vote (24 votes)" in note)
    assert 'say --keep-label "?,Unsure,weiß nicht,keine Angabe,-,n/a,skip,??"' in none
    assert any(note.startswith("read 'OFFER' as 'offer'") for note in found.notes)
    kept = resolve(frame, keep_label="?,OFFER")
    assert kept.votes.class_names == ["?", "OFFER", "ham", "offer", "spam"]
    assert not any("like any other" in note or "write them alike" in note for note in kept.notes)
    # Who lists the labels lists them all, and a word for none is none of them.
    listed = resolve(frame, labels=["offer", "ham", "spam", "skip"])
    assert listed.votes.class_names == ["offer", "ham", "spam", "skip"]


def answers_of_models(n_rows=60):
    words = ["billing", "shipping", "praise"]
    said = [words[row % 3] for row in range(n_rows)]
    forms = [
        "{}", "{}", "**{}**", "Category: {}", '"{}"', "{}.",
        "{}: I can't tell what {n} stands for", "I cannot determine the category.",
        '{{"reasoning": "it {n} says, plainly", "label": "{}", "confidence": 0.8}}',
        '```json\n{{"label": "{}"}}\n```', "The category is {}.",
        "As an AI, I am unable to classify this.", "{} or nothing at all",
    ]  # fmt: skip
    written = [label.capitalize() if row % 2 else label for row, label in enumerate(said)]
    answers = [
        forms[(row // 3) % len(forms)].format(label, n=row) for row, label in enumerate(written)
    ]
    return pd.DataFrame({"ann_1": said, "ann_2": said, "answer": answers}), said


def test_answers_of_language_models_are_heard_as_the_labels_that_they_name():
    frame, said = answers_of_models()
    odd = frame["answer"].str.contains("or nothing at all")
    frame.loc[odd, "answer"] = None
    voted = read_votes(frame, annotators=["ann_1", "answer"], report=(notes := []).append)
    assert voted.votes.class_names == ["billing", "praise", "shipping"]
    model = voted.votes.annotators == 1
    refused = frame["answer"].str.contains("cannot|unable", na=True)
    assert voted.votes.rows[model].tolist() == np.flatnonzero(~refused).tolist()
    labels = np.array(voted.votes.class_names)[voted.votes.weights[model].argmax(axis=1)]
    assert labels.tolist() == [said[row] for row in voted.votes.rows[model]]
    # The confidence that stands in the answer is its confidence.
    assert set(np.round(voted.votes.weights[model].max(axis=1), 3)) == {1.0, 0.867}
    told = " ".join(notes)
    assert "as no vote (6 votes)" in told
    assert "answers that name these labels" in told
    assert "split the labels" not in told


def test_a_reason_that_comes_back_beside_several_labels_is_no_label():
    labels = ["bug", "wish", "question"] * 12
    answers = [
        f"**{label}**, because the user says so" if row % 4 else label
        for row, label in enumerate(labels)
    ]
    frame = pd.DataFrame({"ann_1": labels, "ann_2": labels, "gpt": answers})
    votes = read_votes(frame, annotators=["ann_1", "ann_2", "gpt"]).votes
    assert votes.class_names == ["bug", "question", "wish"]


def test_a_column_of_answers_beside_annotators_is_pointed_out():
    frame, _ = answers_of_models()
    notes = resolve(frame[~frame["answer"].str.contains("or nothing")]).notes
    assert any("left out 'answer'" in note for note in notes)


def test_labels_that_only_look_like_answers_stay_labels():
    labels = [
        "food: other", "travel: other", "other", "very positive", "very negative", "positive",
        "negative", "cannot log in", "car", "car - of a rental firm nearby", "c", "c++",
    ]  # fmt: skip
    votes = read_votes(pd.DataFrame({"ann_1": labels * 4, "ann_2": labels * 4})).votes
    assert votes.class_names == sorted(labels)


def test_letters_of_choices_are_heard_in_brackets_and_with_points():
    frame = pd.DataFrame({"ann_1": [*"ABCDEFGH"], "ann_2": [f"{each}." for each in "ABCDEFGH"],
                          "ann_3": [f"({each})" for each in "ABCDEFGH"]})  # fmt: skip
    assert read_votes(frame).votes.class_names == [*"ABCDEFGH"]


def test_a_word_for_no_vote_beside_one_label_and_a_code_among_codes_are_labels():
    two = pd.DataFrame({"ann_1": ["yes", "?"] * 6, "ann_2": ["yes", "?"] * 6})
    assert resolve(two).votes.class_names == ["?", "yes"]
    codes = pd.DataFrame({"ann_1": ["NA", "EU", "US"] * 5, "ann_2": ["NA", "EU", "US"] * 5})
    assert resolve(codes).votes.class_names == ["EU", "NA", "US"]
    letters = [*"abcdefABCDEF"]
    assert resolve(pd.DataFrame({"ann_1": letters, "ann_2": letters})).votes.n_classes == 12


def test_a_truth_in_another_spelling_is_known_and_a_word_for_none_is_not():
    frame = pd.DataFrame({"ann_1": ["x1", "x2"] * 3, "ann_2": ["x1", "x1"] * 3, "gold": "?"})
    frame.loc[1, "gold"] = "X2"
    found = resolve(frame, truth="gold")
    assert found.columns["probability"][1] == 1.0
    assert found.columns["label"][1] == "x2"
    assert max(found.columns["probability"][2:]) < 1.0


def test_candidates_of_fit_are_heard_as_votes_are():
    frame = pd.DataFrame({
        "x1": np.sin(range(30)), "x2": np.cos(range(30)),
        "candidates": ["oak|elm", "Oak", "elm|Ash", "ash", "?"] * 6,
        "truth": ["oak", "OAK", "elm", "", "?"] * 6,
    })  # fmt: skip
    said: list[str] = []
    data = read_candidates(frame, report=said.append)
    assert data.class_names == ["ash", "elm", "oak"]
    assert data.candidates[:5].tolist() == [
        [False, True, True], [False, False, True], [True, True, False], [True, False, False],
        [True, True, True],
    ]  # fmt: skip
    assert data.truth[:5].tolist() == [2, 2, 1, -1, -1]
    told = " ".join(said)
    assert "took '?' as no label (6 rows); to keep them as labels, say --keep-label \"?\"" in told
    assert "6 rows without any other label, the first at row 4, may have any of the 3" in told
    assert "read 'Ash' as 'ash' and 'Oak' as 'oak'" in told
    assert "?" in read_candidates(frame.assign(truth=""), keep_label="?").class_names
    asked = read_candidates(frame, labels_needed=False)
    assert asked.candidates.sum(axis=1)[:5].tolist() == [2, 1, 2, 1, 0]


@pytest.mark.parametrize("joint", [" oder ", " or ", " o ", " und ", "/", " OR "])
def test_a_word_that_joins_labels_which_stand_alone_elsewhere_splits_them(joint):
    cells = [f"Linde{joint}Eiche", "Eiche", f"Ahorn{joint}Linde", "Ahorn", f"Eiche{joint}Ahorn"]
    frame = pd.DataFrame(
        {"x1": np.sin(range(30)), "x2": np.cos(range(30)), "candidates": cells * 6}
    )
    said: list[str] = []
    data = read_candidates(frame, report=said.append)
    found = resolve(frame, n_folds=2, n_rounds=1)
    assert data.class_names == found.votes.class_names == ["Ahorn", "Eiche", "Linde"]
    for notes in (said, found.notes):
        assert any(note.startswith(f"split the labels of a cell at {joint!r}") for note in notes)


def test_commas_and_a_word_at_the_end_join_labels_together():
    three = ["oak, elm or ash", "elm", "ash, fir or oak", "oak", "fir or elm", "fir, elm or oak"]
    frame = pd.DataFrame(
        {"x1": np.sin(range(30)), "x2": np.cos(range(30)), "candidates": three * 5}
    )
    assert read_candidates(frame).class_names == ["ash", "elm", "fir", "oak"]
    found = read_votes(frame.rename(columns={"candidates": "ann_1"}).assign(ann_2="oak"))
    assert found.votes.class_names == ["ash", "elm", "fir", "oak"]


def test_two_models_that_name_several_labels_are_annotators_however_they_write_them():
    first = [["oak"], ["elm"], ["ash"], ["fir"], ["fir", "oak"], ["elm"], ["oak"], ["ash"]] * 5
    second = ["oak", "elm", "ash and fir", "fir and elm", "fir, ash", "elm and oak", "oak, elm",
              "ash, oak"] * 5  # fmt: skip
    frame = pd.DataFrame({"gpt": [json.dumps(cell) for cell in first], "claude": second})
    found = read_votes(frame.assign(ticket="a b c"))
    assert found.columns == ("gpt", "claude")
    assert not found.is_candidates
    assert found.votes.class_names == ["ash", "elm", "fir", "oak"]


def test_a_file_of_labels_joined_by_a_stroke_is_known_by_its_cells(tmp_path):
    cells = ["Linde/Eiche", "Eiche", "Ahorn/Linde", "Ahorn", "Eiche/Ahorn"] * 8
    frame = pd.DataFrame({"x1": np.sin(range(40)), "x2": np.cos(range(40)), "Vermutung": cells})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    guess = guess_setting(str(tmp_path / "rows.csv"))
    assert (guess.setting, guess.columns) == ("pll", {"candidates": "Vermutung"})


def test_a_label_of_two_words_stays_one_with_a_hint():
    frame = pd.DataFrame({
        "x1": np.sin(range(30)), "x2": np.cos(range(30)),
        "candidates": ["black and white", "black", "white"] * 10,
    })  # fmt: skip
    said: list[str] = []
    assert read_candidates(frame, report=said.append).class_names[1] == "black and white"
    assert any("say --label-separator ' and '" in note for note in said)


def test_labels_that_look_misspelt_are_pointed_out_with_their_row_and_kept(groupnoise, tmp_path):
    labels = [*["shipping", "class 1", "sport"] * 10, "shiping", "class 10", "refund", "sprot"]
    said: list[str] = []
    frame = pd.DataFrame({"x": np.sin(range(34)), "candidates": labels})
    data = read_candidates(frame, report=said.append)
    notes = resolve(pd.DataFrame({"ann_1": labels, "ann_2": labels})).notes
    for told, more, times, what in (
        (said, "", "10 times", "is learned as a label of its own; if it is one, correct it there"),
        (notes, " and 1 more", "20 votes", "counts as that; correct it, or list all labels with "
         "--labels"),
    ):  # fmt: skip
        assert [each for each in told if "typing error" in each] == [
            f"'{slip}' (row {row}{more}) looks like a typing error for '{meant}' ({times}) and "
            + what
            for slip, row, meant in (("shiping", 30, "shipping"), ("sprot", 33, "sport"))
        ]
    assert {"shiping", "sprot"} <= set(data.class_names)
    with pytest.warns(UserWarning, match=r"candidates: 'sprot' \(row 32\)"):
        read_candidate_sets([{label} for label in labels if label != "shiping"] + [{"refund"}])
    bags = pd.DataFrame({"bag": np.arange(60) // 2, "x": np.sin(range(60))})
    bags["label"] = np.where(bags["bag"] % 2, "positive", "negative")
    bags.loc[bags["bag"] == 7, "label"] = "positve"
    bags.to_csv(tmp_path / "bags.csv", index=False)
    _, _, err = groupnoise("data", "describe", "bags.csv", "--setting", "mil")
    assert (
        "\n'positve' (bags.csv, line 16) looks like a typing error for 'positive' (14 times)" in err
    )
    _, _, err = groupnoise("data", "describe", "bags.csv", "--setting", "mil", "--label", "lable")
    assert "(did you mean 'label'?)" in err


def test_agreement_counts_what_each_vote_says_first():
    frame = pd.DataFrame(
        {
            "ann_1": ['{"x": 0.7, "y": 0.3}', '{"x": 0.2, "y": 0.8}', '["x", "y"]'],
            "ann_2": ['{"x": 0.6, "y": 0.4}', '{"x": 0.9, "y": 0.1}', '["x"]'],
        }
    )
    found = resolve(frame)
    assert found.columns["agreement"] == [1.0, 0.5, 0.75]
    sure = [(0, "a", "x", 0.6), (0, "b", "x", 0.9), (1, "a", "y", 0.7), (1, "b", "y", None)]
    assert krippendorff_alpha(Votes.from_entries(sure, 2)) == 1.0


def test_ids_of_votes_are_no_features_though_they_are_numbers():
    lines = pd.DataFrame({"doc": [3, 3, 8, 9, 11], "who": list("ababa"), "label": list("xyxyx")})
    assert "found no features and no text: labels come from the votes alone" in resolve(lines).notes
    rows = pd.DataFrame({"doc": [3, 8, 9, 11]})
    found = resolve(rows, votes=lines)
    assert "found no features and no text: labels come from the votes alone" in found.notes


def test_one_label_alone_is_nothing_to_resolve_and_has_no_empty_interval(groupnoise, tmp_path):
    (tmp_path / "v.csv").write_text("ann_1,ann_2\nx,x\nx,\n")
    code, said, err = groupnoise("resolve", "v.csv", "-o", "o.csv")
    assert code == 0
    assert "'x' is the only label: nothing to resolve" in err
    assert "nan" not in said


def test_classifiers_that_cannot_tell_rows_apart_give_way_to_one_that_can():
    truth = np.arange(40) % 4
    said = np.eye(4)[truth]
    log_likelihood = np.log(0.9 * said + 0.025)
    blind, seeing = np.full((40, 4), 0.25), 0.8 * said + 0.05
    everybody = np.ones(40, dtype=bool)
    found, share = best_calibrated([blind, seeing], log_likelihood, np.full(4, 0.25), everybody)
    alone, its_share = best_calibrated([seeing], log_likelihood, np.full(4, 0.25), everybody)
    assert np.allclose(found, alone)
    assert share == its_share == 1.0


def test_votes_are_learned_from_by_kernels_candidates_and_many_rows_by_networks():
    numbers = np.random.default_rng(0).normal(size=(30, 3))
    many = np.tile(numbers, (200, 1))
    words = many / np.linalg.norm(many, axis=1, keepdims=True)
    cases = ((numbers, False), (numbers, True), (many, False), (words, False))
    found = [default_fits(None, rows, 0, is_candidates=of_sets) for rows, of_sets in cases]
    encoders = [[fit.parameters.get("encoder", "mlp") for fit in fits] for fits in found]
    assert encoders == [["kernel"] * 2, ["mlp"] * 2, ["mlp"], ["mlp"] * 2]


def test_rows_of_votes_are_found_by_each_annotator_voting_once_on_each():
    people = ["Dr. A", "Dr. B", "Dr. C"]
    votes = pd.DataFrame(
        {
            "Präparat": [row for row in range(12) for _ in people],
            "Gutachter": people * 12,
            "Urteil": [
                "gut" if (row + at) % 4 else "schlecht" for row in range(12) for at in (0, 4, 5)
            ],
            "Datum": ["2024-01-11", "2024-02-11"] * 18,
        }
    )
    resolved = resolve(votes)
    assert len(resolved.rows) == 12
    assert "took column 'Präparat' as the row of a vote" in resolved.notes


def test_numbers_of_votes_are_not_taken_for_annotators():
    counts = pd.DataFrame({"n_cat": [3, 1, 2, 0] * 5, "n_dog": [0, 2, 1, 3] * 5})
    with pytest.raises(DataError, match="'n_cat' and 'n_dog' look like numbers of votes: write a"):
        resolve(counts)


@pytest.mark.parametrize(
    ("row", "who", "label"),
    [
        ("HITId", "WorkerId", "Answer.category"),
        ("_input_hash", "_annotator_id", "accept"),
        ("TaskId", "AnnotatorId", "label"),
    ],
)
def test_votes_are_known_as_tools_write_them(row, who, label):
    votes = {row: ["a", "a", "b", "b"], who: ["x", "y"] * 2, label: ["cat", "cat", "dog", "cat"]}
    also = {"answer": "accept"} if label == "accept" else {}
    voted = read_votes(pd.DataFrame({**votes, **also}))
    assert voted.votes.annotator_names == ["x", "y"]
    assert voted.votes.class_names == ["cat", "dog"]
    assert len(voted.table.frame) == 2


def test_comments_beside_votes_are_none_and_a_truth_is_told_of():
    frame, _ = voted_frame(60)
    frame["ann_1_comment"] = "looks fine to me"
    frame["gold"] = [None] * 50 + frame["ann_1"].tolist()[50:]
    found = resolve(frame, fit=nearest_mean)
    assert found.votes.annotator_names == ["ann_0", "ann_1", "ann_2"]
    assert any(
        "'gold', called as the truth is; --truth gold learns" in each for each in found.notes
    )
    frame["label_truth"] = frame.pop("gold")
    notes = resolve(frame, fit=nearest_mean).notes
    assert any("'label_truth', called as the truth is" in each for each in notes)
    assert not any("--annotators" in each for each in notes)


def test_an_empty_list_of_features_leaves_the_votes_alone():
    rows = pd.DataFrame({"f": [1.0, 2.0, 3.0], "ann_1": list("xyx"), "ann_2": list("xyy")})
    notes = []
    assert resolve(rows, features=[], report=notes.append).belief.predicted is None
    assert "no features were named: labels come from the votes alone" in notes
