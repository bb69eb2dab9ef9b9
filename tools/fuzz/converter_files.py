"""Files of QNN's converters with their weights, mutated, and their trial."""

from __future__ import annotations

import copy
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
from dovetail_qnn import (
    QnnCppExporter,
    QnnCppFrontend,
    QnnCppOptions,
    QnnJsonExporter,
    QnnJsonFrontend,
)
from fuzz import trial
from fuzz.damage import damage
from fuzz.mutation import Mutated
from fuzz.programs import mutate_source
from fuzz.seeds import Seed

_BETWEEN = b"\n--- weights ---\n"  # a mutated file has both
_BYTES = 0.15  # share of mutations that know nothing of the format
_WEIGHTS = 0.25  # share of mutations of the weights
_BLOCK = 512
_DEFAULT = QnnCppOptions()
_ENDS = {".json": "_net.json", ".cpp": ".cpp"}
_EXTREMES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 5, 64, 306, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, 10**30, 1e308, -0.5,
    "", "inf", "x", [], [0], [[]], [1] * 65, {}, {"562": 1}, {"306": -1},
)  # fmt: skip


def converter_seeds() -> list[Seed]:
    """Return a quantized convolution, and one with ops of another package, as JSON."""
    return [Seed(name, _exported(graph, QnnJsonExporter())) for name, graph in _graphs()]


def cpp_seeds() -> list[Seed]:
    """Return the same graphs as C++, in both forms, and one of variables and their members."""
    forms = (QnnCppOptions(), QnnCppOptions(op_style="2.18"))
    exported = [
        Seed(f"{name} {form.op_style}", _exported(graph, QnnCppExporter(), form))
        for name, graph in _graphs()
        for form in forms
    ]
    _, _, weights = exported[0].data.partition(_BETWEEN)
    return [*exported, Seed("variables", _BETWEEN.join((_assigned().encode(), weights)))]


def _assigned() -> str:
    """Return a Relu in the form of other programs, which assign the members of each struct."""
    text = """ModelError_t QnnModel_composeGraphs() {
QnnModel net;
VALIDATE(net.initialize(backend, interface, context, "net", false, 1, graphs), err);
"""
    for name, kind in (("x", "APP_WRITE"), ("y", "APP_READ")):
        text += f"""uint32_t sizes_{name}[] = {{2, 3}};
Qnn_Tensor_t {name} = QNN_TENSOR_INIT;
{{
{name}.version = QNN_TENSOR_VERSION_1;
{name}.v1.name = "{name}";
{name}.v1.type = QNN_TENSOR_TYPE_{kind};
{name}.v1.dataType = QNN_DATATYPE_UFIXED_POINT_8;
{name}.v1.quantizeParams.encodingDefinition = QNN_DEFINITION_DEFINED;
{name}.v1.quantizeParams.quantizationEncoding = QNN_QUANTIZATION_ENCODING_SCALE_OFFSET;
{name}.v1.quantizeParams.scaleOffsetEncoding.scale = 0.5;
{name}.v1.quantizeParams.scaleOffsetEncoding.offset = -3;
{name}.v1.rank = 2;
{name}.v1.dimensions = sizes_{name};
}}
"""
    return (
        text
        + """VALIDATE(net.addTensor("x", x), err);
Qnn_Param_t operation = QNN_PARAM_INIT;
operation.paramType = QNN_PARAMTYPE_SCALAR;
operation.name = "operation";
operation.scalarParam.dataType = QNN_DATATYPE_UINT_32;
operation.scalarParam.uint32Value = 4;
Qnn_Param_t params[] = {operation};
const char* inputs[] = {"x"};
Qnn_Tensor_t outputs[] = {y};
VALIDATE(net.addNode(QNN_OPCONFIG_VERSION_1, "relu", "qti.aisw", "ElementWiseNeuron", params, 1,
  inputs, 1, outputs, 1), err);
return err;
}
"""
    )


def _graphs() -> list[tuple[str, Graph]]:
    return [("conv", small_graph(False)), ("packages", small_graph(True))]


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


def _exported(graph: Graph, exporter: QnnJsonExporter, options: QnnCppOptions = _DEFAULT) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m{_ENDS[exporter.suffix]}"
        exporter.export(graph, path, options)
        return _BETWEEN.join((path.read_bytes(), path.with_name("m.bin").read_bytes()))


def mutate_converter_file(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a model as JSON with its weights."""
    return _mutated(seeds, run, number, _changed_json)


def mutate_cpp(seeds: Sequence[Seed], run: int, number: int) -> Mutated:
    """Return a model as C++ with its weights."""
    return _mutated(seeds, run, number, mutate_source)


def _mutated(
    seeds: Sequence[Seed],
    run: int,
    number: int,
    change: Callable[[bytes, Random], tuple[bytes, list[str]]],
) -> Mutated:
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
        text, how = change(text, random)
    return Mutated(seed.name, tuple(how), text + _BETWEEN + weights)


def read_converter_file(path: Path) -> None:
    """Convert a model as JSON; where it is read, what is written again must be the same.

    Raises:
        DovetailError: The model is rejected.
        FaultError: The model differs after an export.
    """
    _read(path, QnnJsonFrontend(), QnnJsonExporter())


def read_cpp(path: Path) -> None:
    """Convert a model as C++; see `read_converter_file`."""
    _read(path, QnnCppFrontend(), QnnCppExporter())


def _read(
    path: Path, frontend: QnnJsonFrontend | QnnCppFrontend, exporter: QnnJsonExporter
) -> None:
    text, _, weights = path.read_bytes().partition(_BETWEEN)
    end = _ENDS[exporter.suffix]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        model, again, third = (Path(folder) / f"{stem}{end}" for stem in ("m", "again", "third"))
        model.write_bytes(text)
        model.with_name("m.bin").write_bytes(weights)
        graphs = frontend.read(model)
        try:
            exporter.export(graphs[0], again, QnnCppOptions())
            (found,) = frontend.read(again)
            exporter.export(found, third, QnnCppOptions())
        except DovetailError as error:
            raise trial.FaultError(f"a graph that was read is not written: {error}") from error
        for file in again.parent.glob("again*"):
            if _plain(file) != _plain(file.with_name(file.name.replace("again", "third"))):
                raise trial.FaultError(f"{file.suffix} differs after export and import")
        with suppress(GraphError):  # a node that does not match its op
            dovetail.convert(model)


def _plain(path: Path) -> bytes:
    return path.read_bytes().replace(b"again", b"third")


# -- mutations -----------------------------------------------------------------------------------


def _changed_json(text: bytes, random: Random) -> tuple[bytes, list[str]]:
    data = json.loads(text)
    how = [_changed(data, random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    return json.dumps(data).encode(), how


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
        at[key] = copy.deepcopy(random.choice(_EXTREMES))  # later changes may be inside it
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
