"""The HTTP service: routes, limits, logs, metrics, model swap and the page at `/`."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.recall.http.app import create_app as create_app
    from groupnoise.recall.http.server import serve as serve
    from groupnoise.recall.http.settings import Limits as Limits, ServiceSettings as ServiceSettings

__getattr__, __dir__, __all__ = lazy_names(__name__)
