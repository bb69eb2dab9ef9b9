"""Fixtures of the tests of traces."""

from recorded import program

__all__ = ["program"]
