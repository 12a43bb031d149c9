import numpy as np
import pytest

from groupnoise.candidates.baselines import CCClassifier, LWSClassifier, PRODENClassifier
from groupnoise.exceptions import ParameterError

ROWS = np.array([[-2.0], [-1.0], [1.0], [2.0]])
CANDIDATES = [{0}, {0, 1}, {1}, {0, 1}]
NEURAL = pytest.mark.parametrize("factory", [CCClassifier, PRODENClassifier, LWSClassifier])


@NEURAL
def test_rows_of_which_every_label_is_a_candidate_do_no_harm(factory):
    model = factory(encoder="linear", learning_rate=0.1, random_state=0)
    model.fit(np.vstack([ROWS, [[0.0]]]), [*CANDIDATES, {0, 1}])
    assert np.isfinite(model.predict_proba(ROWS)).all()
    assert model.predict(ROWS).tolist() == [0, 0, 1, 1]


@NEURAL
def test_batch_normalisation_survives_a_row_left_over(factory, tmp_path):
    model = factory(batch_norm=True, hidden=8, batch_size=2, learning_rate=0.03, random_state=0)
    model.fit(np.vstack([ROWS, [[3.0]]]), [*CANDIDATES, {1}])
    model.save(tmp_path)
    np.testing.assert_array_equal(
        factory.load(tmp_path).predict_proba(ROWS), model.predict_proba(ROWS)
    )


def test_batch_normalisation_needs_batches():
    with pytest.raises(ParameterError, match="batch_norm needs batches of two or more"):
        CCClassifier(batch_norm=True, batch_size=1).fit(ROWS, CANDIDATES)
