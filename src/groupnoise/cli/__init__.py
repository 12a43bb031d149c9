"""The command line; nothing else imports it."""

from groupnoise.cli.app import main

__all__ = ["main"]
