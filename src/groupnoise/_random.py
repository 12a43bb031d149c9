"""One seed in, independent generators out; nothing here touches global state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    import torch

RandomState = int | np.random.Generator | np.random.RandomState | None


def generator_from(random_state: RandomState) -> np.random.Generator:
    """Return a numpy generator for an integer, a generator, a RandomState or None."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    is_seed = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if random_state is None or (is_seed and random_state >= 0):
        return np.random.default_rng(random_state)
    raise ParameterError(
        f"random_state must be None, a non-negative integer or a numpy generator; "
        f"got {random_state!r}."
    )


def torch_generator(generator: np.random.Generator) -> torch.Generator:
    """Return a torch generator seeded from, and so decided by, a numpy generator."""
    import torch

    return torch.Generator().manual_seed(int(generator.integers(2**62)))
