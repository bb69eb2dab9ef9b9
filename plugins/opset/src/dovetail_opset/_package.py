"""The op package itself; `dovetail_opset.ops` fills it."""

from dovetail.ops import OpPackage

PACKAGE = OpPackage("qti.aisw", "2.7.0")
