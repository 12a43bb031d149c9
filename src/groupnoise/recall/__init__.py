"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.artifact import open_artifact, write_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.client import AsyncClient, Client
    from groupnoise.recall.engines import export_vectors, query_vectors
    from groupnoise.recall.index import IndexSpec
    from groupnoise.recall.model import RecallModel
    from groupnoise.recall.options import RecallOptions
    from groupnoise.recall.recalled import Recalled
    from groupnoise.recall.registry import Registry

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AsyncClient": "groupnoise.recall.client",
        "Client": "groupnoise.recall.client",
        "IndexSpec": "groupnoise.recall.index",
        "RecallModel": "groupnoise.recall.model",
        "RecallOptions": "groupnoise.recall.options",
        "Recalled": "groupnoise.recall.recalled",
        "Registry": "groupnoise.recall.registry",
        "export_vectors": "groupnoise.recall.engines",
        "open_artifact": "groupnoise.recall.artifact",
        "query_vectors": "groupnoise.recall.engines",
        "recall_file": "groupnoise.recall.batch",
        "write_artifact": "groupnoise.recall.artifact",
    },
)

__all__ = [
    "AsyncClient",
    "Client",
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Recalled",
    "Registry",
    "export_vectors",
    "open_artifact",
    "query_vectors",
    "recall_file",
    "write_artifact",
]
