"""Writes op packages: from definitions of ops to dists that can be installed."""

from dovetail_tools._generator._write import Generated, generate

__all__ = ["Generated", "generate"]
