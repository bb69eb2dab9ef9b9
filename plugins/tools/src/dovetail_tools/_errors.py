"""The error of a command line."""

from __future__ import annotations

from dovetail.errors import ConfigError


def usage(message: str, *, where: str = "", hint: str = "") -> ConfigError:
    """Return the error for an invalid command line."""
    return ConfigError(message, code="USAGE", where=where, hint=hint)
