"""What was chosen on some bags is trained on all, weighed and calibrated by a held-out part."""

import numpy as np
import pytest
import torch

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search import member_training, out_of_fold
from groupnoise.bags.search.full_training import HELD_OUT, draw_held_out_bags, train_on_all
from groupnoise.bags.search.member_training import MemberBatch
from groupnoise.bags.search.members import BAG_QUANTIFIERS, BagProblem, MemberSettings, bag_presence
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import as_option
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import QUANTIFIERS, Segments, presence


def coloured(n_bags=120, *, n_classes=3, size=4, seed=0):
    """Bags of which one instance lies far out in the direction of their class."""
    generator = np.random.default_rng(seed)
    label = np.arange(n_bags) % n_classes
    rows = generator.normal(size=(n_bags, size, 4))
    rows[np.arange(n_bags), generator.integers(size, size=n_bags), label] += 5.0
    return Groups(rows.reshape(-1, 4), size * np.arange(n_bags + 1)), label


def test_a_plain_fit_weighs_by_bags_held_out_of_all_what_it_compared_on_few(monkeypatch):
    monkeypatch.setattr(out_of_fold, "MAX_SEARCH_ROWS", 60)
    bags, label = coloured()
    explicit = {"likelihood": "matching", "encoder": "identity"}
    model = MaxMatchingMILClassifier(random_state=0, **explicit).fit(bags, label)
    new, new_label = coloured(60, seed=1)
    assert np.mean(model.predict_bags(new) == new_label) > 0.9
    assert "15 of 120 bags" in model.decisions_.reasons[-1]
    assert "24 bags held out" in model.decisions_.reasons[-1]
    weights = [weight for weight, _ in model.decisions_.members]
    assert sum(weights) == pytest.approx(1.0)
    # Fifteen bags were compared: beside the mean over all of them decay counts an eighth.
    (taken,) = {parameters["weight_decay"] for _, parameters in model.decisions_.members}
    assert {each.settings.weight_decay for each in model.ensemble_.members} == {taken * 15 / 120}
    sure = model.bag_proba(new).max(axis=1).mean()
    assert abs(sure - np.mean(model.predict_bags(new) == new_label)) < 0.1
    again = MaxMatchingMILClassifier(ensemble=model.decisions_.members, random_state=0)
    np.testing.assert_allclose(
        again.fit(bags, label).bag_proba(new), model.bag_proba(new), atol=0.02
    )


def test_members_are_asked_of_bags_that_their_first_copy_has_not_seen():
    bags, label = coloured(60)
    labels = label[:, None] == np.arange(3)
    held = draw_held_out_bags(bags, labels, np.random.default_rng(0))
    assert len(held) * HELD_OUT == len(bags)
    settings = [
        MemberSettings(each, weight_decay=decay, max_epochs=20)
        for each, decay in (("matching", 0.01), ("noisy_or", 0.01), ("matching", 0.1))
    ]
    trained = train_on_all(settings, bags, labels, False, 0, held)
    assert [each.settings for each in trained.members] == settings
    np.testing.assert_array_equal(trained.bags.labels, labels[held])
    for one, each in enumerate(settings):
        (alone,) = train_on_all([each], bags, labels, False, 0, held).predictions
        np.testing.assert_allclose(alone.log_odds, trained.predictions[one].log_odds, atol=1e-4)
    # Labels of bags that were held out teach the first copy nothing.
    other = labels.copy()
    other[held] = np.roll(other[held], 1, axis=1)
    (fooled,) = train_on_all(settings[1:2], bags, other, False, 0, held).predictions
    torch.testing.assert_close(fooled.log_p, trained.predictions[1].log_p, rtol=1e-3, atol=1e-4)


def test_bags_of_one_patient_are_held_out_all_the_same():
    bags, label = coloured(30)
    labels = label[:, None] == np.arange(3)
    held = draw_held_out_bags(bags, labels, np.random.default_rng(0), np.zeros(30))
    assert 0 < len(held) < 30


def test_many_instances_are_looked_at_in_parts_and_few_at_once(monkeypatch):
    monkeypatch.setattr(member_training, "MIN_PART_ROWS", 50)
    monkeypatch.setattr(member_training, "MIN_PART_BAGS", 10)
    steps = []
    step = MemberBatch._loss

    def counted(self, progress):
        steps.append(len(self._on_device()[0]))
        return step(self, progress)

    monkeypatch.setattr(MemberBatch, "_loss", counted)
    for n_bags, n_parts in ((24, 1), (30, 2), (120, 4)):
        bags, label = coloured(n_bags)
        steps.clear()
        settings = [MemberSettings("noisy_or", max_epochs=5)]
        train_on_all(settings, bags, label[:, None] == np.arange(3), False, 0)
        assert len(steps) == 5 * n_parts
        assert max(steps) * n_parts <= bags.n_objects + 4 * n_parts


def test_a_first_look_on_some_folds_takes_half_of_the_steps(monkeypatch):
    bags, label = coloured(30)
    search = BagSearch(bags, label[:, None] == np.arange(3), False, np.random.default_rng(0))
    steps = []
    step = MemberBatch._loss
    monkeypatch.setattr(
        MemberBatch, "_loss", lambda self, progress: steps.append(1) or step(self, progress)
    )
    option = as_option(MemberSettings("noisy_or", max_epochs=11))
    search.out_of_fold(option, 2)
    assert len(steps) == 6
    search.out_of_fold(option, search.n_folds)
    assert len(steps) == 6 + 11


@pytest.mark.parametrize("likelihood", BAG_QUANTIFIERS)
def test_likelihoods_that_are_no_quantifier_answer_by_one(likelihood):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 1, 3, generator=generator)
    problem = BagProblem(Segments(torch.tensor([3, 4])), np.eye(2, 3, dtype=bool), False)
    log_p = logits.log_softmax(-1)
    assert likelihood not in QUANTIFIERS
    expected = presence(
        BAG_QUANTIFIERS[likelihood], log_p, torch.log1p(-log_p.exp()), problem.segments
    )
    found = bag_presence(logits, problem, MemberSettings(likelihood))
    torch.testing.assert_close(found.log_odds, expected.log_odds, rtol=1e-4, atol=1e-5)


def test_held_out_bags_choose_the_quantifier_that_a_member_answers_by(tmp_path):
    # Of forty instances one tells the label: a sum over all of them drowns it.
    generator = np.random.default_rng(0)
    label = np.arange(45) % 3
    rows = generator.normal(size=(45, 40, 4)) * [1.0, 1.0, 1.0, 0.1]
    rows[np.arange(45), 0, label] += 6.0
    bags = Groups(rows.reshape(-1, 4), 40 * np.arange(46))
    settings = {"likelihood": "matching", "encoder": "identity", "scaling": "standard"}
    model = MaxMatchingMILClassifier(random_state=0, **settings).fit(bags, label)
    assert {each.answer for each in model.ensemble_.members} <= {"odds", "max"}
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.bag_proba(bags), model.bag_proba(bags), atol=1e-6)
