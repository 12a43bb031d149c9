"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.artifact import open_artifact as open_artifact
    from groupnoise.recall.batch import recall_file as recall_file
    from groupnoise.recall.client import AsyncClient as AsyncClient, Client as Client
    from groupnoise.recall.engines import (
        export_vectors as export_vectors,
        query_vectors as query_vectors,
    )
    from groupnoise.recall.index import IndexSpec as IndexSpec
    from groupnoise.recall.model import RecallModel as RecallModel
    from groupnoise.recall.options import RecallOptions as RecallOptions
    from groupnoise.recall.registry import Registry as Registry

__getattr__, __dir__, __all__ = lazy_names(__name__)
