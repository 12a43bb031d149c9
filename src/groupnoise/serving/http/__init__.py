"""The HTTP service: routes, limits, logs, metrics, model swap and the page at `/`."""

from groupnoise.serving.http._app import create_app
from groupnoise.serving.http._server import serve
from groupnoise.serving.http._settings import Limits, ServiceSettings

__all__ = ["Limits", "ServiceSettings", "create_app", "serve"]
