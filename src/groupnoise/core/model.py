"""MatchingModel: the two encoders and the bias of a target; and its form for items."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from groupnoise.core.encoders import EmbeddingEncoder, look_up


class MatchingModel(nn.Module):
    """f and g of the paper; the logit of an object and a target is f(x) . g(y) + bias(y).

    `object_encoder`, `target_encoder`: f and g: map objects, or targets, (n, ...) to vectors.
    `n_targets`: targets are known by the ids 0 .. n_targets - 1.
    `target_inputs` (n_targets, ...): what the target encoder reads for each id, when that is not
        the id itself: the feature rows of partial-label learning. Not part of the saved state.
    `sparse`: whether the gradient of the bias holds only the rows that were looked up.
    `precision`: reduced precision the encoders run in; their vectors, and so the whole objective,
        stay in float32.
    """

    target_inputs: Tensor | None

    def __init__(
        self,
        object_encoder: nn.Module,
        target_encoder: nn.Module,
        *,
        n_targets: int,
        target_inputs: Tensor | None = None,
        has_bias: bool = False,
        sparse: bool = False,
        precision: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.object_encoder = object_encoder
        self.target_encoder = target_encoder
        self.n_targets = n_targets
        self.sparse = sparse
        self.precision = precision
        self.bias = nn.Parameter(torch.zeros(n_targets, 1)) if has_bias else None
        self.register_buffer("target_inputs", target_inputs, persistent=False)

    @property
    def own_ids(self) -> slice:
        """The ids whose rows the tables of this model hold: all of them."""
        return slice(None)

    def encode_objects(self, objects: Tensor) -> Tensor:
        """Return f(x), shape (n, dim), of feature rows or ids (n, ...)."""
        return self._encode(self.object_encoder, objects)

    def encode_targets(self, ids: Tensor) -> Tensor:
        """Return g(y) of targets known by id, shape (n, dim)."""
        inputs = ids if self.target_inputs is None else self.target_inputs[ids]
        return self.encode_target_inputs(inputs)

    def encode(self, objects: Tensor, target_ids: Tensor) -> Tensor:
        """Return f of objects and then g of targets by id, shape (n_objects + n_targets, dim).

        Where both are ids of one encoder it is called once: a shared table is read once, and its
        gradient names every row once.
        """
        is_shared = self.object_encoder is self.target_encoder and self.target_inputs is None
        if is_shared:
            return self.encode_objects(torch.cat([objects, target_ids]))
        return torch.cat([self.encode_objects(objects), self.encode_targets(target_ids)])

    def encode_with_all_targets(
        self, objects: Tensor, target_ids: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return f of objects, g of the targets, and g of all targets, in order of id.

        Shapes (n, dim), (m, dim) and (n_targets, dim). A table stands for its rows: it is not
        copied, and since all of it has a gradient anyway, the few rows looked up beside it add a
        sparse one instead of another as large.
        """
        table = self.target_encoder
        if (
            not isinstance(table, EmbeddingEncoder)
            or table.sparse
            or self.target_inputs is not None
        ):
            vectors = self.encode_objects(objects)
            everything = self.encode_targets(torch.arange(self.n_targets, device=objects.device))
            return vectors, everything.index_select(0, target_ids), everything
        shared = table is self.object_encoder
        vectors = look_up(table.weight, objects) if shared else self.encode_objects(objects)
        rows = table.weight
        everything = rows if len(rows) == self.n_targets else rows[: self.n_targets]
        return vectors, look_up(rows, target_ids), everything

    def encode_target_inputs(self, inputs: Tensor) -> Tensor:
        """Return g(y) of targets never seen in training, shape (n, dim)."""
        return self._encode(self.target_encoder, inputs)

    def _encode(self, encoder: nn.Module, inputs: Tensor) -> Tensor:
        if self.precision is None:
            return encoder(inputs)
        with torch.autocast(inputs.device.type, self.precision):
            vectors = encoder(inputs)
        return vectors.float()

    def target_bias(self, ids: Tensor) -> Tensor | None:
        """Return the bias of each target, shape (n,), or None where the model has none."""
        if self.bias is None:
            return None
        if self.sparse:
            return look_up(self.bias, ids).squeeze(-1)
        return nn.functional.embedding(ids, self.bias).squeeze(-1)

    def logits(self, vectors: Tensor, ids: Tensor) -> Tensor:
        """Return the logits of encoded objects (n, dim) with targets (m,), shape (n, m)."""
        targets, bias = self.encode_targets(ids), self.target_bias(ids)
        return vectors @ targets.t() if bias is None else torch.addmm(bias, vectors, targets.t())


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
    """Return the untrained model of a catalogue."""

    def table() -> EmbeddingEncoder:
        return EmbeddingEncoder(n_items, dim, std=std, sparse=sparse, generator=generator)

    objects = table()
    return MatchingModel(
        objects, objects if shared else table(), n_targets=n_items, has_bias=has_bias, sparse=sparse
    )


@torch.no_grad()
def merge_item_models(members: Sequence[MatchingModel], wide: MatchingModel) -> None:
    """Write several models into one whose logits are the average of theirs."""
    factor = len(members) ** -0.5  # of each factor of a dot product
    _table(wide.object_encoder).copy_(
        factor * torch.cat([_table(each.object_encoder) for each in members], dim=1)
    )
    _table(wide.target_encoder).copy_(
        factor * torch.cat([_table(each.target_encoder) for each in members], dim=1)
    )
    if wide.bias is not None:
        biases = [each.bias.data for each in members if each.bias is not None]
        wide.bias.copy_(torch.stack(biases).mean(0))


def _table(encoder: nn.Module) -> Tensor:
    assert isinstance(encoder, EmbeddingEncoder)
    return encoder.weight
