"""The absent-class term against a loop."""

import pytest
import torch

import reference
from builders import ragged_tensor
from groupnoise.core.pair_matching import log_allowed_mass

ALLOWED = torch.tensor([[True, False, True, False], [False, True, False, False]])


def test_term_equals_the_loop_over_objects_and_targets():
    logits, mask = ragged_tensor([3, 2], 4)
    log_all = logits.log_softmax(-1)
    expected = [
        reference.log_allowed_mass(rows[real].tolist(), may)
        for rows, real, may in zip(log_all, mask, ALLOWED.tolist(), strict=True)
    ]
    actual = log_allowed_mass(log_all, ALLOWED, mask)
    assert actual.tolist() == pytest.approx(expected, abs=1e-12)
    assert (actual < 0).all()


def test_term_is_zero_when_every_target_is_allowed():
    logits, mask = ragged_tensor([3, 2], 4)
    actual = log_allowed_mass(logits.log_softmax(-1), torch.ones_like(ALLOWED), mask)
    torch.testing.assert_close(actual, torch.zeros(2, dtype=torch.float64))
