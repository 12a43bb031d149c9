"""The command line; nothing else imports it."""

from groupnoise.cli.app import main as main
