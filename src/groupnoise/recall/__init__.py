"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.artifact import open_artifact, write_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.index import IndexSpec
    from groupnoise.recall.model import Recalled, RecallModel
    from groupnoise.recall.options import RecallOptions
    from groupnoise.recall.registry import Registry

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "IndexSpec": "groupnoise.recall.index",
        "RecallModel": "groupnoise.recall.model",
        "RecallOptions": "groupnoise.recall.options",
        "Recalled": "groupnoise.recall.model",
        "Registry": "groupnoise.recall.registry",
        "open_artifact": "groupnoise.recall.artifact",
        "recall_file": "groupnoise.recall.batch",
        "write_artifact": "groupnoise.recall.artifact",
    },
)

__all__ = [
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Recalled",
    "Registry",
    "open_artifact",
    "recall_file",
    "write_artifact",
]
