"""What every verb does first: protect the process, read the configuration, start logging."""

from __future__ import annotations

import argparse
import sys

from mcp_notarium import config, logs
from mcp_notarium.cli import interruption
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config, Loaded
from mcp_notarium.protocol.preflight import check_configuration
from mcp_notarium.sandbox import process_hardening


def prepare(args: argparse.Namespace) -> Config:
    """The checked configuration; its secrets are gone from the environment afterwards.

    Raises ``ConfigError`` naming everything that has to be changed.
    """
    return load(args).config


def load(args: argparse.Namespace) -> Loaded:
    """As :func:`prepare`, with where everything comes from."""
    process_hardening.harden_process()
    logs.protect(*config.secrets_here())  # an error may quote a value that stands in a wrong place
    loaded = config.load_here(env_file=args.env_file)
    process_hardening.wipe_environment(*config.secret_names())
    # A person reads along: routine events would only stand in the way.
    quiet = loaded.config.log_level in {"info", "warn"} and sys.stderr.isatty()
    logs.configure("error" if quiet else loaded.config.log_level, loaded.config.log_file)
    logs.protect_config(loaded.config)
    for warning in loaded.warnings:
        talk(f"note: {warning}")
    check_configuration(loaded.config)
    interruption.watch(loaded.config.account_dir)
    return loaded
