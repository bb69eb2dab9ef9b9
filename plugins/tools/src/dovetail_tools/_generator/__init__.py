"""The generator of op packages: installable dists from definitions of ops."""

from dovetail_tools._generator._write import Generated, generate

__all__ = ["Generated", "generate"]
