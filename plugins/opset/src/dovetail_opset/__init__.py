"""The standard op set of Dovetail (package qti.aisw) and its graph passes.

`PACKAGE` holds the ops, `build` makes nodes of them, `passes` rewrites graphs of them.
"""

from dovetail_opset._package import PACKAGE

__all__ = ["PACKAGE"]
