"""The model of items: a vector for each as an object and as a target, and a bias."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

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


@torch.no_grad()
def merge_item_models(members: Sequence[MatchingModel], wide: MatchingModel) -> None:
    """Write several models into one whose logits are the average of theirs.

    Parameters
    ----------
    members : sequence of MatchingModel
        Trained models of one catalogue.
    wide : MatchingModel
        Takes their vectors side by side, so its tables are as wide as theirs together.
    """
    share = len(members) ** -0.5  # of each factor of a dot product
    _table(wide.object_encoder).copy_(
        share * torch.cat([_table(each.object_encoder) for each in members], dim=1)
    )
    _table(wide.target_encoder).copy_(
        share * torch.cat([_table(each.target_encoder) for each in members], dim=1)
    )
    if wide.bias is not None:
        biases = [each.bias.data for each in members if each.bias is not None]
        wide.bias.copy_(torch.stack(biases).mean(0))


def _table(encoder: nn.Module) -> Tensor:
    assert isinstance(encoder, EmbeddingEncoder)
    return encoder.weight
