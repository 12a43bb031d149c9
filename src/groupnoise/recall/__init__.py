"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.approximate import IndexSpec
    from groupnoise.recall.artifact import (
        add_index,
        open_artifact,
        write_artifact,
        write_neighbour_artifact,
    )
    from groupnoise.recall.batch import BatchProgress, recall_file
    from groupnoise.recall.model import Recalled, RecallModel
    from groupnoise.recall.options import RecallOptions
    from groupnoise.recall.rankers import neighbours_from_scores

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BatchProgress": "groupnoise.recall.batch",
        "IndexSpec": "groupnoise.recall.approximate",
        "RecallModel": "groupnoise.recall.model",
        "RecallOptions": "groupnoise.recall.options",
        "Recalled": "groupnoise.recall.model",
        "add_index": "groupnoise.recall.artifact",
        "neighbours_from_scores": "groupnoise.recall.rankers",
        "open_artifact": "groupnoise.recall.artifact",
        "recall_file": "groupnoise.recall.batch",
        "write_artifact": "groupnoise.recall.artifact",
        "write_neighbour_artifact": "groupnoise.recall.artifact",
    },
)

__all__ = [
    "BatchProgress",
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Recalled",
    "add_index",
    "neighbours_from_scores",
    "open_artifact",
    "recall_file",
    "write_artifact",
    "write_neighbour_artifact",
]
