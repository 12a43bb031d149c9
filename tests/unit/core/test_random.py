"""Seeds: what is taken, what is refused, and that nothing global moves."""

import numpy as np
import pytest
import torch

from groupnoise.core.arrays import generator_from, torch_generator
from groupnoise.exceptions import ParameterError


@pytest.mark.parametrize("seed", [0, 7, np.int64(7)], ids=repr)
def test_a_seed_decides_the_numbers(seed):
    assert generator_from(seed).integers(1000) == generator_from(seed).integers(1000)


def test_a_generator_is_used_as_it_is():
    generator = np.random.default_rng(0)
    assert generator_from(generator) is generator


def test_an_old_random_state_decides_the_numbers():
    first, again = (generator_from(np.random.RandomState(3)).integers(1000) for _ in range(2))
    assert first == again


def test_none_gives_fresh_numbers():
    first, second = generator_from(None), generator_from(None)
    assert first.integers(2**62) != second.integers(2**62)


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, [1]], ids=repr)
def test_what_is_no_seed_is_refused(bad):
    with pytest.raises(ParameterError, match="random_state must be None, a non-negative integer"):
        generator_from(bad)


def test_a_torch_generator_is_decided_by_the_numpy_one():
    draws = [
        torch.rand(3, generator=torch_generator(np.random.default_rng(seed))) for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_two_torch_generators_of_one_source_differ():
    source = np.random.default_rng(0)
    first, second = (torch.rand(3, generator=torch_generator(source)) for _ in range(2))
    assert not torch.equal(first, second)


def test_global_generators_are_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    torch_generator(generator_from(5))
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002
