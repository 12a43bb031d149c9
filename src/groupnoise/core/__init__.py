"""The model and the loss: groups, encoders, pair matching, group weighting, selection."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.core.batching import batch_rows as batch_rows, collate as collate
    from groupnoise.core.encoders import FrozenEncoder as FrozenEncoder
    from groupnoise.core.metrics import (
        approximated_accuracy as approximated_accuracy,
        expected_calibration_error as expected_calibration_error,
        hit_at_k as hit_at_k,
        ndcg_at_k as ndcg_at_k,
    )
    from groupnoise.core.objective import (
        All as All,
        Marginal as Marginal,
        Max as Max,
        Tempered as Tempered,
        TopK as TopK,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
