"""The standard op set of Dovetail (package qti.aisw) and its graph passes.

`PACKAGE` holds the ops, `STANDARD` is its name, `is_op` tests what a node is, `build` adds nodes,
`passes` rewrites graphs.
"""

from dovetail_opset._package import PACKAGE, STANDARD, is_op

__all__ = ["PACKAGE", "STANDARD", "is_op"]
