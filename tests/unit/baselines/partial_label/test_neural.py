import numpy as np
import pytest

from groupnoise.baselines.partial_label import CCClassifier, LWSClassifier, PRODENClassifier

ROWS = np.array([[-2.0], [-1.0], [1.0], [2.0]])
CANDIDATES = [{0}, {0, 1}, {1}, {0, 1}]
NEURAL = pytest.mark.parametrize("factory", [CCClassifier, PRODENClassifier, LWSClassifier])


@NEURAL
def test_the_best_validated_epoch_is_kept(factory):
    records = []
    model = factory(encoder="linear", max_epochs=8, learning_rate=0.3, random_state=0)
    held_out = (np.linspace(-1, 1, 21)[:, None], np.repeat([0, 1], [11, 10]))
    model.fit(ROWS, CANDIDATES, validation=held_out, progress=records.append)
    assert len(records) == 8
    assert model.score(*held_out) == max(record["validation"] for record in records)


@NEURAL
def test_validation_may_know_only_candidates(factory):
    records = []
    model = factory(encoder="linear", max_epochs=3, random_state=0)
    model.fit(ROWS, CANDIDATES, validation=(ROWS, CANDIDATES), progress=records.append)
    assert all(0 <= record["validation"] <= 1 for record in records)


@NEURAL
def test_rows_of_which_every_label_is_a_candidate_do_no_harm(factory):
    model = factory(encoder="linear", learning_rate=0.1, random_state=0)
    model.fit(np.vstack([ROWS, [[0.0]]]), [*CANDIDATES, {0, 1}])
    assert np.isfinite(model.predict_proba(ROWS)).all()
    assert model.predict(ROWS).tolist() == [0, 0, 1, 1]
