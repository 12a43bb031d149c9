"""Every estimator that trains with torch does so on the device it was given, and leaves it."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from fake_device import NAME, LeftBehind, OnDevice, fake_device
from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    NoisyLabelClassifier,
    load_model,
)
from groupnoise.bags.baselines import (
    AttentionMILClassifier,
    GICFClassifier,
    IMILClassifier,
    MiNetClassifier,
)
from groupnoise.candidates.baselines import CCClassifier, LWSClassifier, PRODENClassifier
from groupnoise.clicks.baselines import (
    AttRecRecommender,
    CaserRecommender,
    ComiRecRecommender,
    LRURecRecommender,
    NeuralCFRecommender,
    SASRecRecommender,
)
from groupnoise.core.device import available_devices, find_device
from groupnoise.exceptions import ParameterError

generator = np.random.default_rng(0)
BAGS = [generator.normal(size=(int(size), 4)) for size in generator.integers(2, 6, size=24)]
LABELS = np.arange(24) % 2
for bag, label in zip(BAGS, LABELS, strict=True):
    bag[0, 0] += 4 * label
ROWS = generator.normal(size=(40, 4)) + 3 * (np.arange(40) % 2)[:, None]
SETS = [{int(row % 2), 2} if row % 3 == 0 else {int(row % 2)} for row in range(40)]

QUICK = {"max_epochs": 2, "random_state": 0}
ESTIMATORS = {
    "bags: the loop": (MaxMatchingMILClassifier.fixed(**QUICK), BAGS, LABELS),
    "bags: the paper": (MaxMatchingMILClassifier.paper(**QUICK), BAGS, LABELS),
    "bags: a perceptron": (
        MaxMatchingMILClassifier.fixed(
            encoder="mlp", hidden=8, dim=4, background=True, absent_strength=1.0,
            class_weight="balanced", **QUICK,
        ),
        BAGS,
        LABELS,
    ),
    "bags: members": (
        MaxMatchingMILClassifier(
            ensemble=[
                (1.0, {"likelihood": "noisy_or", "max_epochs": 2}),
                (1.0, {"likelihood": "max", "encoder": "mlp", "hidden": 4, "max_epochs": 2}),
            ],
            random_state=0,
        ),
        BAGS,
        LABELS,
    ),
    "candidates": (MaxMatchingPartialLabelClassifier.fixed(**QUICK), ROWS, SETS),
    "candidates: the paper": (MaxMatchingPartialLabelClassifier.paper(**QUICK), ROWS, SETS),
    "attention": (AttentionMILClassifier(**QUICK), BAGS, LABELS),
    "gicf": (GICFClassifier(**QUICK), BAGS, LABELS),
    "imil": (IMILClassifier(**QUICK), BAGS, LABELS),
    "mi-net": (MiNetClassifier(**QUICK), BAGS, LABELS),
    "cc": (CCClassifier(**QUICK), ROWS, SETS),
    "lws": (LWSClassifier(**QUICK), ROWS, SETS),
    "proden": (PRODENClassifier(**QUICK), ROWS, SETS),
    "noisy labels": (NoisyLabelClassifier(**QUICK), ROWS, np.arange(40) % 2),
    "mipl": (MaxMatchingMIPLClassifier(**QUICK), BAGS, [{int(label), 2} for label in LABELS]),
}  # fmt: skip


HISTORIES = [[int(user % 2) * 5 + int(step) for step in generator.integers(5, size=6)]
             for user in range(30)]  # fmt: skip
RECOMMENDERS = {
    "caser": CaserRecommender(dim=4, **QUICK),
    "attrec": AttRecRecommender(dim=4, **QUICK),
    "neural cf": NeuralCFRecommender(dim=4, **QUICK),
    "sasrec": SASRecRecommender(dim=4, **QUICK),
    "lrurec": LRURecRecommender(dim=4, **QUICK),
    "comirec": ComiRecRecommender(dim=4, n_negatives=4, **QUICK),
    "sasrec, sampled": SASRecRecommender(dim=4, n_negatives=4, **QUICK),
}


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_a_recommender_on_a_device_leaves_no_tensor_behind(name, monkeypatch):
    plain = clone(RECOMMENDERS[name]).set_params(device="cpu").fit(HISTORIES)
    with fake_device(monkeypatch) as calls:
        placed = clone(RECOMMENDERS[name]).set_params(device=NAME).fit(HISTORIES)
    assert any("backward" in call or "mm" in call for call in calls), "nothing ran on the device"
    assert not any(isinstance(each, OnDevice) for each in placed.network_.parameters())
    pairs = zip(plain.network_.parameters(), placed.network_.parameters(), strict=True)
    for expected, found in pairs:
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("encoder", [False, True])
@pytest.mark.parametrize("n_negatives", [None, 3])
def test_added_evidence_trains_on_a_device(monkeypatch, encoder, n_negatives):
    from groupnoise import Groups
    from groupnoise.clicks.evidence.model import EvidenceModel
    from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
    from groupnoise.clicks.evidence.steps import EvidencePlan
    from groupnoise.clicks.evidence.training import train_evidence
    from groupnoise.core.device import training_on

    histories = Groups.from_lists(HISTORIES)
    plan = EvidencePlan(max_epochs=2, batch_size=32, n_negatives=n_negatives)

    def trained(device):
        vectors = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
        reader = None
        if encoder:
            draw = torch.Generator().manual_seed(0)
            reader = RecurrentEncoder(4, 8, 1, 6, dropout=plan.dropout, generator=draw)
        model = EvidenceModel(
            vectors, np.zeros(10, np.float32), history_length=6, shared=False, encoder=reader
        )
        with training_on(device):
            train_evidence(model, histories, plan, np.random.default_rng(0))
        return model.evidence()

    plain = trained("cpu")
    with fake_device(monkeypatch) as calls:
        placed = trained(NAME)
    assert any("backward" in call or "mm" in call for call in calls), "nothing ran on the device"
    np.testing.assert_allclose(placed.targets, plain.targets, rtol=1e-3, atol=1e-5)


def answers(model, X):
    bags = isinstance(X, list)
    if bags and hasattr(model, "bag_scores"):
        return model.bag_scores(X)
    return model.predict_proba(np.vstack(X) if bags and hasattr(model, "predict_bags") else X)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_training_on_a_device_leaves_no_tensor_behind(name, monkeypatch):
    model, X, y = ESTIMATORS[name]
    plain = clone(model).set_params(device="cpu").fit(X, y)
    with fake_device(monkeypatch) as calls:
        placed = clone(model).set_params(device=NAME).fit(X, y)
    assert any("backward" in call or "mm" in call for call in calls), "nothing ran on the device"
    held = [value for value in vars(placed).values() if isinstance(value, torch.nn.Module)]
    assert held
    assert not any(isinstance(each, OnDevice) for part in held for each in part.parameters())
    np.testing.assert_allclose(answers(placed, X), answers(plain, X), rtol=1e-4, atol=1e-5)


def test_files_do_not_tell_where_a_model_was_trained(monkeypatch, tmp_path):
    model, X, y = ESTIMATORS["bags: the loop"]
    with fake_device(monkeypatch):
        clone(model).set_params(device=NAME).fit(X, y).save(tmp_path / "model")
    assert NAME not in (tmp_path / "model/manifest.json").read_text()
    assert load_model(tmp_path / "model").device == "auto"


def test_a_tensor_left_behind_is_noticed(monkeypatch):
    with fake_device(monkeypatch), pytest.raises(LeftBehind, match="left behind"):
        torch.ones(3).to(NAME) + torch.ones(3)


def test_a_device_that_is_not_there_is_refused_with_those_that_are():
    assert available_devices()[0] == "cpu"
    assert find_device("cpu") == torch.device("cpu")
    with pytest.raises(ParameterError, match=r"device='cuda:77' is not on this machine, .*cpu"):
        MaxMatchingMILClassifier.fixed(device="cuda:77").fit(BAGS, LABELS)
    with pytest.raises(ParameterError, match=r"got 'gpu'. This machine has cpu"):
        CCClassifier(device="gpu").fit(ROWS, SETS)
    with pytest.raises(ParameterError, match="got 3"):
        find_device(3)


def test_auto_takes_a_cuda_device_and_workers_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("auto") == torch.device("cuda:0")
    assert find_device("cuda:1") == torch.device("cuda:1")
    assert find_device("auto", n_workers=2) == torch.device("cpu")
    with pytest.raises(ParameterError, match="workers share a training on the CPU"):
        find_device("cuda", n_workers=2)
