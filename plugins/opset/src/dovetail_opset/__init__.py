"""The standard op set of Dovetail (package qti.aisw) and its graph passes.

`PACKAGE` holds the ops, `build` adds nodes, `passes` rewrites graphs.
"""

from dovetail_opset._package import PACKAGE

__all__ = ["PACKAGE"]
