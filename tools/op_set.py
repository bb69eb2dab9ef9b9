"""Write docs/op_set.md: for each op, its source operators and the backends that run it.

    python tools/op_set.py

Every entry of the table is the result of a trial: the frontend reads the models of ONNX's tests,
and every op case of the conformance kit runs on each backend, also in further types.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.loader import load_model_tests

from dovetail.errors import DovetailError
from dovetail.ir import DType
from dovetail.ops import OpSchema
from dovetail.plugins import names
from dovetail.runtime.names import COMPOSITE
from dovetail.testing import Bench, OpCase, Status, bind, run_case, typed
from dovetail_onnx import OnnxFrontend
from dovetail_opset import PACKAGE
from dovetail_opset.families import FAMILIES
from dovetail_opset.testing import CASES
from dovetail_opset.testing.quantized import CASES as QUANTIZED

TARGET = Path(__file__).parents[1] / "docs" / "op_set.md"
# Ops that have no schema yet, and why.
OPEN = {
    "CreateSparse": "the graph has no sparse tensors",
    "GetSparseIndices": "the graph has no sparse tensors",
    "GetSparseValues": "the graph has no sparse tensors",
    "SparseToDense": "the graph has no sparse tensors",
}
# Frontends whose formats name the ops of the set themselves: no operators become ops.
NAME_OPS = ("dlc", "qnn-cpp", "qnn-json")
_SHORT = {"FLOAT": "f", "UFIXED_POINT": "uq", "SFIXED_POINT": "sq", "UINT": "u", "INT": "i"}

Found = Mapping[str, Iterable[str]]


def main() -> None:
    """Measure and write the document."""
    produced = {"onnx": onnx_operators()}
    run = {backend: backend_types(backend) for backend in computing_backends()}
    TARGET.write_text("\n".join(document(produced, run)) + "\n", "utf-8")


def computing_backends() -> list[str]:
    """Return the installed backends that run ops themselves."""
    # a placement runs what its backends run, and the Saver computes nothing
    return [name for name in names("dovetail.backends") if name not in (*COMPOSITE, "saver")]


def onnx_operators(wanted: Callable[[str], bool] = lambda _: True) -> Found:
    """Return the ONNX operators that become each op, before any pass, by ONNX's own tests.

    Args:
        wanted: Returns whether an operator is checked.
    """
    found: dict[str, set[str]] = defaultdict(set)
    frontend = OnnxFrontend()
    logging.disable(logging.WARNING)  # about dimensions that the tests leave open
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        for model in _onnx_models():
            operators = {node.op_type for node in model.graph.node} - {"Constant"}
            if len(operators) != 1 or not all(map(wanted, operators)):
                continue  # of several, the operator of an op would be unknown
            path.write_bytes(model.SerializeToString())
            try:
                (graph,) = frontend.read(path)
            except DovetailError:
                continue
            for node in graph.nodes:
                found[node.op_type] |= operators
    return found


def _onnx_models() -> Iterator[ModelProto]:
    """Yield the models of ONNX's tests, with one input and with all inputs."""
    for kind in ("pytorch-operator", "pytorch-converted", "simple"):
        for case in load_model_tests(kind=kind):
            if case.model_dir is not None:
                yield onnx.load(Path(case.model_dir) / "model.onnx")
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of infinities
        cases = collect_testcases(None)
    for case in cases:
        if case.model is None:
            continue
        yield case.model
        given = case.data_sets[0][0] if case.data_sets else []
        values = dict(zip((i.name for i in case.model.graph.input), given, strict=False))
        if len(values) > 1 and len(values) == len(case.model.graph.input):
            yield _with_one_input(case.model, values)


def _with_one_input(model: ModelProto, values: Mapping[str, Any]) -> ModelProto:
    """Return a model in which all inputs but the first are constants, like weights and shapes."""
    first, *others = model.graph.input
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.input[:]
    made.graph.input.append(first)
    for each in others:
        value = values[each.name]
        if isinstance(value, np.ndarray | np.generic):
            value = numpy_helper.from_array(np.asarray(value))
        if isinstance(value, TensorProto):  # otherwise it is not a tensor, and is rejected
            made.graph.initializer.add().CopyFrom(value)
            made.graph.initializer[-1].name = each.name
    return made


def backend_types(backend: str) -> Found:
    """Return the types in which a backend runs each op: all its cases of that type pass."""
    bench = Bench(backend)
    outcomes: dict[tuple[str, str], set[Status]] = defaultdict(set)
    for case in _cases():
        outcome = run_case(bench, case)
        outcomes[case.op_type, _type_of(case)].add(outcome.status)
        if outcome.status is Status.FAILED:
            print(f"{backend} {case.id}: {outcome.reason}", file=sys.stderr)
    found: dict[str, list[str]] = defaultdict(list)
    for (op_type, dtype), statuses in outcomes.items():
        if statuses == {Status.PASSED}:
            found[op_type].append(dtype)
    return found


def _cases() -> Iterator[OpCase]:
    yield from CASES
    yield from QUANTIZED
    known = {case.id for case in CASES}
    for case in CASES:
        is_open = case.dtype is None and not case.outputs and callable(case.expected)
        if is_open and _type_of(case) == "f32":
            yield from (c for c in typed(case, DType.FLOAT_16) if c.id not in known)


def _type_of(case: OpCase) -> str:
    """The type of the data: of the first float or fixed-point input, else of the first one."""
    inputs = [given.dtype for given in bind(case).inputs if given is not None]
    outputs = [given.dtype for given in bind(case).expected]
    data = [d for d in inputs if d.is_float or d.is_fixed_point] or inputs or outputs
    return short(data[0])


def short(dtype: DType) -> str:
    """Return a type's short name: f32, uq8, i32, bool."""
    if dtype is DType.BOOL_8:
        return "bool"
    if dtype is DType.BFLOAT_16:
        return "bf16"
    kind, _, bits = dtype.name.rpartition("_")
    return f"{_SHORT.get(kind, kind.lower())}{bits}"


def document(produced: Mapping[str, Found], run: Mapping[str, Found]) -> Iterator[str]:
    """Yield the lines of the document."""
    count = len(PACKAGE.schemas)
    yield "# The standard op set"
    yield ""
    yield f"`{PACKAGE.name}` {PACKAGE.version}: {count} of {count + len(OPEN)} ops. Generated by"
    yield "`python tools/op_set.py` from runs: the frontend reads the models of ONNX's own tests,"
    yield "without passes, and each backend runs the op cases of the conformance kit."
    yield "A type is listed if all cases of the op in it pass; other types may work too."
    yield ""
    yield "Types: f float, u and i plain integers, uq and sq unsigned and signed fixed point."
    heads = ["op", *(f"from {name}" for name in produced), *(f"{name} runs" for name in run)]
    for title, ops in _families():
        yield from ("", f"## {title}", "")
        yield f"| {' | '.join(heads)} |"
        yield f"|{'---|' * len(heads)}"
        for op in ops:
            cells = [f"`{op}`"]
            cells += [", ".join(sorted(found.get(op, ()))) or "-" for found in produced.values()]
            cells += [
                " ".join(sorted(found.get(op, ()), key=_order)) or "-" for found in run.values()
            ]
            yield f"| {' | '.join(cells)} |"
    yield from ("", "## Open", "", "| op | why |", "|---|---|")
    yield from (f"| `{name}` | {why} |" for name, why in sorted(OPEN.items()))


def _families() -> Iterator[tuple[str, list[str]]]:
    """Yield the ops by family, under the first line of the family's docstring."""
    for family, ops in FAMILIES.items():
        module = sys.modules[_module(PACKAGE.schemas[ops[0]])]
        title = (module.__doc__ or family).splitlines()[0]
        yield title.rstrip("."), sorted(ops)


def _module(schema: OpSchema) -> str:
    return schema.op.__module__


def _order(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


if __name__ == "__main__":
    main()
