"""Sampled negatives with logQ: the denominator they estimate is the full one, on average."""

import pytest
import torch

from builders import id_batch, table_model
from groupnoise.core.candidates import FullCandidates, SampledCandidates
from groupnoise.core.pair_matching import PairMatching

N_TARGETS, N_DRAWS = 12, 1500
SKEWED = torch.arange(1.0, N_TARGETS + 1, dtype=torch.float64)
SKEWED /= SKEWED.sum()
MODEL = table_model(n_objects=6, n_targets=N_TARGETS, has_bias=True)
BATCH = id_batch([2, 1], n_ids=6, n_targets=N_TARGETS)


@torch.no_grad()
def inverse_probabilities(source, generator):
    """1 / P = denominator / exp(logit), which is linear in the denominator; shape (n_real,)."""
    return (-PairMatching(source)(MODEL, BATCH, generator).log_pair[BATCH.mask]).exp()


def estimate(source):
    """Mean over draws and its standard error, beside the exact value."""
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([inverse_probabilities(source, generator) for _ in range(N_DRAWS)])
    exact = inverse_probabilities(FullCandidates(N_TARGETS), generator)
    return draws.mean(0), draws.std(0) / N_DRAWS**0.5, exact


@pytest.mark.parametrize("probabilities", [None, SKEWED], ids=["uniform", "skewed"])
def test_corrected_denominator_is_unbiased(probabilities):
    mean, error, exact = estimate(SampledCandidates(N_TARGETS, 8, probabilities))
    assert ((mean - exact).abs() <= 4 * error).all()
    assert (error < 0.05 * exact).all()  # tight enough for the comparison to mean something


def test_uncorrected_denominator_is_biased():
    mean, error, exact = estimate(SampledCandidates(N_TARGETS, 8, SKEWED, corrected=False))
    assert ((mean - exact).abs() > 4 * error).all()
