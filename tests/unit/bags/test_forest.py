"""Forests of positive and negative bags: what they see, how they are judged, saved and refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sklearn.metrics import roc_auc_score
from sklearn.tree import DecisionTreeRegressor

from groupnoise import MaxMatchingMILClassifier, load_model
from groupnoise.bags.search import forests_and_kernels, member_search as searching
from groupnoise.bags.search.fitted_members import averaging_shift, train_batch
from groupnoise.bags.search.forests_and_kernels import ForestBatch
from groupnoise.bags.search.members import FORESTS, MemberSettings, make_problem
from groupnoise.bags.search.portfolio import bag_options, facts_of_bags
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import Scaler
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.core.trees import join_trees
from groupnoise.exceptions import ModelFileError, ParameterError
from groupnoise.training.checkpoints import Checkpoints

SETTINGS = MemberSettings("inherited", "standard", "trees", weight_decay=0.0)
FOREST = vars(SETTINGS)


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setattr(forests_and_kernels, "N_TREES", 24)
    monkeypatch.setattr(forests_and_kernels, "MIN_TREES", 12)


def machines(n_bags: int = 60, seed: int = 0):
    """Bags of ten rows of a code, a skewed number and noise; positive ones have a row or two of one
    code whose number is neither small nor large."""
    draw = np.random.default_rng(seed)
    code, number = draw.integers(6, size=10 * n_bags), draw.lognormal(0.0, 1.5, size=10 * n_bags)
    rows = np.stack([code, number, *draw.normal(size=(2, 10 * n_bags))], axis=1)
    truth = np.zeros(10 * n_bags, dtype=int)
    is_positive = np.arange(n_bags) % 2
    for bag in range(n_bags):
        own = np.arange(10 * bag, 10 * bag + 10)
        rows[own[(rows[own, 0] == 4)], 1] = 9.0
        if is_positive[bag]:
            chosen = own[: draw.integers(1, 3)]
            rows[chosen, :2] = np.stack(
                [np.full(len(chosen), 4.0), 1.0 + draw.random(len(chosen))], 1
            )
            truth[chosen] = 1
    return Groups(rows, np.arange(0, 10 * n_bags + 1, 10)), is_positive, truth


def grown(bags, is_positive, weights, *, settings=SETTINGS, seed=0):
    problem = make_problem(bags, (is_positive == 1)[:, None], True)
    rows = torch.from_numpy(Scaler("standard").fit(bags.objects)(bags.objects))
    generator = torch.Generator().manual_seed(seed)
    return ForestBatch(rows, problem, torch.as_tensor(weights), [settings], generator).train()


def test_a_copy_knows_nothing_of_bags_that_are_held_out():
    bags, is_positive, _ = machines()
    weights = np.ones((60, 2), dtype=np.float32)
    weights[:20, 0] = 0.0
    first = grown(bags, is_positive, weights)
    other = grown(bags, np.r_[1 - is_positive[:20], is_positive[20:]], weights)
    rows = first.rows
    assert torch.equal(first.logits(rows)[:, 0], other.logits(rows)[:, 0])
    assert not torch.equal(first.logits(rows)[:, 1], other.logits(rows)[:, 1])


@pytest.mark.parametrize("encoder", FORESTS)
def test_instances_of_new_bags_are_told_apart(encoder):
    bags, is_positive, _ = machines()
    new, _, truth = machines(seed=1)
    model = MaxMatchingMILClassifier(encoder=encoder, random_state=0).fit(bags, is_positive)
    assert model.decisions_.taken == ((f"inherited, {encoder}, standard", 1.0),)
    assert roc_auc_score(truth, model.predict_proba(new)[:, 1]) > 0.95


def test_thresholds_are_sought_or_drawn():
    bags, is_positive, _ = machines()
    drawn = MemberSettings("inherited", "standard", "random trees", weight_decay=0.0)
    found = [
        grown(bags, is_positive, np.ones((60, 1)), settings=each).encoder.threshold
        for each in (SETTINGS, SETTINGS, drawn)
    ]
    assert torch.equal(found[0], found[1])
    values = torch.from_numpy(Scaler("standard").fit(bags.objects)(bags.objects)[:, 1]).sort()[0]
    middles = set((0.5 * (values[1:].double() + values[:-1].double())).float().tolist())
    shares = [np.mean([each in middles for each in found[n].tolist()]) for n in (0, 2)]
    assert shares[0] > 2 * shares[1]


def test_the_model_answers_by_trees_of_all_copies():
    bags, is_positive, _ = machines(20)
    batch = grown(bags, is_positive, np.ones((20, 3)))
    model, rows = batch.model(0), batch.rows
    with torch.no_grad():
        logits = model.logits(model.encode_objects(rows), torch.arange(2))
    said = batch.encoder.answers(rows).view(len(rows), 3, 12, 2)[:, :, :8].mean((1, 2))
    np.testing.assert_allclose(logits.softmax(-1), said, atol=1e-3)
    copies = batch.logits(rows)
    together = batch.encoder(rows)
    np.testing.assert_allclose(
        batch.averaged(copies)[:, 0, 0], together[:, 0] - together[:, 1], atol=1e-4
    )
    assert abs(averaging_shift(batch, 0, "average")) < 0.5


def test_long_data_are_thinned_in_memory_and_from_disk(monkeypatch, tmp_path):
    bags, is_positive, _ = machines(30)
    monkeypatch.setattr(forests_and_kernels, "MAX_KEPT", 120)
    file = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=bags.objects.shape)
    file[:] = bags.objects
    labels = (is_positive == 1)[:, None]
    found = []
    for each in (bags, StreamedGroups(file, bags.offsets)):
        batch, scaler = train_batch([SETTINGS], each, labels, True, 0)
        assert isinstance(batch, ForestBatch)
        assert batch._kept[1].sizes.tolist() == [4] * 30
        assert batch.trained_logits[0].shape == (120, 1, 1)
        found.append(batch.logits(torch.from_numpy(scaler(bags.objects))))
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


def test_a_forest_is_saved_and_answers_the_same(tmp_path):
    bags, is_positive, _ = machines(40)
    model = MaxMatchingMILClassifier(
        ensemble=[(0.5, FOREST), (0.5, {"likelihood": "noisy_or"})], random_state=0
    ).fit(bags, is_positive)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(loaded.bag_proba(bags), model.bag_proba(bags))
    again = MaxMatchingMILClassifier(
        ensemble=[(0.5, FOREST), (0.5, {"likelihood": "noisy_or"})], random_state=0
    ).fit(bags, is_positive)
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_nodes_that_lead_nowhere_are_refused(tmp_path):
    bags, is_positive, _ = machines(40)
    MaxMatchingMILClassifier(encoder="trees", random_state=0).fit(bags, is_positive).save(
        tmp_path / "model"
    )
    (path,) = (tmp_path / "model").glob("*.safetensors")
    arrays = load_file(path)
    (key,) = (each for each in arrays if each.endswith("object_encoder.following"))
    arrays[key] = arrays[key] + 10**6
    save_file(arrays, path)
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "model")


def test_trees_that_are_finished_are_not_grown_again(tmp_path, monkeypatch):
    bags, is_positive, _ = machines(40)
    model = MaxMatchingMILClassifier(encoder="trees", random_state=0)
    saved = Checkpoints(tmp_path / "saved")
    first = model.fit(bags, is_positive, checkpoint=saved).predict_proba(bags)

    def fail(*_, **__):
        raise AssertionError("grown again")

    monkeypatch.setattr(forests_and_kernels, "grow_tree", fail)
    resumed = MaxMatchingMILClassifier(encoder="trees", random_state=0).fit(
        bags, is_positive, checkpoint=Checkpoints(tmp_path / "saved", resume=True)
    )
    np.testing.assert_array_equal(resumed.predict_proba(bags), first)


def forests_among(bags, labels, negative, **asked):
    named = labels if negative is None else np.delete(labels, negative, axis=1)
    problem = make_problem(bags, named, negative is not None)
    options = bag_options(problem, facts_of_bags(bags, labels, negative), **asked)
    return [each.name for each in options if each.parameters["encoder"] in FORESTS]


def test_forests_are_tried_on_tables_of_positive_and_negative_bags_alone():
    bags, is_positive, _ = machines(20)
    labels = is_positive[:, None] == np.arange(2)
    assert forests_among(bags, labels, 0) == [
        "inherited, trees, standard",
        "inherited, random trees, standard",
    ]
    assert forests_among(bags, labels, None) == []
    wide = Groups(np.zeros((200, 301)), bags.offsets)
    assert forests_among(wide, labels, 0) == []
    assert len(forests_among(wide, labels, 0, encoder="trees")) == 2


@pytest.mark.parametrize(("share", "asked", "is_tried"), [
    (0.03, None, False), (0.03, "trees", True), (0.6, None, True),
])  # fmt: skip
def test_forests_are_not_tried_on_words_unless_asked_for(share, asked, is_tried):
    draw = np.random.default_rng(0)
    words = draw.random((400, 120)) * (draw.random((400, 120)) < share)
    bags, labels = Groups(words, np.arange(0, 401, 10)), np.eye(2, dtype=bool)[np.arange(40) % 2]
    facts = facts_of_bags(bags, labels, "no")
    options = bag_options(make_problem(bags, labels[:, 1:], True), facts, encoder=asked)
    assert any(each.parameters["encoder"] in FORESTS for each in options) == is_tried


def test_a_search_tells_of_forests(monkeypatch):
    bags, is_positive, truth = machines(40)
    monkeypatch.setattr(searching, "statistics_options", lambda explicit: [])
    small = [
        each
        for each in bag_options(
            make_problem(bags, (is_positive == 1)[:, None], True),
            facts_of_bags(bags, is_positive[:, None] == np.arange(2), 0),
        )
        if each.parameters["encoder"] == "trees"
        or each.name == "noisy_or, identity, power, decay 1"
    ]
    monkeypatch.setattr("groupnoise.bags.search.decide.bag_options", lambda *_, **__: small)
    model = MaxMatchingMILClassifier(random_state=0).fit(bags, is_positive)
    tried = {trial.option for trial in model.decisions_.trials}
    assert {each for each in tried if not each.startswith("pseudo_labels")} == {
        e.name for e in small
    }
    assert dict(model.decisions_.taken)["inherited, trees, standard"] > 0.5
    again = MaxMatchingMILClassifier(ensemble=model.decisions_.members, random_state=0)
    proba = again.fit(bags, is_positive).predict_proba(bags)
    np.testing.assert_allclose(proba, model.predict_proba(bags), atol=1e-6)
    assert roc_auc_score(truth, proba[:, 1]) > 0.95


@pytest.mark.parametrize("given", [{"encoder": "trees"}, {"ensemble": [(1.0, FOREST)]}])
def test_forests_of_several_labels_are_refused(given):
    bags, _, _ = machines(20)
    with pytest.raises(ParameterError, match="encoder 'trees' is for positive and negative bags"):
        MaxMatchingMILClassifier(**given).fit(bags, np.arange(20) % 3)


def test_forests_have_one_likelihood():
    bags, is_positive, _ = machines(20)
    with pytest.raises(ParameterError, match="leave one of the two out"):
        MaxMatchingMILClassifier(encoder="trees", likelihood="max").fit(bags, is_positive)


def test_some_trees_of_a_forest_answer_as_they_did():
    draw = np.random.default_rng(0)
    rows, shares = draw.normal(size=(200, 3)).astype(np.float32), draw.random((200, 2))
    trees = [
        DecisionTreeRegressor(max_depth=depth, random_state=0).fit(rows, shares)
        for depth in (1, 4, None)
    ]
    trees.append(DecisionTreeRegressor().fit(rows[:1], shares[:1]))  # a leaf that asks nothing
    encoder, inputs = join_trees(trees, 3), torch.from_numpy(rows)
    expected = np.stack([each.predict(rows) for each in trees], axis=1)
    np.testing.assert_allclose(encoder.answers(inputs), expected, atol=1e-6)
    for numbers in ([1], [3], [2, 0, 3]):
        part = encoder.some(torch.tensor(numbers))
        assert torch.equal(part.answers(inputs), encoder.answers(inputs)[:, numbers])
    assert part.sizes()["n_trees"] == 3
    assert part.sizes()["n_leaves"] < encoder.sizes()["n_leaves"]


def test_trees_grown_again_answer_of_bags_by_the_quantifier_that_held_out_bags_chose():
    generator = np.random.default_rng(3)
    y = np.arange(40) % 2
    bags = [generator.normal(size=(8, 3)) + 3.0 * y[bag] * np.eye(8, 1) for bag in range(40)]
    truth = [None] * 320
    truth[8] = 1  # known instances: members are trained again, on bags that they teach too
    given = [(1.0, {"likelihood": "inherited", "encoder": "trees"})]
    model = MaxMatchingMILClassifier(ensemble=given, random_state=0).fit(bags, y, truth=truth)
    (member,) = model.ensemble_.members
    assert member.answer is not None
    assert 0.3 < model.bag_proba(bags)[:, 1].mean() < 0.7  # calibrated for another, all were sure
    assert (model.predict_bags(bags) == y).mean() > 0.8
