"""Candidate sources: what is drawn, how it is corrected, and who decides."""

import math

import pytest
import torch

from groupnoise.core import candidates as _candidates
from groupnoise.core.candidates import FullCandidates, InBatchCandidates, SampledCandidates
from groupnoise.exceptions import ParameterError

TARGET_IDS = torch.tensor([4, 1, 1, 7])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_full_candidates_are_all_ids_in_order():
    drawn = FullCandidates(9).draw(TARGET_IDS, generator())
    assert drawn.ids.tolist() == list(range(9))
    assert drawn.log_expected_count is None
    assert drawn.holds_targets


def test_uniform_sample_knows_its_expected_count():
    drawn = SampledCandidates(20, 5).draw(TARGET_IDS, generator())
    assert drawn.ids.shape == (5,)
    assert drawn.log_expected_count.tolist() == pytest.approx([math.log(5 / 20)] * 5)
    assert not drawn.holds_targets


def test_weighted_sample_is_corrected_by_the_chance_of_each_id():
    chances = torch.tensor([0.7, 0.2, 0.1, 0.0], dtype=torch.float64)
    drawn = SampledCandidates(4, 50, chances).draw(TARGET_IDS, generator())
    assert 3 not in drawn.ids
    torch.testing.assert_close(drawn.log_expected_count.exp(), 50 * chances[drawn.ids])


def test_uncorrected_sample_leaves_the_logits_alone():
    assert (
        SampledCandidates(4, 3, corrected=False).draw(TARGET_IDS, generator()).log_expected_count
        is None
    )


def test_expected_counts_are_what_a_sample_counts_on_average():
    chances = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    source, draw = SampledCandidates(3, 4, chances), generator(3)
    n_draws = 4000
    ids = torch.cat([source.draw(TARGET_IDS, draw).ids for _ in range(n_draws)])
    counted = torch.bincount(ids, minlength=3).double() / n_draws
    torch.testing.assert_close(counted, 4 * chances, rtol=0.03, atol=0.0)


def test_catalogues_too_large_for_torch_are_sampled_by_chance_as_well(monkeypatch):
    monkeypatch.setattr(_candidates, "MULTINOMIAL_IDS", 2)
    chances = torch.tensor([0.0, 0.5, 0.3, 0.0, 0.2, 0.0], dtype=torch.float64)
    drawn = SampledCandidates(6, 20_000, chances).draw(TARGET_IDS, generator())
    counted = torch.bincount(drawn.ids, minlength=6).double() / 20_000
    torch.testing.assert_close(counted, chances, rtol=0.05, atol=0.0)
    torch.testing.assert_close(drawn.log_expected_count.exp(), 20_000 * chances[drawn.ids])


def test_the_generator_alone_decides_the_sample():
    source = SampledCandidates(1000, 20)
    first, again = (source.draw(TARGET_IDS, generator(5)).ids for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, source.draw(TARGET_IDS, generator(6)).ids)


@pytest.mark.parametrize("n_negatives", [0, -1, 2.5, True])
def test_a_sample_needs_a_whole_positive_number_of_negatives(n_negatives):
    with pytest.raises(ParameterError, match="n_negatives must be a whole number of at least 1"):
        SampledCandidates(10, n_negatives)


def test_in_batch_candidates_are_the_distinct_targets():
    drawn = InBatchCandidates().draw(TARGET_IDS, generator())
    assert drawn.ids.tolist() == [1, 4, 7]
    assert drawn.log_expected_count is None
    assert drawn.holds_targets


def test_in_batch_correction_is_the_chance_to_be_in_the_batch():
    frequencies = torch.full((8,), 0.125, dtype=torch.float64)
    drawn = InBatchCandidates(frequencies).draw(TARGET_IDS, generator())
    assert drawn.log_expected_count.tolist() == pytest.approx([math.log(1 - 0.875**4)] * 3)
