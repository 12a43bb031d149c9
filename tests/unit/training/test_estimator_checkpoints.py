"""Estimators with checkpoints: members, names and parameters, and failed trainings."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from groupnoise import MaxMatchingPartialLabelClassifier, MaxMatchingRecommender
from groupnoise.exceptions import CheckpointError, TrainingError, TrainingStopped
from groupnoise.training import Checkpoints

ROWS = np.repeat(np.eye(3), 8, axis=0)
CANDIDATES = [{"a", "b"}, {"a", "c"}] * 4 + [{"b"}, {"b", "c"}] * 4 + [{"c", "a"}, {"c"}] * 4
HISTORIES = [["tea", "milk", "jam", "bread"], ["nail", "hammer", "saw", "nail"]] * 10


def classifier(**parameters):
    settings = {"hidden": (6,), "dim": 4, "max_epochs": 4, "batch_size": 8, "random_state": 0}
    return MaxMatchingPartialLabelClassifier.fixed(**(settings | parameters))


def interrupted(model, folder, *arguments):
    """Train until a step of the second member, or of the only one, and stop there."""
    checkpoint = Checkpoints(folder, every_steps=1)
    n_members = getattr(model, "n_members", 1)
    n_members = 1 if n_members == "auto" else n_members
    n_epochs = []

    def stop_in_time(record):
        n_epochs.append(record["epoch"])
        if len(n_epochs) == (n_members - 1) * model.max_epochs + 2:
            checkpoint.stop()

    model.set_params(on_epoch=stop_in_time)
    with pytest.raises(TrainingStopped):
        model.fit(*arguments, checkpoint=checkpoint)
    model.set_params(on_epoch=None)


@pytest.mark.parametrize("n_members", [1, 3])
def test_finished_members_are_kept_and_the_rest_goes_on(tmp_path, n_members):
    whole = classifier(n_members=n_members).fit(ROWS, CANDIDATES)
    model = classifier(n_members=n_members)
    interrupted(model, tmp_path, ROWS, CANDIDATES)
    trained = []
    model.set_params(on_epoch=trained.append)
    model.fit(ROWS, CANDIDATES, checkpoint=Checkpoints(tmp_path, resume=True))
    assert len(trained) == 2  # of four epochs, and of no other member
    assert model.history_.column("loss") == whole.history_.column("loss")
    for left, right in zip(model._models(), whole._models(), strict=True):
        for name, tensor in right.state_dict().items():
            assert torch.equal(left.state_dict()[name], tensor)
    np.testing.assert_array_equal(model.predict_proba(ROWS), whole.predict_proba(ROWS))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_members_is_refused(tmp_path, before, after):
    interrupted(classifier(n_members=before), tmp_path, ROWS, CANDIDATES)
    with pytest.raises(CheckpointError, match="n_members"):
        classifier(n_members=after).fit(
            ROWS, CANDIDATES, checkpoint=Checkpoints(tmp_path, resume=True)
        )


def test_other_names_of_the_same_items_are_refused(tmp_path):
    model = MaxMatchingRecommender(normalization="click", dim=4, max_epochs=3, random_state=0)
    interrupted(model, tmp_path, HISTORIES)
    renamed = [[word.upper() for word in history] for history in HISTORIES]
    with pytest.raises(CheckpointError, match="the names of the targets differ from those"):
        clone(model).fit(renamed, checkpoint=Checkpoints(tmp_path, resume=True))


def test_a_callback_is_no_part_of_what_must_agree(tmp_path):
    model = MaxMatchingRecommender(normalization="click", dim=4, max_epochs=3, random_state=0)
    interrupted(model, tmp_path, HISTORIES)
    watched = clone(model).set_params(on_epoch=lambda record: None)
    watched.fit(HISTORIES, checkpoint=Checkpoints(tmp_path, resume=True))
    assert len(watched.history_) == 3


def test_numbers_of_numpy_are_the_numbers_they_equal(tmp_path):
    model = classifier(max_epochs=np.int64(4), learning_rate=np.float32(0.5))
    interrupted(model, tmp_path, ROWS, CANDIDATES)
    again = classifier(max_epochs=4, learning_rate=0.5)
    again.fit(ROWS, CANDIDATES, checkpoint=Checkpoints(tmp_path, resume=True))
    assert len(again.history_) == 4


def test_a_failed_training_leaves_an_estimator_with_the_best_weights(tmp_path):
    model = classifier()
    answers = []

    def validate(fitted):
        answers.append(fitted.predict_proba(ROWS))
        return [0.5, 0.9, 0.1][len(answers) - 1]

    def poison(record):
        if record["epoch"] == 3:
            with torch.no_grad():
                model.model_.object_encoder.weight.fill_(torch.nan)

    model.set_params(on_epoch=poison)
    with pytest.raises(TrainingError, match="the loss became nan in epoch 4, step 10"):
        model.fit(ROWS, CANDIDATES, validate=validate)
    np.testing.assert_array_equal(model.predict_proba(ROWS), answers[1])
    assert model.history_.best_epoch == 2
