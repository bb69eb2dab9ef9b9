"""The Snake activation as an op package for Dovetail."""

from snake_ops.ops import PACKAGE

__all__ = ["PACKAGE"]
