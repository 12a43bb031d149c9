"""Instances are judged within their bags, background is told, and bags have all their labels."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from tests import reference

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags.object_predictions import predict_objects, threshold_notes, top_objects
from groupnoise.bags.search.bag_probability import (
    cap_at_bag_probability,
    doubt_after,
    log_bag_proba,
)
from groupnoise.bags.search.ensemble import MAX_BAG_SHARE
from groupnoise.cli import main
from groupnoise.core.class_metrics import calibration_metrics, label_set_metrics
from groupnoise.io.datasets import BagDataset
from groupnoise.io.setting import setting_of

NAMES = ["a", "b", "c"]
ONE = [(1.0, {"likelihood": "noisy_or", "background": True, "weight_decay": 0.01})]


def several_labels(n_bags, seed):
    """Bags of one or two kinds of instances and three times as many of no kind."""
    generator = np.random.default_rng(seed)
    labels = np.zeros((n_bags, 3), dtype=bool)
    rows, truth = [], []
    for bag in range(n_bags):
        kinds = generator.choice(3, size=1 + bag % 2, replace=False)
        labels[bag, kinds] = True
        truth += [*kinds, *[-1] * 3 * len(kinds)]
        own = 3.0 * np.eye(4)[truth[-4 * len(kinds) :]]
        rows.append(own + 0.6 * generator.normal(size=own.shape))
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    return BagDataset(
        "several", Groups(np.concatenate(rows), offsets), labels, NAMES, np.array(truth)
    )


@pytest.fixture(scope="module")
def data():
    return several_labels(40, 1)


@pytest.fixture(scope="module")
def model():
    learned = several_labels(80, 0)
    return setting_of(learned).fit(MaxMatchingMILClassifier(ensemble=ONE, random_state=0), learned)


def test_an_object_of_no_class_is_background_and_every_answer_says_so(model, data):
    proba = model.predict_proba(data.bags, background=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(proba[:, -1], model.background_proba(data.bags))
    told = model.predict(data.bags, background="background")
    names = np.array([*NAMES, "background"])
    assert (told == names[data.instance_labels]).mean() > 0.95
    assert set(model.predict(data.bags)) == set(NAMES)
    answers = setting_of(data).answer(model, data).columns
    assert answers["label"] == told.tolist()
    np.testing.assert_allclose(answers["probability"], proba.max(axis=1))
    np.testing.assert_allclose(answers["background"], proba[:, -1])
    objects = predict_objects(model, data)
    assert [label for bag in range(40) for label in objects.labels(bag)] == told.tolist()
    chosen = top_objects(objects, data)
    for row, label, found in zip(
        chosen["row"], chosen["label"], chosen["probability"], strict=True
    ):
        assert row < 8
        assert 0.0 <= found <= 1.0
        assert label in NAMES
    evaluate_member = setting_of(data).evaluate(model, data)
    figures = evaluate_member.metrics
    right = np.mean(told == names[data.instance_labels])
    assert figures["instance accuracy with background"] == pytest.approx(right)
    assert figures["instance background AUROC"] > 0.95
    found = told[data.instance_labels < 0] == "background"
    assert figures["instance background recall"] == pytest.approx(found.mean())
    assert f"{found.sum()} of them are called background" in " ".join(evaluate_member.notes)


def test_a_model_without_background_is_told_what_that_loses(data):
    learned = several_labels(80, 0)
    loop = MaxMatchingMILClassifier(background=False, max_epochs=3, random_state=0)
    evaluate_member = setting_of(data).evaluate(setting_of(learned).fit(loop, learned), data)
    known = data.instance_labels >= 0
    with_all = evaluate_member.metrics["instance accuracy"] * known.mean()
    assert evaluate_member.metrics["instance accuracy with background"] == pytest.approx(with_all)
    assert evaluate_member.metrics["instance background recall"] == 0.0
    assert "instance background AUROC" not in evaluate_member.metrics
    assert "the model has no background" in " ".join(evaluate_member.notes)


def test_labels_a_bag_seems_to_lack_are_less_likely_in_its_instances(model, data):
    alone = model.predict_proba(data.bags.objects, background=True).astype(np.float64)
    present, share = model.bag_proba(data.bags), model.ensemble_.bag_share
    assert 0.25 * MAX_BAG_SHARE < share <= MAX_BAG_SHARE
    for bag in (0, 1, 17):
        part = slice(data.bags.offsets[bag], data.bags.offsets[bag + 1])
        expected = reference.within_bag(alone[part].tolist(), present[bag].tolist(), share)
        found = model.predict_proba([data.bags[bag]], background=True)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_no_instance_is_likelier_of_a_label_than_its_bag():
    generator = np.random.default_rng(0)
    sizes = np.array([3, 1, 4])
    proba, of_bags = generator.random((8, 2)), generator.random((3, 2)) * 0.6
    found = cap_at_bag_probability(proba, of_bags, sizes)
    for bag, part in enumerate((slice(0, 3), slice(3, 4), slice(4, 8))):
        for label in range(2):
            own, capped, most = proba[part, label], found[part, label], of_bags[bag, label]
            assert capped.max() <= most + 1e-12 or own.max() <= most
            np.testing.assert_array_equal(np.argsort(own), np.argsort(capped))
            if own.max() <= most:
                np.testing.assert_allclose(capped, own)
            else:
                assert capped.max() == pytest.approx(most)
                low = own <= 0.9 * most
                np.testing.assert_array_equal(capped[low], own[low])


def test_rare_positive_instances_are_told_by_probabilities_that_agree_with_their_bags():
    """One witness among a dozen: most instances called positive used to be likelier than the bag"""
    generator = np.random.default_rng(3)
    labels = (np.arange(150) % 2).astype(bool)
    bags = generator.normal(size=(150, 12, 4))
    bags[labels, 0, 0] += 2.5
    truth = np.zeros((150, 12), dtype=bool)
    truth[labels, 0] = True
    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0)
    model.fit(bags[:100], labels[:100].astype(int))
    held_out, positive = bags[100:], truth[100:].ravel()
    proba, of_bags = model.predict_proba(held_out), model.bag_proba(held_out)
    assert (proba[:, 1].reshape(-1, 12).max(axis=1) <= of_bags[:, 1] + 1e-6).all()
    figures, of_rates = calibration_metrics(np.stack([~positive, positive], 1), proba)
    assert figures["log loss"] < 0.75 * of_rates["log loss"]
    assert figures["calibration error"] < 0.06
    # Positive ones are rare, so that an instance is called so before that is likelier than not.
    threshold = model.ensemble_.threshold
    assert 0.05 < threshold < 0.5
    np.testing.assert_array_equal(model.predict(held_out) == 1, proba[:, 1] > threshold)
    called = model.predict(held_out).astype(bool)
    first, *_ = threshold_notes(model, Groups.from_array(held_out), called.astype(int))
    assert first.startswith(f"an instance is called 1 from a probability of {threshold:.2g}:")
    assert "balanced accuracy" in first
    assert called[positive].mean() > 0.7
    assert (~called)[~positive].mean() > 0.85


def test_rows_with_their_bags_are_answered_in_their_own_order(model, data):
    order = np.random.default_rng(0).permutation(data.bags.n_objects)
    rows, of_bag = data.bags.objects[order], data.bags.group_of_object[order]
    expected = model.predict_proba(data.bags)[order]
    np.testing.assert_allclose(model.predict_proba(rows, groups=of_bag), expected, atol=1e-6)
    listed = [data.bags[bag] for bag in range(len(data.bags))]
    np.testing.assert_array_equal(model.predict(listed), model.predict(data.bags))


def test_an_instance_of_a_negative_bag_needs_more_to_be_positive():
    generator = np.random.default_rng(0)
    labels = np.arange(60) % 2
    bags = generator.normal(size=(60, 12, 3))
    bags[labels == 1, 0, 0] += 3.0
    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0).fit(bags, labels)
    alone = model.predict_proba(bags.reshape(-1, 3))[:, 1]
    within = model.predict_proba(bags)[:, 1]
    lacks = np.repeat(model.predict_bags(bags) == 0, 12)
    assert (within[lacks] < alone[lacks]).all()
    below = ~lacks & (alone < 0.9 * np.repeat(model.bag_proba(bags)[:, 1], 12))
    assert below.sum() > 0.8 * (~lacks).sum()
    np.testing.assert_allclose(within[below], alone[below], atol=1e-5)
    called = model.predict(bags) == 1
    by_themselves = model.predict(bags.reshape(-1, 3)) == 1
    assert called[lacks].sum() < by_themselves[lacks].sum()


def test_bags_that_are_told_by_chance_say_nothing_of_their_instances():
    generator = np.random.default_rng(0)
    bags, labels = generator.normal(size=(60, 6, 3)), np.arange(60) % 2
    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.1})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0).fit(bags, labels)
    assert model.ensemble_.bag_share < 0.05
    alone = model.predict_proba(bags.reshape(-1, 3))
    np.testing.assert_allclose(model.predict_proba(bags), alone, atol=0.02)


def test_a_bag_has_all_labels_that_are_likelier_in_it_than_not(model, data):
    found = model.predict_bags(data.bags)
    proba = model.bag_proba(data.bags)
    assert found.shape == (40, 3)
    assert (found[proba > 0.5]).all()
    assert found.any(axis=1).all()
    assert (found == data.labels).mean() > 0.95
    figures = setting_of(data).evaluate(model, data)
    assert figures.metrics["bag exact match"] == pytest.approx(
        (found == data.labels).all(axis=1).mean()
    )
    own = data.labels[:, 0]
    assert figures.per_class["a"]["bag recall"] == pytest.approx(found[own, 0].mean())
    assert 0.0 < model.score(list(map(np.asarray, [data.bags[0]])), [["a", "b", "c"]]) <= 1.0


def test_few_answers_are_wrong_where_background_is_left_unanswered(model, data):
    unanswered = model.abstain(data.bags.objects)
    is_background = data.instance_labels < 0
    assert unanswered[is_background].mean() > 0.9
    assert unanswered[~is_background].mean() < 0.2
    assert not (model.abstain(data.bags.objects, risk=0.5) & ~unanswered).any()


def test_figures_of_label_sets_are_those_of_a_plain_count():
    generator = np.random.default_rng(0)
    labels, predicted = generator.random((2, 30, 4)) < 0.4
    figures, by_class = label_set_metrics(labels, predicted)
    sets = [[set(np.flatnonzero(row)) for row in each] for each in (labels, predicted)]
    expected = reference.label_set_figures(*sets)
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert by_class["recall"][2] == pytest.approx(predicted[labels[:, 2], 2].mean())


def test_a_command_lists_all_labels_of_a_bag(model, data, tmp_path, monkeypatch):
    model.save(tmp_path / "model")
    with (tmp_path / "new.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["bag", *(f"f{column}" for column in range(4))])
        for bag, row in zip(data.bags.group_of_object, data.bags.objects, strict=True):
            writer.writerow([f"s{bag:02}", *row])
    new, table = tmp_path / "new.csv", tmp_path / "bags.csv"
    words = ["predict", tmp_path / "model", new, "-o", table, "--setting", "mil", "--bags"]
    monkeypatch.setattr("sys.argv", ["groupnoise", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    present = model.predict_bags(data.bags)
    assert [row["labels"] for row in rows] == [";".join(np.array(NAMES)[each]) for each in present]
    told = [[float(row[f"probability_{name}"]) for name in NAMES] for row in rows]
    np.testing.assert_allclose(told, model.bag_proba(data.bags), atol=1e-4)


@pytest.mark.filterwarnings("ignore:held-out bags")
def test_few_bags_that_are_all_told_rightly_make_no_bag_certain(tmp_path):
    generator = np.random.default_rng(0)
    y = np.arange(22) % 2
    bags = [generator.normal(size=(6, 4)) + 5.0 * y[bag] * np.eye(6, 1) for bag in range(22)]
    given = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=given, random_state=0).fit(bags, y)
    proba = model.bag_proba(bags)
    np.testing.assert_array_equal(model.predict_bags(bags), y)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert 0.9 < proba.max() <= 1.0 - 1.0 / 24.0  # one in as many as were held out, and two
    sizes = [6] * 22
    within = model.predict_proba(Groups(np.concatenate(bags), np.arange(0, 133, 6)))
    assert (within[:, 1] <= proba[:, 1].repeat(sizes) + 1e-6).all()
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.bag_proba(bags), proba)
    again.calibrate([*bags, *bags], [*y, *y], only_if_better=False)  # further bags make it surer
    assert proba.max() < again.bag_proba(bags).max() <= 1.0 - 1.0 / 68.0


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("has_negative", [True, False])
def test_doubt_keeps_the_likeliest_label_and_can_be_undone(model, exclusive, has_negative):
    log_odds = np.random.default_rng(1).normal(scale=6.0, size=(20, 3))
    kind = (exclusive, has_negative)
    sure, doubted = (log_bag_proba(log_odds, *kind, doubt)[0] for doubt in (0.0, 0.2))
    chance = 0.5 if not exclusive else 1 / 4 if has_negative else 1 / 3
    np.testing.assert_allclose(np.exp(doubted), 0.8 * np.exp(sure) + 0.2 * chance)
    np.testing.assert_array_equal(doubted.argmax(axis=1), sure.argmax(axis=1))
    ensemble = replace(model.ensemble_, exclusive=exclusive, has_negative=has_negative, doubt=0.2)
    found = ensemble.log_odds_of_proba(np.exp(ensemble.log_proba_of_bags(log_odds)))
    again = ensemble.log_proba_of_bags(found)
    np.testing.assert_allclose(again, ensemble.log_proba_of_bags(log_odds), atol=1e-9)


def test_doubt_after_bags_in_two_parts_is_that_of_all():
    assert doubt_after(18) == pytest.approx(0.1)
    assert doubt_after(30, doubt_after(18)) == pytest.approx(doubt_after(48))
