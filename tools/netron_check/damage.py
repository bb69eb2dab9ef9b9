"""Damaged copies of files, which the check must notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from dovetail.ir import Graph

# An op type in each format, and one of the same length.
_TYPES: Mapping[str, tuple[bytes, bytes]] = {
    "json": (b'"Conv2d"', b'"Conv9d"'),
    "dlc": (b"Conv2d\0", b"Conv9d\0"),
    "onnx": (b"\x04Conv", b"\x04Cony"),
}


def is_damageable(graph: Graph) -> bool:
    """Return whether files of a graph can be damaged in all ways."""
    return any(node.op_type == "Conv2d" for node in graph.nodes)


def damaged(path: Path, format_: str) -> Iterator[tuple[str, bool]]:
    """Damage a file with convolutions in turn; restore it at the end.

    Args:
        path: The file.
        format_: Its format.

    Yields:
        What is damaged now, and whether Netron is to show a message instead of a graph.
    """
    data = path.read_bytes()
    old, new = _TYPES[format_]
    if old not in data:
        raise AssertionError(f"{path.name} has no convolution")
    yield from _each(path, {"half of it": data[: len(data) // 2]}, True)
    yield from _each(path, {"an op type": data.replace(old, new)}, False)
    if format_ == "json":
        weights = path.with_name(f"{path.stem.removesuffix('_net')}.bin")
        whole = weights.read_bytes()
        at = 512  # the first payload, after the first header of the archive
        flipped = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        yield from _each(weights, {"a weight": flipped, "no weights": b""}, False)


def _each(
    path: Path, contents: Mapping[str, bytes], is_rejected: bool
) -> Iterator[tuple[str, bool]]:
    data = path.read_bytes()
    for name, content in contents.items():
        path.write_bytes(content)
        yield name, is_rejected
    path.write_bytes(data)
