"""Audits of data whose noise is known: found, out of sample, whatever the blocks."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from groupnoise import (
    Groups,
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
    find_group_issues,
)
from groupnoise.audit import cleaned_copy, find as _find
from groupnoise.audit.page import audit_page
from groupnoise.bags import load_digit_bags
from groupnoise.bags.audit import (
    BagSource,
    HeldOutOdds,
    add_unlabelled_column,
    label_gains,
    suspicion_scores,
)
from groupnoise.candidates import load_digit_candidates
from groupnoise.candidates.label_issues import PartialLabelSource
from groupnoise.clicks import make_shop
from groupnoise.exceptions import DataError, ParameterError, UnknownTargetError
from groupnoise.io.datasets import BagDataset, subset_rows


@pytest.fixture(scope="module")
def bags():
    return load_digit_bags(160, part="train", random_state=0)


@pytest.fixture(scope="module")
def bag_model(bags):
    model = MaxMatchingMILClassifier(
        background=True, absent_strength=1.0, max_epochs=15, random_state=0
    )
    return model.fit(bags.bags, bags.labels.argmax(axis=1))


@pytest.fixture(scope="module")
def rows():
    return load_digit_candidates(part="validation", random_state=0)


@pytest.fixture(scope="module")
def row_model(rows):
    names = [[str(label) for label in np.flatnonzero(each)] for each in rows.candidates]
    model = MaxMatchingPartialLabelClassifier.fixed(max_epochs=5, random_state=0)
    return model.fit(rows.features, names)


@pytest.fixture(scope="module")
def shop():
    return make_shop(400, 60, random_state=0)


@pytest.fixture(scope="module")
def shop_model(shop):
    model = MaxMatchingRecommender(
        normalization="click", dim=24, max_epochs=6, candidates="full", random_state=0
    )
    return model.fit(shop.histories, item_ids=shop.item_ids)


def test_bags_tell_foreign_instances_from_witnesses(bag_model, bags):
    issues = find_group_issues(bag_model, bags)
    is_foreign = bags.instance_labels < 0
    assert roc_auc_score(is_foreign, issues.objects["noise"]) > 0.95
    assert len(issues) == 160
    chosen = issues.objects["times_chosen"] == 1
    assert chosen.sum() == 160
    assert (issues.groups["object"] == np.flatnonzero(chosen)).all()


def test_a_bag_with_a_wrong_label_is_doubted_and_the_right_one_suggested(bag_model, bags):
    label = bags.labels.argmax(axis=1)
    wrong = label.copy()
    wrong[:20] = (label[:20] + 1) % 6
    planted = replace(bags, labels=wrong[:, None] == np.arange(6))
    issues = find_group_issues(bag_model, planted)
    is_wrong = np.arange(160) < 20
    assert roc_auc_score(is_wrong, issues.groups["doubt"]) > 0.95
    assert roc_auc_score(is_wrong, issues.groups["suspicion"]) > 0.95
    assert (issues.groups["suggested"][:20] == label[:20]).mean() > 0.7


def test_a_bag_with_two_labels_gives_two_groups_and_one_without_asks_what_is_missing(
    bag_model, bags
):
    labels = bags.labels.copy()
    labels[0] = [True, True, False, False, False, False]
    labels[1] = False
    issues = find_group_issues(bag_model, replace(bags, labels=labels))
    assert issues.groups["source"][:4].tolist() == [0, 0, 1, 2]
    assert issues.groups["target"][:3].tolist() == [0, 1, -1]
    assert issues.groups["suggested"][2] == bags.labels[1].argmax()
    assert issues.named(issues.groups)["target"][2] == ""
    assert len(issues.objects["noise"]) == bags.bags.n_objects
    unlabelled = issues.objects["source"] == 1
    assert (issues.objects["noise"][unlabelled] == 1).all()


def test_candidates_tell_wrong_labels_and_rows_without_the_true_one(row_model, rows):
    candidates = rows.candidates.copy()
    is_missing = np.arange(len(candidates)) < 30
    candidates[np.flatnonzero(is_missing), rows.truth[is_missing]] = False
    planted = replace(rows, candidates=candidates)
    issues = find_group_issues(row_model, planted)
    row, label = np.nonzero(candidates)
    assert roc_auc_score(rows.truth[row] != label, issues.objects["noise"]) > 0.9
    assert roc_auc_score(is_missing, issues.groups["doubt"]) > 0.9
    assert (issues.groups["object"] == label[issues.objects["times_chosen"] == 1]).all()


def test_names_in_another_order_than_the_classes_of_the_data_change_nothing(row_model, rows):
    issues = find_group_issues(row_model, rows)
    turned = replace(rows, candidates=rows.candidates[:, ::-1], class_names=rows.class_names[::-1])
    mirrored = find_group_issues(row_model, turned)
    assert mirrored.groups["object"].tolist() == (9 - issues.groups["object"]).tolist()
    assert mirrored.groups["probability"] == pytest.approx(issues.groups["probability"], abs=1e-5)


def test_clicks_tell_stray_ones(shop_model, shop):
    issues = find_group_issues(shop_model, shop)
    assert roc_auc_score(shop.is_stray, issues.objects["noise"]) > 0.9
    assert len(issues) == (shop.histories.sizes - 1).sum()
    assert issues.groups["size"].max() == shop_model.group_size
    assert issues.objects["times_chosen"].sum() == len(issues)


def test_blocks_of_any_size_give_the_same_tables(shop_model, shop, monkeypatch):
    whole = find_group_issues(shop_model, shop)
    records = []
    monkeypatch.setattr(_find, "BLOCK_OBJECTS", 500)
    blocks = find_group_issues(shop_model, shop, on_progress=records.append)
    assert len(records) > 10
    assert records[-1] == {"stage": "judging", "done": 400, "total": 400}
    for table in ("groups", "objects"):
        for name, values in whole.table(table).items():
            assert blocks.table(table)[name] == pytest.approx(values, abs=1e-5), name


def test_folds_judge_every_group_once_by_models_that_never_saw_it(rows):
    """A memorising model would find no fault with random candidates; a cross-fitted one does."""
    generator = np.random.default_rng(0)
    senseless = generator.random((120, 10)) < 0.2
    senseless[np.arange(120), generator.integers(10, size=120)] = True
    data = replace(rows, features=generator.normal(size=(120, 64)), candidates=senseless)
    model = MaxMatchingPartialLabelClassifier.fixed(max_epochs=40, dropout=0.0, random_state=0)
    memorised = find_group_issues(model.fit(data.features, data.candidates), data)
    records = []
    fair = find_group_issues(model, data, n_folds=3, random_state=0, on_progress=records.append)
    assert memorised.groups["doubt"].mean() < 0.2
    assert fair.groups["doubt"].mean() > 0.5
    assert [r["done"] for r in records if r["stage"] == "fitting"] == [1, 2, 3]


def test_folds_read_numbers_written_as_text_like_any_other_names():
    answers = np.repeat(np.arange(12), 10)
    features = np.eye(12)[answers]
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="linear", max_epochs=30, random_state=0)
    by_number, by_text = (
        find_group_issues(model, features, labels, n_folds=2, random_state=0)
        for labels in (answers, answers.astype(str))
    )
    assert by_number.groups["doubt"].max() < 0.5
    assert by_text.groups["doubt"].max() < 0.5


def test_arrays_are_taken_as_select_takes_them(bag_model, bags, row_model, rows, shop_model, shop):
    by_set = find_group_issues(bag_model, bags)
    by_arrays = find_group_issues(bag_model, list(bags.bags), bags.labels.argmax(axis=1))
    assert by_arrays.groups["object"].tolist() == by_set.groups["object"].tolist()
    found = find_group_issues(row_model, rows.features, rows.candidates)
    assert len(found) == len(rows.features)
    histories = [history.tolist() for history in shop.histories][:50]
    assert len(find_group_issues(shop_model, histories)) == sum(len(h) - 1 for h in histories)


def test_what_cannot_be_audited_is_refused_in_one_sentence(bag_model, bags, rows, shop_model, shop):
    with pytest.raises(DataError, match="is for mil data, but pll data was given"):
        find_group_issues(bag_model, rows)
    with pytest.raises(DataError, match="pass targets"):
        find_group_issues(bag_model, list(bags.bags))
    with pytest.raises(DataError, match="Max-Matching estimator"):
        find_group_issues(object(), bags)
    with pytest.raises(DataError, match="chooses pairs of an instance and a label"):
        find_group_issues(MaxMatchingMIPLClassifier(), bags)
    with pytest.raises(ParameterError, match=r"161 folds are too many for 160 bags; .*--folds"):
        find_group_issues(bag_model, bags, n_folds=161)
    with pytest.raises(ParameterError, match="n_folds must be a whole number of at least 2"):
        find_group_issues(bag_model, bags, n_folds=1)
    foreign = replace(shop, item_ids=shop.item_ids + 1)
    with pytest.raises(UnknownTargetError, match="the model lacks 1 item of the data"):
        find_group_issues(shop_model, foreign)


def test_a_label_is_suspected_where_held_out_bags_without_it_speak_no_louder_against_it():
    # Positive bags are rare and seldom sure; the last column stands for no label at all.
    of_positive = np.array([-1.5, -0.5, 0.2, 1.0, -4.0])
    of_negative = np.linspace(-5.0, -2.0, 31)
    positive = np.concatenate([of_positive, of_negative])
    odds = np.stack([positive, -positive, np.full(36, -20.0)], axis=1)
    labels = np.repeat([[True, False, False], [False, True, False]], [5, 31], axis=0)
    held = HeldOutOdds(odds, labels)
    found = suspicion_scores(odds, labels, held)
    assert (found[labels] > 0.5).nonzero()[0].tolist() == [4]  # as negative as most negative ones
    # Trained on these bags a model is surer of their labels; that much is taken off.
    louder = np.where(labels, odds + 2.0, odds - 2.0)
    np.testing.assert_allclose(suspicion_scores(louder, labels, held)[labels], found[labels])
    # A model that tells little suspects nobody.
    dull = HeldOutOdds(0.1 * odds, labels)
    assert suspicion_scores(dull.odds, labels, dull)[labels].max() < 0.5


def test_labels_that_bags_lack_are_found_and_bags_of_background_are_left():
    generator = np.random.default_rng(0)
    centres = np.array([[4.0, 0.0], [-4.0, 2.0], [0.0, 0.0]])
    kinds = np.full((80, 3), 2)
    kinds[:50, 0] = np.arange(50) % 2
    rows = centres[kinds] + 0.4 * generator.normal(size=(80, 3, 2))
    labels = kinds[:, :1] == np.arange(2)
    labels[:4] = False  # they have an instance of a class all the same
    data = BagDataset("some", Groups.from_array(rows), labels, ["fox", "owl"])
    model = MaxMatchingMILClassifier(
        background=True, absent_strength=1.0, max_epochs=40, random_state=0
    )
    issues = find_group_issues(model, data, n_folds=2, random_state=0)
    wrong = issues.ranked("wrong_target")
    listed = issues.groups["source"][wrong][issues.groups["target"][wrong] < 0]
    assert len(listed) >= 3
    assert set(listed.tolist()) <= {0, 1, 2, 3}
    assert issues.groups["suggested"][:4].tolist() == [0, 1, 0, 1]
    assert (issues.groups["doubt"][issues.groups["target"] < 0] == 0).all()
    assert len(cleaned_copy(data, issues).bags) == 80 - len(
        np.unique(issues.groups["source"][wrong])
    )


@pytest.mark.parametrize("shift", [0.0, 5.0])
def test_a_judge_that_tells_bags_by_chance_is_said_to_and_another_is_not(shift):
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(3, 2)) for _ in range(60)]
    for bag in features[::2]:
        bag[0] += shift
    model = MaxMatchingMILClassifier(
        background=True, absent_strength=1.0, max_epochs=8, random_state=0
    )
    data = BagDataset(
        "made", Groups.from_lists(features), np.tile(np.eye(2, dtype=bool), (30, 1)), ["a", "b"]
    )
    issues = find_group_issues(model, data, n_folds=2, random_state=0)
    told = any("no better than by the frequencies" in each for each in issues.warnings)
    assert told == (shift == 0.0)
    assert ("no better than chance" in audit_page(issues, data)) == (shift == 0.0)


def test_copies_of_a_row_are_judged_by_a_model_that_saw_none_of_them():
    rows = load_digit_candidates(part="validation", random_state=0)
    source = PartialLabelSource(subset_rows(rows, np.repeat(np.arange(60), 2)))
    fold = _find._folds(source.strata, 3, 0, source.clusters)
    assert (fold[::2] == fold[1::2]).all()
    assert PartialLabelSource(rows).clusters is None


def test_folds_of_bags_share_the_search_of_the_first_one():
    source = BagSource(load_digit_bags(100, n_classes=2, random_state=0))
    model = MaxMatchingMILClassifier(
        encoder="identity", scaling="standard", likelihood="noisy_or", weight_decay=0.01,
        background=True, random_state=0,
    )  # fmt: skip
    first, second = (source.fit(model, rows) for rows in np.split(np.arange(100), 2))
    assert first.decisions_.trials
    assert not second.decisions_.trials
    assert first.decisions_.members == second.decisions_.members


def test_a_single_bag_that_a_judge_gets_utterly_wrong_makes_it_no_judge_by_chance():
    labels = add_unlabelled_column(np.tile(np.eye(2, dtype=bool), (30, 1)))
    odds = np.where(labels, 200.0, -200.0)
    odds[0, :2] *= -1.0
    gain = label_gains(odds, labels)
    assert gain.mean() > gain.std() / np.sqrt(len(gain))
    assert label_gains(np.zeros(odds.shape), labels) == pytest.approx(0.0, abs=1e-12)


def test_an_audit_repeats_what_the_fit_of_its_judge_warned_of(row_model, rows):
    decisions = replace(row_model.decisions_, warnings=("candidates are told by chance.",))
    judge = copy(row_model)
    judge.decisions_ = decisions
    issues = find_group_issues(judge, rows)
    assert issues.warnings == ("candidates are told by chance.",)
    assert "candidates are told by chance." in audit_page(issues, rows)
    assert not find_group_issues(row_model, rows).warnings
