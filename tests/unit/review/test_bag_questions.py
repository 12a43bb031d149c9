"""Bags at the desk: which object carries the label, what is shown of it, and what answers teach."""

import csv

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags import load_digit_bags, read_bags
from groupnoise.bags.reading.labels import apply_review_answers
from groupnoise.exceptions import DataError
from groupnoise.io import BagDataset
from groupnoise.io.answer_files import write_columns
from groupnoise.io.columns.setting_guess import guess_setting
from groupnoise.io.tables.table import read_table
from groupnoise.review import Desk
from groupnoise.review.bag_questions import BagQuestions, BagViews, object_responsibilities

PLAIN = MaxMatchingMILClassifier.fixed(random_state=0, max_epochs=20, n_members=1)


def write_mails(path, n_mails=20):
    """Mails of four sentences; every second one is spam because of one of them."""
    generator = np.random.default_rng(0)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["mail", "label", "sentence", "shouting", "length"])
        for mail in range(n_mails):
            for sentence in range(4):
                is_spam = mail % 2 == 1 and sentence == mail % 4
                words = f"buy now {mail}" if is_spam else "see you at noon"
                shouting = 3.0 * is_spam + generator.normal(scale=0.3)
                writer.writerow([f"m{mail}", ["ham", "spam"][mail % 2], words,
                                 f"{shouting:.3f}", generator.integers(3, 9)])  # fmt: skip


@pytest.fixture(scope="module")
def mails(tmp_path_factory):
    path = tmp_path_factory.mktemp("mails") / "mails.csv"
    write_mails(path)
    dataset = read_bags(path, group="mail", label="label")
    notes = []
    told = []
    carried = object_responsibilities(
        dataset, estimator=PLAIN, report=notes.append, on_progress=told.append
    )
    n_told = len(told)
    assert [each["done"] for each in told] == list(range(n_told))
    assert {each["total"] for each in told} == {n_told}
    questions = BagQuestions(dataset, carried, BagViews(dataset, table=read_table(path)))
    return dataset, questions, notes


def test_each_positive_bag_is_asked_about_and_sees_its_sentences(mails):
    _, questions, notes = mails
    assert any("took ham as the negative label" in note for note in notes)
    assert len(questions.order) == 10
    shown = questions.describe(questions.order[0])
    assert shown["ask"] == "Which of these objects carries spam?"
    told = {each["label"]: each.get("text", "") for each in shown["labels"]}
    assert sorted(told) == ["none of them", "object 0", "object 1", "object 2", "object 3"]
    assert sum("buy now" in text for text in told.values()) == 1
    assert sum(each["weight"] for each in shown["labels"][:-1]) == pytest.approx(1.0, abs=1e-3)


def test_answers_become_objects_of_the_export(mails, tmp_path):
    dataset, questions, _ = mails
    desk = Desk(questions, tmp_path / "a.jsonl")
    first = desk.next_row("ann")["row"]
    with pytest.raises(DataError, match="'object 4' is none of the answers"):
        desk.answer(first, "ann", "object 4")
    desk.answer(first, "ann", "object 1", "clear")
    second = desk.next_row("ann")["row"]
    desk.answer(second, "ann", "none of them")
    columns = desk.export()
    start = dataset.bags.offsets[questions.responsibilities.bags[first]]
    assert columns["object"][first] == 1
    assert columns["source_row"][first] == start + 1
    assert (columns["answered_by"][first], columns["note"][first]) == ("ann", "clear")
    assert columns["object"][second] is None
    assert columns["source_row"][second] is None
    desk.close()


def test_an_answered_bag_teaches_by_the_object_that_was_chosen():
    bags = load_digit_bags(24, size=(3, 3), random_state=0)
    seen = []

    class Remembers(MaxMatchingMILClassifier):
        def fit(self, bags, y, **named):
            seen.append((bags, y))
            return super().fit(bags, y, **named)

    untaught = object_responsibilities(bags, estimator=PLAIN)
    truth = bags.instance_labels
    known = {0: "object 1", 1: "none of them"}
    parameters = PLAIN.get_params()
    taught = object_responsibilities(bags, known=known, estimator=Remembers(**parameters))
    sizes = np.concatenate([each.sizes for each, _ in seen])
    assert (sizes == 1).sum() == 4  # bag 0, in each fold but its own
    assert sum(len(each) for each, _ in seen) == 4 * 23  # bag 1 teaches nothing
    assert [len(share) for share in taught.responsibility] == [3] * len(taught.bags)
    chosen = [
        truth[bags.bags.offsets[bag] + share.argmax()]
        for bag, share in zip(untaught.bags, untaught.responsibility, strict=True)
    ]
    assert np.mean(chosen == untaught.labels) > 1 / 3


def test_pictures_of_objects_come_from_the_data():
    bags = load_digit_bags(8, size=(3, 3), random_state=0)
    view = BagViews(bags).object_view(0, 1, 0)
    assert view["picture"].startswith("data:image/png;base64,")


def test_the_likeliest_of_many_objects_are_shown():
    bags = load_digit_bags(6, size=(40, 40), random_state=0)
    carried = object_responsibilities(bags, estimator=PLAIN)
    questions = BagQuestions(bags, carried, BagViews(bags))
    shown = questions.describe(0)
    assert len(shown["labels"]) == 31
    assert "the 30 likeliest of 40 are shown" in shown["why"]
    assert questions.allows(0, "object 0")
    assert questions.allows(0, "object 39")
    assert not questions.allows(0, "object 40")
    assert not questions.allows(0, "object ²")


def test_answers_about_bags_of_several_labels_tell_which_object_has_which():
    generator = np.random.default_rng(0)
    classes = np.array([(0, 1) if bag % 2 else (2, 3) for bag in range(40)])
    rows = 2 * np.eye(4)[classes] + 0.3 * generator.normal(size=(40, 2, 4))
    labels = np.zeros((40, 4), dtype=bool)
    labels[np.arange(40)[:, None], classes] = True
    dataset = BagDataset("pairs", Groups.from_array(rows), labels, list("abcd"))
    plain = object_responsibilities(dataset, estimator=PLAIN)
    right = (classes[plain.bags] == plain.labels[:, None]).argmax(axis=1)
    known = {number: f"object {right[number]}" for number in range(40)}
    taught = object_responsibilities(dataset, estimator=PLAIN, known=known)
    of_right = [
        np.mean(np.argmax(each.responsibility[40:], axis=1) == right[40:])
        for each in (plain, taught)
    ]
    assert of_right[1] > 0.9 > of_right[0]


def test_labels_that_no_object_carries_leave_nothing_to_learn_from(mails):
    dataset, questions, _ = mails
    known = dict.fromkeys(range(len(questions.order)), "none of them")
    with pytest.raises(DataError, match="has by the answers too few labelled bags"):
        object_responsibilities(dataset, known=known, estimator=PLAIN)


def test_the_export_teaches_the_bags_it_is_about(mails, tmp_path):
    dataset, questions, _ = mails
    desk = Desk(questions, tmp_path / "a.jsonl")
    desk.answer(0, "ann", "object 1")
    desk.answer(1, "ann", "none of them")
    desk.answer(2, "ann", None)
    columns = desk.export()
    desk.close()
    path = tmp_path / "labels.csv"
    write_columns(path, columns)
    taught = apply_review_answers(dataset, str(path))
    ids = dataset.bag_ids.tolist()
    silent = ids.index(columns["bag"][1])
    assert taught.bag_ids.tolist() == [*ids[:silent], *ids[silent + 1 :]]
    (chosen,) = np.flatnonzero(taught.instance_labels >= 0)
    assert taught.source_rows[chosen] == columns["source_row"][0]
    with pytest.raises(DataError, match=r"fit the bags themselves, with --learn-truth"):
        guess_setting(str(path))
    columns["object"][0] = 4
    write_columns(path, columns)
    with pytest.raises(DataError, match="has no object '4'; they go from 0 to 3"):
        apply_review_answers(dataset, str(path))
    write_columns(path, {"bag": [1]})
    with pytest.raises(DataError, match="no export of `groupnoise review` about bags: it lacks"):
        apply_review_answers(dataset, str(path))
