"""Members trained together are the members trained alone, and copies become their mean."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search import members
from groupnoise.bags.search.fitted_members import average_copies, averaging_shift
from groupnoise.bags.search.member_training import MemberBatch, principal_directions
from groupnoise.bags.search.members import BagProblem, MemberSettings, bag_presence
from groupnoise.bags.search.out_of_fold import BagSearch
from groupnoise.bags.search.portfolio import as_option
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import Segments
from groupnoise.core.scaling import Scaler
from groupnoise.exceptions import ParameterError

SIZES = [3, 2, 4, 1, 3, 2]


def batch_of(settings, *, n_copies=2, width=5, n_named=1):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(sum(SIZES), width, generator=generator)
    labels = np.arange(len(SIZES))[:, None] % (n_named + 1) == np.arange(n_named)
    problem = BagProblem(Segments(torch.tensor(SIZES)), labels, True)
    weights = torch.rand(len(SIZES), n_copies, generator=generator)
    weights[0, 0] = 0.0
    draw = torch.Generator().manual_seed(1)
    return MemberBatch(rows, problem, weights / weights.sum(0), settings, draw).train(), rows


@pytest.mark.parametrize("encoder", ["identity", "mlp"])
def test_members_trained_together_are_those_trained_alone(encoder):
    common = {"encoder": encoder, "hidden": 4, "dropout": 0.3, "max_epochs": 12}
    settings = [
        MemberSettings("max", weight_decay=0.1, **common),
        MemberSettings("mixture", weight_decay=0.1, **common),
        MemberSettings("mixture", weight_decay=0.01, **common),
    ]
    together, rows = batch_of(settings)
    for number, each in enumerate(settings):
        alone, _ = batch_of([each])
        torch.testing.assert_close(
            together.logits(rows)[:, together.columns(number)], alone.logits(rows)
        )
        torch.testing.assert_close(together.mixture[:, together.columns(number)], alone.mixture)


@pytest.mark.parametrize("n_named", [1, 2])
@pytest.mark.parametrize("encoder", ["identity", "mlp"])
def test_the_model_of_a_member_is_the_mean_of_its_copies(encoder, n_named):
    settings = [MemberSettings("noisy_or", encoder=encoder, hidden=4, max_epochs=8)]
    batch, rows = batch_of(settings, n_named=n_named)
    model = batch.model(0)
    with torch.no_grad():
        found = model.logits(model.encode_objects(rows), torch.arange(model.n_targets))
        mean = batch.logits(rows).mean(1)
    if n_named == 1:
        mean = torch.cat([mean, torch.zeros_like(mean)], dim=1)
    torch.testing.assert_close(found, mean, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n_copies", [1, 3])
@pytest.mark.parametrize("encoder", ["identity", "mlp"])
def test_a_mean_of_copies_finds_bags_as_positive_as_the_copies_do_on_average(encoder, n_copies):
    settings = [
        MemberSettings(each, encoder=encoder, hidden=4, max_epochs=20)
        for each in ("max", "mixture")
    ]
    batch, rows = batch_of(settings, n_copies=n_copies)
    for number in range(2):
        member = average_copies(batch, number, Scaler("none").fit(rows.numpy()))
        found = member.log_odds(member.logits(rows.numpy()), batch.problem).mean().item()
        expected = []
        for copy in range(batch.columns(number).start, batch.columns(number).stop):
            logits = batch.logits(rows)[:, copy : copy + 1]
            shares = batch.mixture[:, copy : copy + 1]
            each = bag_presence(logits, batch.problem, settings[number], shares)
            expected.append(each.log_odds.mean().item())
        assert found == pytest.approx(np.mean(expected), abs=1e-4)
    lost = [averaging_shift(batch, number) for number in range(2)]
    assert lost == [0.0, 0.0] if n_copies == 1 else min(lost) > 0.0


def test_wide_rows_are_seen_through_their_principal_directions(monkeypatch):
    monkeypatch.setattr("groupnoise.bags.search.member_training.MAX_WIDTH", 3)
    batch, rows = batch_of([MemberSettings("max", encoder="mlp", hidden=4, max_epochs=5)])
    assert batch.rows.shape[1] == 3
    model = batch.model(0)
    with torch.no_grad():
        found = model.logits(model.encode_objects(rows), torch.arange(2))[:, :1]
        torch.testing.assert_close(found, batch.logits(batch.rows).mean(1), atol=1e-5, rtol=1e-4)
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(30, 2, generator=generator) @ torch.randn(2, 6, generator=generator)
    directions = principal_directions(flat, 2, generator)
    assert (flat @ directions).square().mean().item() == pytest.approx(1.0, abs=1e-4)
    unit = torch.linalg.qr(directions).Q
    torch.testing.assert_close(flat @ unit @ unit.t(), flat, atol=1e-4, rtol=1e-4)


def test_a_mixture_of_several_labels_is_refused():
    bags, labels = np.random.default_rng(0).normal(size=(12, 3, 2)), ["a", "b", "c"] * 4
    with pytest.raises(ParameterError, match="positive and negative bags"):
        MaxMatchingMILClassifier(likelihood="mixture").fit(bags, labels)


def test_held_out_bags_may_prefer_the_best_instance_to_the_chances_of_all(monkeypatch):
    generator = np.random.default_rng(0)
    y = np.arange(80) % 2
    rows = generator.normal(size=(80, 40, 30))
    rows[y == 1, 0, :6] += 2.0
    bags = Groups(rows.reshape(-1, 30), 40 * np.arange(81))
    option = as_option(MemberSettings("noisy_or", weight_decay=1.0, max_epochs=60))

    def found():
        search = BagSearch(bags, (y == 1)[:, None], True, np.random.default_rng(0))
        return search.out_of_fold(option, search.n_folds)

    either = found()
    assert either.answer in members.NOISY_OR_ALTERNATIVES
    monkeypatch.setattr(members, "NOISY_OR_ALTERNATIVES", ())
    summed = found()
    assert summed.answer == "noisy_or"
    assert either.scores.mean() > summed.scores.mean() + 0.05
    told, less_told = (roc_auc_score(y, each.log_odds[:, 0]) for each in (either, summed))
    assert told > less_told + 0.02
