"""Bags larger than memory are trained on from disk, with what memory would give."""

import warnings

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags import prediction, streaming
from groupnoise.bags.search import member_training, out_of_fold
from groupnoise.bags.search.full_training import train_on_all
from groupnoise.bags.search.members import MemberSettings
from groupnoise.core import collate
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.exceptions import CheckpointError, TrainingStopped
from groupnoise.training.checkpoints import Checkpoints

N_BAGS = 60


def make_bags(n_bags=N_BAGS, sizes=(3, 30), width=6):
    """Bags of which half hold an instance far out in the first feature."""
    generator = np.random.default_rng(0)
    bags, y = [], []
    for number in range(n_bags):
        bag = generator.normal(size=(int(generator.integers(*sizes)), width)).astype(np.float16)
        if number % 2:
            bag[int(generator.integers(len(bag))), 0] += 6
        bags.append(bag)
        y.append(number % 2)
    return Groups.from_lists(bags), np.array(y)


@pytest.fixture
def on_disk(tmp_path):
    """Both forms of the same bags, and their labels."""
    bags, y = make_bags()
    np.save(tmp_path / "rows.npy", bags.objects)
    return StreamedGroups(np.load(tmp_path / "rows.npy", mmap_mode="r"), bags.offsets), bags, y


def weights(model):
    return {name: tensor.numpy() for name, tensor in model.model_.state_dict().items()}


def assert_same_weights(ours, theirs, **tolerance):
    for name, values in weights(theirs).items():
        np.testing.assert_allclose(weights(ours)[name], values, err_msg=name, **tolerance)


@pytest.mark.parametrize("scaling", ["standard", "none"])
def test_the_training_loop_gives_the_same_weights_from_disk(on_disk, scaling):
    streamed, bags, y = on_disk
    model = MaxMatchingMILClassifier.fixed(max_epochs=3, scaling=scaling, random_state=0)
    theirs = model.fit(bags, y)
    ours = MaxMatchingMILClassifier(**model.get_params()).fit(streamed, y)
    assert_same_weights(ours, theirs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.bag_scores(streamed), theirs.bag_scores(bags), atol=1e-4)
    selected, expected = ours.select(streamed, y), theirs.select(bags, y)
    np.testing.assert_array_equal(selected.chosen, expected.chosen)


def test_bags_with_several_labels_are_read_once_per_label(on_disk):
    streamed, bags, y = on_disk
    several = [{int(label), 2} if row % 3 == 0 else {int(label)} for row, label in enumerate(y)]
    model = MaxMatchingMILClassifier.fixed(max_epochs=2, random_state=0).fit(bags, several)
    ours = MaxMatchingMILClassifier(**model.get_params()).fit(streamed, several)
    assert_same_weights(ours, model, rtol=1e-4, atol=1e-6)


def test_a_member_gives_the_same_weights_from_disk(on_disk, monkeypatch):
    monkeypatch.setattr(member_training, "MAX_STEP_ROWS", 200)
    streamed, bags, y = on_disk
    labels = (y == 1)[:, None]
    settings = [MemberSettings(max_epochs=20)]
    (ours,), (theirs,) = (
        train_on_all(settings, b, labels, True, 3).members for b in (streamed, bags)
    )
    for name, tensor in theirs.model.state_dict().items():
        np.testing.assert_allclose(
            ours.model.state_dict()[name], tensor, rtol=1e-4, atol=1e-5, err_msg=name
        )


def test_a_plain_fit_decides_on_a_sample_says_so_and_trains_on_all(on_disk, monkeypatch, tmp_path):
    from groupnoise.bags import streaming

    monkeypatch.setattr(streaming, "SAMPLE_BAGS", 30)
    monkeypatch.setattr(out_of_fold, "MAX_SEARCH_ROWS", 300)
    streamed, bags, y = on_disk
    model = MaxMatchingMILClassifier(random_state=0, likelihood="noisy_or", encoder="identity")
    model.fit(streamed, y)
    assert model.decisions_.facts["bags"] == N_BAGS
    assert model.decisions_.facts["instances"] == bags.n_objects
    assert model.decisions_.facts["instances in the sample"] <= 300
    assert "larger than memory" in model.decisions_.reasons[0]
    assert "up to 10 instances each" in model.decisions_.reasons[0]
    decays = {parameters["weight_decay"] for _, parameters in model.decisions_.members}
    # Twice as many bags, half the decay beside the mean over them.
    assert {each.settings.weight_decay for each in model.ensemble_.members} <= {
        decay * 30 / N_BAGS for decay in decays
    }
    assert (model.predict_bags(streamed) == y).mean() > 0.9
    np.testing.assert_allclose(model.bag_proba(streamed), model.bag_proba(bags), atol=1e-4)
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.bag_proba(bags), model.bag_proba(bags), atol=1e-6)
    assert again.decisions_.reasons == model.decisions_.reasons


def test_too_few_streamed_bags_take_the_stated_default(on_disk):
    streamed, _, y = on_disk
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MaxMatchingMILClassifier(random_state=0).fit(streamed.subset(slice(0, 6)), y[:6])
    assert any("too few" in str(each.message) for each in caught)
    assert len(model.predict_bags(streamed)) == N_BAGS


def test_a_rare_class_is_in_the_sample():
    from groupnoise.bags.streaming import sample_bags

    labels = np.zeros((3000, 2), dtype=bool)
    labels[:, 0] = True
    labels[:5] = [False, True]
    taken = sample_bags(labels, np.random.default_rng(0))
    assert labels[taken, 1].sum() >= 4
    assert 100 <= len(taken) <= 130


def test_a_step_in_parts_is_the_step_on_the_whole_batch(monkeypatch):
    bags, y = make_bags()
    model = MaxMatchingMILClassifier.paper(
        max_epochs=2, learning_rate=0.01, keep="last", random_state=0
    )
    whole = model.fit(bags, y)
    monkeypatch.setattr(type(model), "_max_objects", 60)
    parts = MaxMatchingMILClassifier(**model.get_params()).fit(bags, y)
    assert_same_weights(parts, whole, rtol=1e-4, atol=1e-6)
    assert parts.history_.column("loss") == pytest.approx(whole.history_.column("loss"), rel=1e-5)


def test_a_large_bag_does_not_swell_its_batch(monkeypatch):
    from groupnoise.training import trainer

    bags = Groups.from_lists([np.ones((size, 3)) for size in (*[5] * 40, 4000)])
    held = []

    def watched(groups, rows, whole=None):
        held.append(groups.padded(rows).shape[:2])
        return collate(groups, rows, whole)

    monkeypatch.setattr(trainer, "collate", watched)
    monkeypatch.setattr(prediction, "collate", watched)
    monkeypatch.setattr(MaxMatchingMILClassifier, "_max_objects", 4000)
    monkeypatch.setattr(prediction, "MAX_OBJECTS", 4000)
    model = MaxMatchingMILClassifier.fixed(max_epochs=1, random_state=0)
    model.fit(bags, np.arange(41) % 2).bag_scores(bags)
    assert max(n_groups * size for n_groups, size in held) == 4000
    assert held.count((1, 4000)) == 2


def test_a_streamed_training_goes_on_where_it_was_stopped(on_disk, tmp_path):
    streamed, _, y = on_disk

    def model(**more):
        return MaxMatchingMILClassifier.fixed(max_epochs=4, random_state=0, **more)

    whole = model().fit(streamed, y)

    def stop(record):
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(on_epoch=stop).fit(
            streamed, y, checkpoint=Checkpoints(tmp_path / "saved", every_steps=1)
        )
    resumed = model().fit(
        streamed, y, checkpoint=Checkpoints(tmp_path / "saved", every_steps=1, resume=True)
    )
    assert_same_weights(resumed, whole, rtol=0, atol=0)


@pytest.mark.parametrize("streams", [True, False])
def test_a_plain_fit_tells_of_training_and_goes_on_where_it_was_stopped(
    on_disk, tmp_path, monkeypatch, streams
):
    monkeypatch.setattr(out_of_fold, "MAX_SEARCH_ROWS", 300)  # so that members are trained on all
    monkeypatch.setattr(streaming, "SAMPLE_BAGS", 30)
    streamed, bags, y = on_disk
    data, told = (streamed if streams else bags), []

    def model(on_epoch=None):
        return MaxMatchingMILClassifier(
            random_state=0, encoder="identity", scaling="standard", on_epoch=on_epoch
        )

    whole = model(told.append).fit(data, y)
    trained = [each for each in told if "loss" in each]
    assert told.index(trained[0]) > 0  # what is tried comes first
    assert trained[-1]["epoch"] == trained[-1]["n_epochs"]
    assert all(np.isfinite(each["loss"]) for each in trained)
    saved = Checkpoints(tmp_path / "saved")

    def stop(record):
        if record.get("epoch") == 40 and "loss" in record:
            saved.stop(15)

    with pytest.raises(TrainingStopped, match="what is finished is saved in"):
        model(stop).fit(data, y, checkpoint=saved)
    n_saved = len(list((tmp_path / "saved").rglob("*.safetensors")))
    assert n_saved > 0
    again = Checkpoints(tmp_path / "saved", resume=True)
    resumed = model().fit(data, y, checkpoint=again)
    assert len(list((tmp_path / "saved").rglob("*.safetensors"))) > n_saved
    np.testing.assert_array_equal(resumed.bag_proba(bags), whole.bag_proba(bags))
    np.testing.assert_array_equal(
        resumed.predict_proba(bags.objects), whole.predict_proba(bags.objects)
    )
    with pytest.raises(CheckpointError, match="the labels differ"):
        model().fit(data, 1 - y, checkpoint=again)


def test_answers_about_streamed_bags_are_those_of_memory(on_disk, monkeypatch):
    from groupnoise.bags.object_predictions import predict_objects
    from groupnoise.bags.setting import SETTING
    from groupnoise.core import streamed_groups
    from groupnoise.io import BagDataset

    monkeypatch.setattr(streamed_groups, "MAX_OBJECTS_AT_ONCE", 50)
    streamed, bags, y = on_disk
    labels = np.eye(2, dtype=bool)[y]
    ours, theirs = (BagDataset("bags", b, labels, ["0", "1"]) for b in (streamed, bags))
    model = MaxMatchingMILClassifier.fixed(max_epochs=3, random_state=0).fit(bags, y)
    told, expected = (predict_objects(model, each) for each in (ours, theirs))
    np.testing.assert_allclose(told.probability, expected.probability, atol=1e-6)
    np.testing.assert_allclose(told.responsibility, expected.responsibility, atol=1e-5)
    told, expected = (SETTING.answer(model, each).columns for each in (ours, theirs))
    assert told["label"] == expected["label"]
    assert told["probability"] == pytest.approx(expected["probability"], abs=1e-6)
    temperatures = [model.calibrate(each, y).calibration_temperature_ for each in (streamed, bags)]
    assert temperatures[0] == pytest.approx(temperatures[1], rel=1e-3)
