"""The model of items: a vector for each as an object and as a target, and a bias."""

from __future__ import annotations

import torch

from groupnoise.matching._encoders import EmbeddingEncoder
from groupnoise.matching._model import MatchingModel


def item_model(
    n_items: int,
    dim: int,
    *,
    shared: bool,
    has_bias: bool,
    std: float,
    generator: torch.Generator,
    sparse: bool = True,
) -> MatchingModel:
    """Return the untrained model of a catalogue.

    Parameters
    ----------
    n_items : int
        Size of the catalogue.
    dim : int
        Width of the vectors.
    shared : bool
        Whether f and g share one table.
    has_bias : bool
        Whether every item has a bias as a target.
    std : float
        Deviation of the initial vectors.
    generator : torch.Generator
        Decides the initial vectors.
    sparse : bool
        Whether gradients hold only the rows that were looked up.
    """

    def table() -> EmbeddingEncoder:
        return EmbeddingEncoder(n_items, dim, std=std, sparse=sparse, generator=generator)

    objects = table()
    return MatchingModel(
        objects,
        objects if shared else table(),
        n_targets=n_items,
        has_bias=has_bias,
        sparse=sparse,
    )
