"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.artifact import open_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.client import AsyncClient, Client
    from groupnoise.recall.engines import export_vectors, query_vectors
    from groupnoise.recall.index import IndexSpec
    from groupnoise.recall.model import RecallModel
    from groupnoise.recall.options import RecallOptions
    from groupnoise.recall.registry import Registry

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.recall.artifact": "open_artifact",
        "groupnoise.recall.batch": "recall_file",
        "groupnoise.recall.client": "AsyncClient Client",
        "groupnoise.recall.engines": "export_vectors query_vectors",
        "groupnoise.recall.index": "IndexSpec",
        "groupnoise.recall.model": "RecallModel",
        "groupnoise.recall.options": "RecallOptions",
        "groupnoise.recall.registry": "Registry",
    },
)

__all__ = [
    "AsyncClient",
    "Client",
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Registry",
    "export_vectors",
    "open_artifact",
    "query_vectors",
    "recall_file",
]
