"""Members that see a bag as a whole: closed forms agree with refits, and answers survive a file."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search.forests_and_kernels import StatisticsKernel, bag_statistics
from groupnoise.bags.search.held_out_bags import HeldOutBags, averaged_instances
from groupnoise.bags.search.member_search import _still_promising
from groupnoise.bags.search.member_weights import WeightRule
from groupnoise.bags.search.members import BagProblem, MemberSettings
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import statistics_options
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import Segments


def spread_bags(n_bags=40, seed=0):
    """Bags of which positive ones are spread wider, so that no single instance tells."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 2
    rows = generator.normal(size=(n_bags, 8, 3)) * np.where(labels, 1.6, 1.0)[:, None, None]
    return rows, labels


def test_statistics_are_those_of_each_bag():
    rows = np.random.default_rng(0).normal(size=(7, 2))
    found = bag_statistics(rows, np.array([0, 3, 4, 7]))
    for bag, (start, end) in enumerate(((0, 3), (3, 4), (4, 7))):
        part = rows[start:end]
        expected = np.concatenate([part.mean(0), part.std(0), part.min(0), part.max(0)])
        np.testing.assert_allclose(found[bag], expected, atol=1e-7)


def test_what_is_said_of_a_fold_is_what_a_model_without_it_says():
    rows, labels = spread_bags(20)
    offsets = 8 * np.arange(21)
    present = np.stack([labels == 1, labels == 0], axis=1)
    kernel = StatisticsKernel(rows.reshape(-1, 3), offsets, 0.5)
    folds = np.arange(20) % 3
    found = kernel.held_out(present, folds, 0.1)
    gram = (kernel.vectors * kernel.values) @ kernel.vectors.T
    for fold in range(3):
        seen, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        # Ridge regression with a free constant, written out as one linear system.
        system = np.block(
            [
                [gram[np.ix_(seen, seen)] + 0.1 * np.eye(len(seen)), np.ones((len(seen), 1))],
                [np.ones((1, len(seen))), np.zeros((1, 1))],
            ]
        )
        targets = np.vstack([2.0 * present[seen] - 1.0, np.zeros((1, 2))])
        solution = np.linalg.solve(system, targets)
        expected = gram[np.ix_(held, seen)] @ solution[:-1] + solution[-1]
        np.testing.assert_allclose(found[held], expected, atol=1e-8)
    model = kernel.fit(present, 0.1)
    said = model(rows.reshape(-1, 3), offsets)
    ridge = kernel._solver(0.1) @ (2.0 * present - 1.0)
    np.testing.assert_allclose(said, (2.0 * present - 1.0) - 0.1 * ridge, atol=1e-6)


@pytest.mark.parametrize(("most", "n_support"), [(40, 40), (39, 11)])
def test_a_model_of_whole_bags_learns_from_all_bags_unless_they_are_too_many(
    monkeypatch, most, n_support
):
    monkeypatch.setattr("groupnoise.bags.search.out_of_fold.MAX_SEARCH_ROWS", 90)
    monkeypatch.setattr("groupnoise.bags.search.out_of_fold.MAX_SUPPORT", most)
    rows, labels = spread_bags()
    bags = Groups(rows.reshape(-1, 3), 8 * np.arange(41))
    present = np.stack([labels == 0, labels == 1, np.arange(40) % 3 == 0], axis=1)
    search = BagSearch(bags, present, False, np.random.default_rng(0))
    assert len(search.bags) == 11
    whole = search.fit_whole_bag_member(statistics_options({})[0], 1.0)
    assert len(whole.model.support) == n_support
    assert whole.log_odds(bags.objects, bags.sizes).shape == (40, 3)


@pytest.mark.slow
def test_whole_bags_tell_several_labels_apart_where_no_instance_does():
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    rows = generator.normal(size=(90, 8, 3)) * np.array([0.5, 1.0, 2.0])[labels][:, None, None]
    names = np.array(["calm", "brisk", "wild"])
    model = MaxMatchingMILClassifier(random_state=0).fit(rows[:60], names[labels[:60]])
    assert "statistics" in [each["likelihood"] for _, each in model.decisions_.members]
    assert np.mean(model.predict_bags(rows[60:]) == names[labels[60:]]) > 0.8


@pytest.mark.slow
def test_bags_that_no_single_instance_tells_apart_are_told_by_their_spread(tmp_path):
    rows, labels = spread_bags()
    new, new_labels = spread_bags(seed=1)
    model = MaxMatchingMILClassifier(random_state=0).fit(rows, labels)
    taken = [parameters["likelihood"] for _, parameters in model.decisions_.members]
    assert "statistics" in taken
    assert set(taken) != {"statistics"}
    assert np.mean(model.predict_bags(new) == new_labels) > 0.8
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.bag_proba(new), model.bag_proba(new), atol=1e-6)
    np.testing.assert_allclose(again.predict_proba(new[0]), model.predict_proba(new[0]), atol=1e-6)
    repeated = MaxMatchingMILClassifier(ensemble=model.decisions_.members, random_state=0)
    repeated.fit(rows, labels)
    np.testing.assert_allclose(repeated.bag_proba(new), model.bag_proba(new), atol=0.01)


@pytest.mark.parametrize("explicit", [{"likelihood": "noisy_or"}, {"encoder": "identity"}])
def test_who_says_what_instances_do_gets_no_model_of_whole_bags(explicit):
    rows, labels = spread_bags(24)
    rows[labels == 1, 0, 0] += 6.0
    model = MaxMatchingMILClassifier(random_state=0, **explicit).fit(rows, labels)
    for _, parameters in model.decisions_.members:
        assert {name: parameters[name] for name in explicit} == explicit


@pytest.mark.parametrize(
    ("of_members", "of_whole", "least", "most"),
    [(2.0, 0.0, 0.0, 0.12), (0.0, 2.0, 0.6, 0.95), (0.0, 0.0, 0.1, 0.5), (1.0, 1.0, 0.2, 0.7)],
)
def test_models_of_whole_bags_count_by_what_they_tell_of_held_out_bags(
    of_members, of_whole, least, most
):
    generator = np.random.default_rng(0)
    labels = (np.arange(120) % 2 == 1)[:, None]
    bags = HeldOutBags(BagProblem(Segments(torch.ones(120, dtype=int)), labels, True), True)
    said = (
        strength * (2.0 * labels - 1.0) + generator.normal(size=labels.shape)
        for strength in (of_members, of_whole)
    )
    assert least <= bags.whole_bag_weight(*said) <= most


@pytest.mark.parametrize("n_named", [1, 2])
def test_members_that_say_the_same_reach_together_what_each_reaches(n_named):
    generator = torch.Generator().manual_seed(0)
    labels = np.arange(60)[:, None] % 3 == np.arange(n_named)
    problem = BagProblem(Segments(torch.full((60,), 2)), labels, True)
    bags = HeldOutBags(problem, True)
    own = torch.from_numpy(labels).float().repeat_interleave(2, dim=0)
    logits = 2.0 * own + torch.randn(own.shape, generator=generator)
    if n_named > 1:
        logits = torch.cat([logits, torch.zeros(120, 1)], dim=1)
    said = bags.evaluate_member(logits, {"max": own[::2] - 0.5}, MemberSettings())
    together = bags.evaluate_average([(said, 0.25), (said, 0.75)])
    np.testing.assert_allclose(together, said.scores, atol=0.02)


@pytest.mark.parametrize(("n_named", "place"), [(1, slice(0, 5)), (2, slice(195, 200))])
def test_of_two_kinds_of_instances_no_member_alone_calls_one_negative(n_named, place):
    generator = torch.Generator().manual_seed(0)
    labels = np.arange(20)[:, None] % (n_named + 1) == np.arange(n_named)
    bags = HeldOutBags(BagProblem(Segments(torch.full((20,), 10)), labels, True), True)
    taken = []
    for strange in (-30.0, 4.0):  # of an instance that only the second member knows
        logits = torch.randn(200, n_named, generator=generator)
        logits[0] = strange
        if n_named > 1:
            logits = torch.cat([logits, torch.zeros(200, 1)], dim=1)
        odds = {"max": torch.zeros(20, n_named)}
        taken.append((bags.evaluate_member(logits, odds, MemberSettings()), 0.5))
    averaged, _ = averaged_instances(taken, bags.problem)
    order = (averaged[:, -1] - averaged[:, 0]).argsort()
    assert 0 in order[place].tolist()


def test_evidence_becomes_weights_by_its_standard_error():
    best, other = np.zeros(100), np.full(100, -0.06)
    sure, noisy = WeightRule(3.0, 0.02, 9), WeightRule(3.0, 0.02, 9, by_error=True)
    assert sure.weight(best, other) == pytest.approx(np.exp(-2.0))
    assert noisy.weight(best, other) == pytest.approx(np.exp(-2.0))
    doubtful = other + np.tile([-2.0, 2.0], 50)
    assert sure.weight(best, doubtful) == pytest.approx(np.exp(-2.0))
    assert 0.7 < noisy.weight(best, doubtful) < 0.8


@pytest.mark.parametrize(("behind", "kept"), [(0.1, 2), (3.0, 1)])
def test_a_family_that_is_clearly_behind_on_the_first_folds_is_given_up(behind, kept):
    scores = np.random.default_rng(0).normal(size=40)
    said = {"best": scores, "other": scores - behind + 0.1 * (np.arange(40) % 2)}
    search = SimpleNamespace(
        bags=range(100), out_of_fold=lambda option, n_folds: SimpleNamespace(scores=said[option])
    )
    assert _still_promising(search, ["best", "other"], 2) == ["best", "other"][:kept]
