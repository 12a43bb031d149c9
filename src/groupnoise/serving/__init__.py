"""From a trained recall model to answers: artifacts, search, batch recall and an HTTP service.

Everything here runs on numpy; torch is never imported.
"""

from groupnoise.serving._approximate import IndexSpec
from groupnoise.serving._artifact import open_artifact, write_artifact, write_neighbour_artifact
from groupnoise.serving._model import Recalled, RecallModel
from groupnoise.serving._options import RecallOptions

__all__ = [
    "IndexSpec",
    "RecallModel",
    "RecallOptions",
    "Recalled",
    "open_artifact",
    "write_artifact",
    "write_neighbour_artifact",
]
