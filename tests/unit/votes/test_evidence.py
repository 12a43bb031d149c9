"""What rows are compared by, which neighbours are named, and how far features may be trusted."""

import re
import socket
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from groupnoise.core.selective import hidden_errors, n_predictable_candidates
from groupnoise.exceptions import MissingColumnError, MissingExtraError, ParameterError
from groupnoise.votes import DawidSkene, Votes, resolve
from groupnoise.votes.calibration import (
    calibrate_confidences,
    expect_hidden_errors,
    single_vote_temperature,
)
from groupnoise.votes.dawid_skene import softmax, vote_posterior
from groupnoise.votes.features import (
    embed_texts,
    nearest_voted_rows,
    single_vote_accuracy,
    weigh_by_neighbours,
)
from groupnoise.votes.inference import infer_labels
from groupnoise.votes.misspellings import correct_habits
from reference import smoothed_confusions

LABELS = ["x", "y", "z"]


def mean_classifier(rows, named, weights):
    """A classifier that is learned at once: the weighted mean of each class."""
    share = weights / weights.sum(axis=1, keepdims=True)
    means = (share.T @ rows) / np.maximum(share.sum(axis=0)[:, None], 1e-9)

    class Means:
        def predict_proba(self, held):
            distances = ((held[:, None, :] - means[None]) ** 2).sum(axis=2)
            likely = np.exp(-(distances - distances.min(axis=1, keepdims=True)))
            return likely / likely.sum(axis=1, keepdims=True)

    return Means()


def rows_with_single_votes(spread, skills, n_rows=300, seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n_rows)
    centres = np.array([[3.0, 0], [0, 3.0], [-3.0, -3.0]])
    points = centres[truth] + spread * generator.normal(size=(n_rows, 2))
    who = generator.integers(len(skills), size=n_rows)
    wrong = (truth + generator.integers(1, 3, size=n_rows)) % 3
    said = np.where(generator.random(n_rows) < np.array(skills)[who], truth, wrong)
    table = pd.DataFrame(
        {"task": np.arange(n_rows), "annotator": [f"a{k}" for k in who],
         "label": [LABELS[k] for k in said], "x": points[:, 0], "y": points[:, 1]}
    )  # fmt: skip
    return table, truth, said


def right(found, truth):
    return np.mean([LABELS.index(label) for label in found.columns["label"]] == truth)


def test_features_find_out_who_guesses_where_each_row_has_one_vote():
    table, truth, said = rows_with_single_votes(1.0, (0.9, 0.85, 1 / 3))
    found = resolve(table, fit=mean_classifier)
    accuracy = found.reliability.accuracy[np.argsort(found.votes.annotator_names)]
    assert accuracy[2] < min(accuracy[:2]) - 0.2
    assert right(found, truth) > np.mean(said == truth) + 0.1


def votes_with_confidences(kind, seed, skills=(0.9, 0.75, 0.6), n_rows=400):
    """Rows of three classes with features, and votes that say how sure they are."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n_rows)
    points = 3.0 * np.eye(3)[truth] + 1.5 * generator.normal(size=(n_rows, 3))
    entries, is_right = [], {f"a{who}": [] for who in range(len(skills))}
    for row in range(n_rows):
        for who, skill in enumerate(skills):
            if generator.random() > 0.8:
                continue
            chance = np.clip(generator.beta(6 * skill, 6 * (1 - skill)), 0.02, 0.98)
            sure = {"calibrated": chance, "too sure": 0.9 + 0.1 * chance, "unsure": 0.5}[kind]
            is_right[f"a{who}"].append(generator.random() < chance)
            other = (truth[row] + generator.integers(1, 3)) % 3
            said = truth[row] if is_right[f"a{who}"][-1] else other
            entries.append((row, f"a{who}", LABELS[said], float(sure)))
    votes = Votes.from_entries(entries, n_rows, class_names=LABELS, annotator_names=list(is_right))
    return votes, points, truth, np.array([np.mean(each) for each in is_right.values()])


@pytest.mark.parametrize(
    ("kind", "has_features", "n_seeds"),
    [("calibrated", True, 6), ("too sure", False, 6), ("unsure", False, 14)],
)
def test_accuracies_of_votes_with_confidences_lie_in_their_intervals(kind, has_features, n_seeds):
    held, missed_by = [], []
    for seed in range(n_seeds):
        votes, points, _, accuracy = votes_with_confidences(kind, seed)
        belief = infer_labels(votes, points if has_features else None, fit=mean_classifier)
        told = belief.model.reliability(votes, belief=belief.probabilities)
        held.append((told.accuracy_low <= accuracy) & (accuracy <= told.accuracy_high))
        missed_by.append(told.accuracy - accuracy)
    assert np.mean(held) >= 0.9
    assert np.abs(np.mean(missed_by, axis=0)).max() < 0.04


@pytest.mark.parametrize("has_features", [True, False])
def test_a_label_that_is_named_once_gathers_no_rows_and_spoils_no_accuracy(has_features):
    votes, points, truth, accuracy = votes_with_confidences("too sure", 0)
    said = [votes.class_names[k] for k in votes.weights.argmax(axis=1)]
    said[17] = "typo"
    people = [votes.annotator_names[who] for who in votes.annotators]
    entries = zip(votes.rows.tolist(), people, said, [None] * len(said), strict=True)
    slipped = Votes.from_entries(
        entries, votes.n_rows, class_names=[*LABELS, "typo"], annotator_names=votes.annotator_names
    )
    # Not by class means: these give a label of one row as much room as any other.
    belief = infer_labels(slipped, points if has_features else None)
    assert (belief.probabilities.argmax(axis=1) == 3).sum() <= 1
    assert (belief.probabilities.argmax(axis=1) == truth).mean() > 0.8
    told = belief.model.reliability(slipped, belief=belief.probabilities)
    assert ((told.accuracy_low <= accuracy) & (accuracy <= told.accuracy_high)).all()


@pytest.mark.parametrize("kind", ["calibrated", "too sure"])
def test_several_misspellings_disturb_neither_confidences_nor_accuracies(kind):
    spelt = ["culture", "politics", "sport"]
    slips = {"sprot": 2, "spport": 2, "sporrt": 2, "plitics": 1, "poltiics": 1, "politiics": 1,
             "clture": 0, "cutlure": 0, "culturre": 0, "culure": 0}  # fmt: skip
    votes = votes_with_confidences(kind, 0)[0]
    table = pd.DataFrame({
        "row": votes.rows,
        "annotator": [votes.annotator_names[who] for who in votes.annotators],
        "label": [spelt[k] for k in votes.named.argmax(axis=1)],
        "confidence": (1.0 - 3.0 * votes.weights.min(axis=1)).clip(0.0, 1.0),
    })  # fmt: skip
    clean = resolve(table)
    for at, (slip, meant) in enumerate(slips.items()):
        table.loc[np.flatnonzero(table["label"] == spelt[meant])[9 * at], "label"] = slip
    found = resolve(table)
    np.testing.assert_allclose(found.reliability.accuracy, clean.reliability.accuracy, atol=0.01)
    surer = np.subtract(found.columns["probability"], clean.columns["probability"])
    assert np.abs(surer).mean() < 0.01
    meant = {slip: spelt[k] for slip, k in slips.items()}
    said = [meant.get(label, label) for label in found.columns["label"]]
    assert np.mean(np.array(said) == clean.columns["label"]) > 0.99
    assert any(note.startswith("each of 7 more labels looks like") for note in found.notes)


def test_what_nobody_spelt_right_in_a_row_is_written_as_it_stands():
    said = ["sport", "culture"] * 20
    frame = pd.DataFrame({"ann_1": [*said, "sprot", "sprot"], "ann_2": [*said, "sport", None]})
    assert resolve(frame).columns["label"][-2:] == ["sport", "sprot"]
    listed = resolve(frame, labels=["sport", "culture", "sprot"])  # who lists it means it
    assert not any("counts as that" in note for note in listed.notes)
    learned = resolve(frame, known={41: "sprot"})
    assert learned.columns["label"][-1] == "sprot"
    np.testing.assert_array_equal(learned.candidate_weights[-1] > 0, [False, False, True])


def frame_with_a_habit():
    """Three people; eve always writes `Reklamtion`, also where nobody else voted."""
    said = ["Reklamation", "Lob", "Frage"] * 20
    frame = pd.DataFrame({"anna": said, "ben": said, "eve": said})
    frame["eve"] = frame["eve"].replace("Reklamation", "Reklamtion")
    frame.loc[30:, ["anna", "ben"]] = [None, None]
    return frame


def test_what_one_annotator_always_misspells_is_heard_and_written_as_others_spell_it():
    frame = frame_with_a_habit()
    found = resolve(frame, annotators="*")
    assert found.columns["label"] == ["Reklamation", "Lob", "Frage"] * 20
    assert set(found.columns["agreement"]) == {1.0}
    assert found.votes.class_names == ["Frage", "Lob", "Reklamation"]
    assert found.candidate_weights[-3].argmax() == 2
    assert (
        "'Reklamtion' (row 0 and 19 more), which 'eve' alone writes, looks like a typing error for "
        "'Reklamation' (20 votes) and counts as that; correct it, or list all labels with --labels"
    ) in found.notes
    listed = resolve(frame, annotators="*", labels=["Frage", "Lob", "Reklamation", "Reklamtion"])
    assert "Reklamtion" in listed.votes.class_names  # who lists it means it
    known = resolve(frame, annotators="*", known={57: "Reklamtion"})
    assert known.columns["label"][57] == "Reklamtion"


@pytest.mark.parametrize(
    "change",
    [
        {"anna": (5, "Reklamtion")},  # two people write it
        {"eve": (slice(0, 30, 3), "Reklamation")},  # eve tells the two apart
        {"anna": (slice(0, 30, 3), "Lob"), "ben": (slice(0, 30, 3), "Frage")},  # others differ
    ],
)
def test_a_label_of_one_annotator_stays_one_where_it_may_mean_something_else(change):
    frame = frame_with_a_habit()
    for who, (rows, label) in change.items():
        frame.loc[frame.index[rows], who] = label
    assert "Reklamtion" in resolve(frame, annotators="*").votes.class_names


def test_doubt_is_spread_over_the_labels_that_are_left_of_a_habit():
    entries = [(row, who, label, 0.6) for row in range(8) for who, label in
               (("ann", "sport"), ("ben", "sport"), ("eve", "sprot"), ("ann2", "art"))]  # fmt: skip
    votes = Votes.from_entries(entries, 8)
    plain = Votes.from_entries(
        [(row, who, label.replace("sprot", "sport"), c) for row, who, label, c in entries], 8
    )
    heard = correct_habits(votes, ())
    assert heard.class_names == plain.class_names
    np.testing.assert_allclose(heard.weights, plain.weights)
    np.testing.assert_array_equal(heard.named, plain.named)


def test_confidences_are_heeded_as_far_as_other_votes_bear_them_out():
    for kind, is_heeded in (("calibrated", True), ("unsure", False)):
        votes = votes_with_confidences(kind, 0)[0]
        heard = calibrate_confidences(votes, None)
        assert (heard.doubt() > 0).any() == is_heeded
        np.testing.assert_array_equal(heard.candidates(), votes.candidates())


def test_what_confidences_mean_is_read_from_the_part_of_the_scale_that_is_in_use():
    gains, missed_by = [], []
    for seed in range(3):
        exact, _, truth, accuracy = votes_with_confidences("calibrated", seed)
        stated = 1.0 - 3.0 * exact.doubt()
        low = 0.3 + 0.5 * stated  # knows how sure he is, and says less
        weights = np.where(exact.named, low[:, None], 0.0) + (1.0 - low[:, None]) / 3.0
        belief, plain = (infer_labels(votes, None) for votes in (
            replace(exact, weights=weights), exact.first_choices()))  # fmt: skip
        gains.append(
            [(each.probabilities.argmax(axis=1) == truth).mean() for each in (belief, plain)]
        )
        told = belief.model.reliability(exact, belief=belief.probabilities)
        missed_by.append(told.accuracy - accuracy)
    assert np.abs(np.mean(missed_by, axis=0)).max() < 0.04
    assert np.subtract(*np.mean(gains, axis=0)) > 0.02


@pytest.mark.parametrize("n_rare", [1, 7, 20])
def test_a_rare_label_switches_no_confidences_off(n_rare):
    votes, _, truth, _ = votes_with_confidences("calibrated", 0)
    said = [LABELS[k] for k in votes.named.argmax(axis=1)]
    said[10 : 10 + 9 * n_rare : 9] = ["rare"] * n_rare
    people = [votes.annotator_names[who] for who in votes.annotators]
    sure = (1.0 - 3.0 * votes.weights.min(axis=1)).clip(0.0, 1.0).tolist()

    def right_with(sure):
        entries = zip(votes.rows.tolist(), people, said, sure, strict=True)
        slipped = Votes.from_entries(entries, votes.n_rows, class_names=[*LABELS, "rare"])
        return (infer_labels(slipped, None).probabilities.argmax(axis=1) == truth).mean()

    assert right_with(sure) > right_with([None] * len(sure)) + 0.005


def test_useless_features_leave_single_votes_as_they_are():
    table, truth, said = rows_with_single_votes(30.0, (0.65, 0.7, 0.7))
    found = resolve(table, fit=mean_classifier)
    assert right(found, truth) > np.mean(said == truth) - 0.03
    assert np.mean(found.columns["probability"]) < 0.85


def test_features_correct_single_votes_of_those_who_are_often_wrong():
    table, truth, said = rows_with_single_votes(1.5, (0.7, 0.6, 0.55))
    assert right(resolve(table), truth) > np.mean(said == truth) + 0.2


def test_rows_with_a_single_vote_have_a_temperature_of_their_own():
    # All rows are x for sure, say the features; a quarter of the votes of a good annotator deny it.
    entries = [(row, "a", "x" if row % 4 else "y", None) for row in range(400)]
    votes = Votes.from_entries(entries, 400)
    predicted = np.tile([0.999, 0.001], (400, 1))
    model = DawidSkene().fit(votes, prior=predicted)
    model.confusion_ = np.array([[[0.95, 0.05], [0.05, 0.95]]])
    sharp = vote_posterior(votes, model.confusion_, np.log(predicted))
    temperature = single_vote_temperature(votes, model.confusion_, predicted, sharp)
    calm = softmax(np.log(sharp) / temperature)
    assert temperature > 1.5
    assert (calm.argmax(axis=1) == sharp.argmax(axis=1)).all()
    assert sharp.max(axis=1).mean() > 0.99
    assert 0.7 < calm.max(axis=1).mean() < 0.85


def test_rows_without_text_are_near_each_other_and_no_other_row():
    generator = np.random.default_rng(0)
    points = generator.normal(size=(40, 30))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[:10] = 0.0
    nearest = nearest_voted_rows(points, np.ones(40, dtype=bool), 5)
    assert (nearest[:10] < 10).all()
    assert (nearest[10:] >= 10).all()


@pytest.mark.parametrize("accuracy", [0.6, 0.75, 0.9])
def test_halves_of_the_neighbours_tell_how_often_single_votes_are_right(accuracy):
    generator = np.random.default_rng(0)
    truth = generator.integers(5, size=600)
    wrong = (truth + generator.integers(1, 5, size=600)) % 5
    shares = np.eye(5)[np.where(generator.random(600) < accuracy, truth, wrong)]
    everybody = np.ones(600, dtype=bool)
    points = 8.0 * np.eye(5)[truth] + generator.normal(size=(600, 5))
    told = single_vote_accuracy(shares, nearest_voted_rows(points, everybody, 10), everybody, 0.7)
    assert abs(told - accuracy) < 0.06
    # Features that know nothing leave what is supposed.
    noise = nearest_voted_rows(generator.normal(size=(600, 5)), everybody, 10)
    assert abs(single_vote_accuracy(shares, noise, everybody, 0.7) - 0.7) < 0.1


@pytest.mark.parametrize("spread", [4.0, 8.0])
def test_single_votes_beside_weak_features_are_hardly_surer_than_right(spread):
    table, truth, _ = rows_with_single_votes(spread, (0.6, 0.65, 0.6))
    found = resolve(table)
    assert np.mean(found.columns["probability"]) - right(found, truth) < 0.05


def test_held_out_likelihoods_come_from_confusions_of_other_rows():
    generator = np.random.default_rng(1)
    truth = generator.integers(3, size=60)
    entries = [
        (row, f"a{who}", LABELS[k if generator.random() < 0.8 else (k + 1) % 3], None)
        for row, k in enumerate(truth)
        for who in range(3)
    ]
    votes = Votes.from_entries(entries, 60)
    model = DawidSkene().fit(votes)
    held = model.held_out_likelihoods(votes, 60, 0)  # each row is a fold of its own
    before = model.confusion_.copy()
    for row in (0, 17, 59):
        others = votes.rows != row
        counts = np.zeros((3, 3, 3))
        for number in np.flatnonzero(others):
            who, said = votes.annotators[number], votes.weights[number].argmax()
            counts[who, :, said] += model.probabilities_[votes.rows[number]]
        confusion = np.array(smoothed_confusions(counts.tolist(), 4.0))
        for number in np.flatnonzero(~others):
            said = votes.weights[number].argmax()
            np.testing.assert_allclose(held[number], confusion[votes.annotators[number], :, said])
    np.testing.assert_array_equal(model.confusion_, before)


def test_why_names_the_nearest_rows_by_their_ids():
    generator = np.random.default_rng(0)
    truth = np.repeat([0, 1], 20)
    points = 8.0 * truth[:, None] + generator.normal(size=(40, 2))
    frame = pd.DataFrame({
        "doc_id": [f"d{n:02}" for n in range(40)], "f1": points[:, 0], "f2": points[:, 1],
        "ann_1": [LABELS[k] for k in truth], "ann_2": [LABELS[k] for k in truth],
    })  # fmt: skip
    frame.loc[3, ["ann_1", "ann_2"]] = None
    found = resolve(frame, annotators="ann_*", features="f1,f2", fit=mean_classifier)
    named = [re.findall(r"(d\d\d) \((.)\)", why) for why in found.columns["why"]]
    for row, neighbours in enumerate(named):
        assert len(neighbours) == 3
        assert f"d{row:02}" not in dict(neighbours)
        assert "d03" not in dict(neighbours)  # nobody said what it is
    assert found.columns["why"][3].startswith("no vote; rows like it: x")
    without_id = resolve(frame.drop(columns="doc_id"), annotators="ann_*", fit=mean_classifier)
    assert re.search(r"nearest row \d+ \(x\), row \d+", without_id.columns["why"][0])
    by_word = frame.rename(columns={"doc_id": "ticket"})
    found = resolve(by_word, annotators="ann_*", features="f1,f2", fit=mean_classifier)
    assert re.search(r"nearest d\d\d \(x\), d\d\d", found.columns["why"][0])


def test_the_nearest_rows_are_those_of_a_plain_search():
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(30, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[7] = rows[8] = rows[9]  # twins: a row is still no neighbour of itself
    has_votes = generator.random(30) < 0.8
    found = nearest_voted_rows(rows, has_votes, 3)
    for row in range(30):
        others = [each for each in np.flatnonzero(has_votes) if each != row]
        closest = sorted(others, key=lambda each: -rows[row] @ rows[each])[:3]
        np.testing.assert_allclose(
            [rows[row] @ rows[each] for each in found[row]],
            [rows[row] @ rows[each] for each in closest],
        )
        assert row not in found[row]


def test_neighbours_are_heeded_only_where_votes_bear_them_out():
    generator = np.random.default_rng(3)
    truth = np.repeat([0, 1], 50)
    unsure = np.full((100, 2), 0.5)
    likelihood = np.log(np.where(np.eye(2, dtype=bool)[truth], 0.9, 0.1))
    alike = (np.arange(100)[:, None] // 50) * 50 + generator.integers(50, size=(100, 5))
    voted = np.ones(100, dtype=bool)
    heeded = weigh_by_neighbours(unsure, likelihood, alike, voted)
    assert (heeded.argmax(axis=1) == truth).all()
    unlike = generator.integers(100, size=(100, 5))
    np.testing.assert_allclose(
        weigh_by_neighbours(unsure, likelihood, unlike, voted), unsure, atol=0.2
    )


def small_model(folder):
    """Write a sentence-transformers model with drawn weights, which knows eight words."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "goal", "team", "bank", "price"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words))
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(words), intermediate_size=16, **size)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder  # its words are averaged where nothing else is said


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves
def test_a_model_on_the_disk_reads_text_and_nothing_is_downloaded(tmp_path, monkeypatch):
    path = small_model(tmp_path / "model")

    def no_network(*_):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    vectors = embed_texts(["goal team", "bank price", "goal team"], str(path))
    assert vectors.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(vectors[0], vectors[2], rtol=1e-5)
    with pytest.raises(ParameterError, match="run `hf download nobody/none` first"):
        embed_texts(["goal"], "nobody/none")


def test_embed_says_what_is_missing(monkeypatch):
    frame = pd.DataFrame({"ann_1": ["x", "y"], "ann_2": ["x", "x"], "n": [1, 2]})
    with pytest.raises(MissingColumnError, match="no column that looks like text to embed"):
        resolve(frame, embed="model")
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    frame["text"] = ["one two three four", "five six seven eight"]
    with pytest.raises(MissingExtraError, match=r"groupnoise\[text\]"):
        resolve(frame, embed="model")


def candidates_with_twins(chance):
    """What a model says that takes a label for its twin in three of ten rows, and candidates."""
    generator = np.random.default_rng(0)
    rows, truth = np.arange(2000), generator.integers(8, size=2000)
    twin = truth ^ 1  # beside the truth a candidate with this chance
    said = np.where(generator.random(2000) < 0.3, twin, truth)
    predicted = np.full((2000, 8), 0.005)
    predicted[rows, said ^ 1] = 0.05 + 0.05 * generator.random(2000)
    predicted[rows, said] = 0.97 - predicted[rows, said ^ 1]
    named = generator.random((2000, 8)) < 0.1
    named[rows, truth] = True
    named[rows, twin] |= generator.random(2000) < chance
    plain = np.where(named, predicted, 0.0)
    return plain / plain.sum(axis=1, keepdims=True), predicted, named, truth


def test_candidates_are_believed_less_where_wrong_answers_are_seen_and_the_label_stays():
    plain, predicted, named, truth = candidates_with_twins(0.5)
    believed = expect_hidden_errors(plain, predicted, named)
    np.testing.assert_array_equal(believed.argmax(axis=1), plain.argmax(axis=1))
    accuracy = (plain.argmax(axis=1) == truth).mean()
    too_sure, left = (abs(each.max(axis=1).mean() - accuracy) for each in (plain, believed))
    assert too_sure > 0.1 > left
    assert not believed[~named].any()


def test_the_more_candidates_features_foretell_the_more_errors_are_supposed_to_hide():
    plain, predicted, named, _ = candidates_with_twins(0.2)
    foretold = n_predictable_candidates(predicted, named, by_label=True)
    hidden = hidden_errors(predicted, plain, named)
    assert foretold > 1.1
    rows, best = np.arange(2000), predicted.argmax(axis=1)
    covered = named[rows, best]
    assert foretold * hidden < (~covered).sum()
    expected = (1.0 - expect_hidden_errors(plain, predicted, named)[rows, best])[covered].sum()
    assert expected == pytest.approx(foretold * hidden, rel=1e-6)


def test_however_many_errors_are_supposed_the_likeliest_candidate_stays():
    plain, predicted, named, _ = candidates_with_twins(0.9)
    nearly_all = np.where(named, 0.01, predicted)  # answers outside the candidates in most rows
    believed = expect_hidden_errors(plain, nearly_all, named)
    np.testing.assert_array_equal(believed.argmax(axis=1), plain.argmax(axis=1))


def test_all_rounds_answer_about_candidates_not_the_last_alone():
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 3
    points = 4.0 * np.eye(3)[truth] + generator.normal(size=(120, 3))
    named = np.eye(3)[truth] + np.eye(3)[(truth + generator.integers(1, 3, size=120)) % 3]
    rows, calls = np.arange(120), []
    votes = Votes(rows, np.zeros(120, dtype=np.int64), named / 2, 120, LABELS, ["c"])

    def fails_at_last(rows, named, weights):
        calls.append(len(rows))
        blind = np.zeros_like(rows) if len(calls) > 4 else rows
        return mean_classifier(blind, named, weights)

    belief = infer_labels(votes, points, is_candidates=True, n_folds=2, fit=fails_at_last)
    assert len(calls) == 6  # two folds in each of three rounds
    assert (belief.probabilities.argmax(axis=1) == truth).mean() > 0.9


def test_an_interrupted_resolve_goes_on_from_the_trainings_it_finished(tmp_path):
    table = rows_with_single_votes(0.5, (0.9, 0.6), n_rows=60)[0]
    trained, limit = [], 4

    def fit(rows, named, weights):
        if len(trained) == limit:
            raise KeyboardInterrupt
        trained.append(len(rows))
        return mean_classifier(rows, named, weights)

    shown = []
    options = {"n_folds": 3, "checkpoint": tmp_path / "kept", "on_progress": shown.append}
    with pytest.raises(KeyboardInterrupt):
        resolve(table, fit=fit, **options)
    assert len(list((tmp_path / "kept").iterdir())) == 4
    limit = 99
    found = resolve(table, fit=fit, **options)
    assert len(trained) == 6
    assert shown[-1] == {"stage": "training", "done": 6, "total": 6}
    assert found.columns == resolve(table, fit=mean_classifier, n_folds=3).columns
    assert not (tmp_path / "kept").exists()


def test_with_one_vote_a_row_features_find_who_always_says_one_thing():
    from sklearn.datasets import load_digits

    from groupnoise.votes.inference import infer_labels

    generator = np.random.default_rng(4)
    rows, truth = load_digits(n_class=3, return_X_y=True)
    rows, truth = rows[:240], truth[:240]
    rows = rows + generator.normal(scale=20, size=rows.shape)
    who = generator.integers(4, size=240)
    other = (truth + generator.integers(1, 3, size=240)) % 3
    said = np.where(generator.random(240) < 0.75, truth, other)
    said[who == 0] = 2
    entries = [(row, f"a{who[row]}", str(said[row]), None) for row in range(240)]
    votes = Votes.from_entries(entries, 240, class_names=["0", "1", "2"])
    belief = infer_labels(votes, rows)
    is_right = belief.probabilities.argmax(axis=1) == truth
    assert is_right.mean() > (said == truth).mean() - 0.05  # it was a third, all of one label
    assert abs(belief.probabilities.max(axis=1).mean() - is_right.mean()) < 0.1
