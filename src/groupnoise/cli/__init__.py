"""The command line; nothing else imports it."""

from groupnoise.cli.main import main

__all__ = ["main"]
