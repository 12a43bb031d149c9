import numpy as np
import pytest

from groupnoise.baselines.partial_label import CCClassifier, LWSClassifier, PRODENClassifier

ROWS = np.array([[-2.0], [-1.0], [1.0], [2.0]])
CANDIDATES = [{0}, {0, 1}, {1}, {0, 1}]
NEURAL = pytest.mark.parametrize("factory", [CCClassifier, PRODENClassifier, LWSClassifier])


@NEURAL
def test_rows_of_which_every_label_is_a_candidate_do_no_harm(factory):
    model = factory(encoder="linear", learning_rate=0.1, random_state=0)
    model.fit(np.vstack([ROWS, [[0.0]]]), [*CANDIDATES, {0, 1}])
    assert np.isfinite(model.predict_proba(ROWS)).all()
    assert model.predict(ROWS).tolist() == [0, 0, 1, 1]
