import numpy as np
import pytest

from groupnoise.candidates import add_false_labels, flip_labels
from groupnoise.exceptions import DataError, ParameterError

TRUTH = np.arange(600) % 6


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_exactly_the_asked_share_of_labels_is_wrong(kind, rate):
    noisy = flip_labels(TRUTH, 6, rate=rate, kind=kind, random_state=0)
    assert np.mean(noisy != TRUTH) == pytest.approx(rate)


def test_pairwise_noise_moves_to_the_next_class_alone():
    noisy = flip_labels(TRUTH, 6, rate=0.4, kind="pairwise", random_state=0)
    wrong = noisy != TRUTH
    np.testing.assert_array_equal(noisy[wrong], (TRUTH[wrong] + 1) % 6)


def test_symmetric_noise_reaches_every_other_class():
    noisy = flip_labels(TRUTH, 6, rate=0.4, random_state=0)
    assert len(set(zip(TRUTH.tolist(), noisy.tolist(), strict=True))) == 36


def test_false_labels_stand_beside_the_truth():
    candidates = add_false_labels(TRUTH, 6, n_false=2, random_state=0)
    assert candidates[np.arange(len(TRUTH)), TRUTH].all()
    assert (candidates.sum(axis=1) == 3).all()


def test_equal_seeds_draw_equal_noise():
    first, second = (flip_labels(TRUTH, 6, rate=0.3, random_state=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_bad_noise_is_refused():
    with pytest.raises(ParameterError, match="kind must be one of 'symmetric', 'pairwise'"):
        flip_labels(TRUTH, 6, rate=0.1, kind="random")
    with pytest.raises(ParameterError, match="n_false must be below the number of classes"):
        add_false_labels(TRUTH, 6, n_false=6)
    with pytest.raises(DataError, match="row 5 has 5"):
        flip_labels(TRUTH, 5, rate=0.1)
