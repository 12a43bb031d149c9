"""The HTTP service: routes, limits, logs, metrics, model swap and the page at `/`."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.http.app import create_app
    from groupnoise.recall.http.server import serve
    from groupnoise.recall.http.settings import Limits, ServiceSettings

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Limits": "groupnoise.recall.http.settings",
        "ServiceSettings": "groupnoise.recall.http.settings",
        "create_app": "groupnoise.recall.http.app",
        "serve": "groupnoise.recall.http.server",
    },
)

__all__ = ["Limits", "ServiceSettings", "create_app", "serve"]
