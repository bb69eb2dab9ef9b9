"""The part of docs/onnx_coverage.md on ONNX Runtime's own operators."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from microsoft_cases import Case, assert_like, load_cases, run_peer
from microsoft_cases.refused import REFUSED

from dovetail.errors import UnsupportedOpError
from dovetail.ir import Graph, TensorKind
from dovetail_onnx import OnnxFrontend, backend
from dovetail_onnx.operators import MICROSOFT, ONNX
from dovetail_onnx.operators.microsoft.normalization import OF_ONNX_DOMAIN


def lines() -> Iterator[str]:
    """Yield the lines, after running all cases on the backend and on ONNX Runtime.

    Raises:
        AssertionError: A case's results differ from ONNX Runtime's, or an unsupported one is
            converted.
    """
    cases = [c for c in load_cases() if c.domain or c.op_type in OF_ONNX_DOMAIN]
    becomes: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        becomes[_operator(case)] |= set(ops_of(case))
    reasons: dict[str, list[str]] = defaultdict(list)
    for each in REFUSED:
        reasons[_operator(each.case)].append(_reason(each.case))
    yield from ("", "## ONNX Runtime's operators", "")
    yield "The domain com.microsoft, and two operators that ONNX Runtime has in ONNX's domain. All"
    yield f"{len(cases)} cases on the backend `cpu` return what ONNX Runtime's own kernels return;"
    yield "`becomes` lists the ops before any pass. `BiasDropout` has no kernel for the CPU there"
    yield "and is tested by its definition. All other operators of the domain are errors."
    yield from (
        "",
        "| operator | versions | becomes | cases | not converted |",
        "|---|---|---|---|---|",
    )
    untested = {f"{MICROSOFT.domain}:{op_type}" for op_type in MICROSOFT.operators}
    for operator in sorted(becomes.keys() | untested):
        count = sum(_operator(case) == operator for case in cases)
        ops, why = ", ".join(sorted(becomes[operator])) or "-", "; ".join(reasons[operator])
        yield f"| {operator} | {_versions(operator)} | {ops} | {count} | {why or '-'} |"


def ops_of(case: Case) -> Iterator[str]:
    """Run a case and return the computing ops of its graph."""
    prepared = backend.prepare(case.model)
    try:
        names = [info.name for info in case.model.graph.input]
        found = prepared.run([case.feeds[name] for name in names])
    finally:
        prepared.close()
    wanted = run_peer(case.model, case.feeds)
    assert_like(case, dict(zip(wanted, found, strict=True)), wanted)
    for node in _read(case).nodes:
        if any(t is not None and t.kind is not TensorKind.STATIC for t in node.inputs):
            yield node.op_type


def _reason(case: Case) -> str:
    try:
        _read(case)
    except UnsupportedOpError:
        return case.about
    raise AssertionError(f"{case.name} is converted")


def _read(case: Case) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model.SerializeToString())
        (graph,) = OnnxFrontend().read(path)
        return graph


def _operator(case: Case) -> str:
    return f"{case.domain}:{case.op_type}" if case.domain else case.op_type


def _versions(operator: str) -> str:
    domain, _, op_type = operator.rpartition(":")
    versions: Sequence[int] = (MICROSOFT if domain else ONNX).versions(op_type)
    return " ".join(map(str, versions))
