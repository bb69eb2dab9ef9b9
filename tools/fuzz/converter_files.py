"""Files of QNN's converters with their weights, mutated, and their trial."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dovetail
from dovetail.errors import DovetailError, GraphError
from dovetail.ir import (
    AxisScaleOffset,
    DType,
    Graph,
    Node,
    Param,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)
from dovetail.ops.exporter import ExportOptions
from dovetail_qnn import QnnJsonExporter, QnnJsonFrontend
from fuzz import trial
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.seeds import Seed

_BETWEEN = b"\n--- weights ---\n"  # a mutated file has both
_BYTES = 0.15  # share of mutations that know nothing of the format
_WEIGHTS = 0.25  # share of mutations of the weights
_BLOCK = 512
_EXTREMES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 5, 64, 306, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, 10**30, 1e308, -0.5,
    "", "inf", "x", [], [0], [[]], [1] * 65, {}, {"562": 1}, {"306": -1},
)  # fmt: skip


def converter_seeds() -> list[Seed]:
    """Return a quantized convolution, and one with ops of another package."""
    return [
        Seed("conv", _exported(small_graph(False))),
        Seed("packages", _exported(small_graph(True))),
    ]


def small_graph(is_odd: bool) -> Graph:
    graph = Graph("net")
    q8, scale = DType.UFIXED_POINT_8, ScaleOffset(0.5, -3)
    x = graph.add_tensor(Tensor("x", q8, (1, 4, 4, 2), TensorKind.APP_WRITE, encoding=scale))
    per_axis = AxisScaleOffset(3, np.full(3, 0.25, np.float32), np.zeros(3, np.int32))
    values = np.arange(6, dtype=np.int8).reshape(1, 1, 2, 3)
    w = graph.add_tensor(Tensor.static("w", values, DType.SFIXED_POINT_8, encoding=per_axis))
    c = graph.add_tensor(Tensor("/c", q8, (1, 4, 4, 3), encoding=scale, source_perm=(0, 2, 3, 1)))
    y = graph.add_tensor(Tensor("y", q8, (1, 4, 4, 3), TensorKind.APP_READ, encoding=scale))
    stride = Tensor.static("s", np.ones(2, np.uint32))
    pads = Tensor.static("p", np.zeros((2, 2), np.uint32))
    params: dict[str, Param] = {
        "stride": stride,
        "pad_amount": pads,
        "group": Scalar(DType.UINT_32, 1),
    }
    graph.add_node(Node("/conv", "qti.aisw", "Conv2d", [x, w], [c], params))
    package, op_type = ("my.pkg", "Gain") if is_odd else ("qti.aisw", "Relu")
    inputs = [c, None, w] if is_odd else [c]
    scalars: dict[str, Param] = {
        "text": Scalar(DType.STRING, "a"),
        "low": Scalar(DType.FLOAT_32, float("-inf")),
    }
    graph.add_node(Node("last", package, op_type, inputs, [y], scalars if is_odd else {}))
    return graph


def _exported(graph: Graph) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m_net.json"
        QnnJsonExporter().export(graph, path, ExportOptions())
        return _BETWEEN.join((path.read_bytes(), path.with_name("m.bin").read_bytes()))


def mutate_converter_file(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a model with its weights."""
    random = Random(f"{run}:{number}")
    seed = seeds[random.randrange(len(seeds))]
    text, _, weights = seed.data.partition(_BETWEEN)
    chance = random.random()
    if chance < _BYTES:
        how = ["bytes"]
        text = damage(text, random)
    elif chance < _BYTES + _WEIGHTS:
        mutation = random.choice(_OF_WEIGHTS)
        how, weights = [mutation.__name__.strip("_")], mutation(weights, random)
    else:
        data, how = json.loads(text), []
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            how.append(_changed(data, random))
        text = json.dumps(data).encode()
    return Mutated(seed.name, tuple(how), text + _BETWEEN + weights)


def read_converter_file(path: Path) -> None:
    """Convert a model; where it is read, what is written again must be the same.

    Raises:
        DovetailError: The model is rejected.
        FaultError: The model differs after an export.
    """
    text, _, weights = path.read_bytes().partition(_BETWEEN)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        model = Path(folder) / "m_net.json"
        model.write_bytes(text)
        model.with_name("m.bin").write_bytes(weights)
        (graph,) = QnnJsonFrontend().read(model)
        again = model.with_name("again_net.json")
        try:
            QnnJsonExporter().export(graph, again, ExportOptions())
            (found,) = QnnJsonFrontend().read(again)
            QnnJsonExporter().export(found, model.with_name("third_net.json"), ExportOptions())
        except DovetailError as error:
            raise trial.FaultError(f"a graph that was read is not written: {error}") from error
        for suffix in ("_net.json", ".bin"):
            first, second = (model.with_name(f"{stem}{suffix}") for stem in ("again", "third"))
            if first.exists() and _plain(first) != _plain(second):
                raise trial.FaultError(f"{suffix} differs after export and import")
        with suppress(GraphError):  # a node that does not match its op
            dovetail.convert(model)


def _plain(path: Path) -> bytes:
    return path.read_bytes().replace(b"again", b"third")


# -- mutations -----------------------------------------------------------------------------------


def _changed(data: Any, random: Random) -> str:
    """Change one value of nested data in place, and return how."""
    spots: list[tuple[Any, Any]] = []
    waiting = [data["graph"], data.get("dovetail", {})]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at))
        spots += [(at, key) for key in keys]
        waiting += [at[key] for key in keys if isinstance(at[key], dict | list)]
    at, key = random.choice(spots)
    kind = random.random()
    if kind < 0.5:
        at[key] = random.choice(_EXTREMES)
        return "value"
    if kind < 0.7:
        other, which = random.choice(spots)
        at[key] = json.loads(json.dumps(other[which]))
        return "other value"
    if kind < 0.85 or isinstance(at, list):
        del at[key]
        return "removed"
    at[random.choice([str(k) for _, k in spots])] = at.pop(key)
    return "renamed"


def _damaged(weights: bytes, random: Random) -> bytes:
    return damage(weights, random)


def _cut(weights: bytes, random: Random) -> bytes:
    return weights[: random.randrange(len(weights))]


def _header(weights: bytes, random: Random) -> bytes:
    """Change a field of a header, and make its checksum right."""
    at = _BLOCK * random.randrange(0, len(weights) // _BLOCK)
    header = bytearray(weights[at : at + _BLOCK])
    start, size = random.choice(((0, 100), (124, 12), (124, 12), (156, 1), (257, 6), (345, 155)))
    new = random.choice(
        (b"777777777777", b"\x80" + b"\xff" * 11, b"x", b"L", b"2", b"../w.raw", b"")
    )
    header[start : start + size] = new[:size].ljust(size, b"\0")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return weights[:at] + bytes(header) + weights[at + _BLOCK :]


def _repeated(weights: bytes, random: Random) -> bytes:
    at = _BLOCK * random.randrange(0, len(weights) // _BLOCK)
    part = weights[at : at + _BLOCK * random.choice((1, 2))]
    return weights[:at] + part * random.choice((2, 50)) + weights[at:]


_OF_WEIGHTS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _damaged,
    _cut,
    _header,
    _header,
    _repeated,
)
