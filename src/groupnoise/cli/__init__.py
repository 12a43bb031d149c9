"""The command line; nothing else imports it."""

from groupnoise.cli._main import main

__all__ = ["main"]
