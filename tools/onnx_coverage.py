"""Write docs/onnx_coverage.md: the number of ONNX's backend tests that pass, by operator.

    python tools/onnx_coverage.py

Every case in scope is run. Which are out of scope, and why those that fail do, is what the data
file of the tests says; where that is not what happens, nothing is written.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.defs

from dovetail.errors import DovetailError
from dovetail.ir import TensorKind
from dovetail_onnx import backend
from dovetail_onnx.operators import CLASSICAL, ONNX

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "onnx_coverage.md"
sys.path.insert(0, str(ROOT / "plugins" / "frontends" / "onnx" / "tests" / "helpers"))

from onnx_cases import (  # noqa: E402 - what the tests of a dist share lies in no dist
    KINDS,
    REASONS,
    Case,
    Scope,
    load_cases,
    load_scope,
    run_case,
)
from onnx_coverage_microsoft import lines as microsoft_lines  # noqa: E402 - it needs the same

_CONTROL = ("If", "Loop", "Scan")
_NOTHING = "computed at import, or passed on"


@dataclass
class Row:
    """The results of one operator.

    Attributes:
        cases: Number of cases.
        scope: Number of cases in scope.
        passed: Number of cases that pass.
        ops: Ops of the models' graphs before any pass.
        reasons: Reasons why the other cases do not pass.
    """

    cases: int = 0
    scope: int = 0
    passed: int = 0
    ops: set[str] = field(default_factory=set)
    reasons: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """Result of a case: the ops of its graph before any pass, None where it fails."""

    case: Case
    ops: frozenset[str] | None


def main() -> None:
    """Measure and write the document."""
    logging.disable(logging.WARNING)  # about shapes that the cases leave open
    scope, cases = load_scope(), load_cases()
    if not scope.is_of_installed:
        sys.exit(f"the listed cases are for onnx {scope.onnx}, not {onnx.__version__}")
    results = [measured(case) for case in cases if case.name not in scope.out]
    wrong = {r.case.name for r in results if r.ops is None} ^ set(scope.failing)
    if wrong:
        sys.exit(f"cases that do not pass or fail as listed: {', '.join(sorted(wrong))}")
    found = (*document(scope, cases, results), *microsoft_lines())
    TARGET.write_text("\n".join(found) + "\n", "utf-8")


def measured(case: Case) -> Result:
    """Run a case."""
    with warnings.catch_warnings(action="ignore"):  # NumPy's, of infinities that it is about
        try:
            prepared = run_case(case)
        except (DovetailError, AssertionError):
            return Result(case, None)
        return Result(case, frozenset(ops_of(case, prepared)))


def ops_of(case: Case, prepared: backend.PreparedModel) -> Iterator[str]:
    """Return the computing ops of a case's graph before any pass.

    A constant that is an output goes through an op too, which says nothing of the operator.
    """
    inputs, _ = next(case.data_sets())
    for node in prepared.read(inputs).nodes:
        if any(t is not None and t.kind is not TensorKind.STATIC for t in node.inputs):
            yield node.op_type


def document(scope: Scope, cases: Sequence[Case], results: Sequence[Result]) -> Iterator[str]:
    """Return the lines of the document."""
    passed = [result for result in results if result.ops is not None]
    folded = [result for result in passed if not result.ops]
    yield "# ONNX coverage"
    yield ""
    yield f"Of the {len(cases)} backend tests of onnx {onnx.__version__}, {len(results)} are in"
    yield f"scope and **{len(passed)} pass ({len(passed) / len(results):.1%})**, each at its own"
    yield "tolerance, on the backend `cpu`. Written by `python tools/onnx_coverage.py`, which runs"
    yield "them; the cases out of scope and those that fail are listed, with reasons, in"
    yield "`plugins/frontends/onnx/tests/backend/scope.toml`."
    yield ""
    yield "Shapes are static, so an input that decides a shape or an attribute becomes a constant"
    yield f"of the value that the case gives it. In {len(folded)} of the cases that pass nothing is"
    yield "left then to compute: ONNX's own evaluator does that at import, and they say little."
    yield ""
    yield "Integers of 4 bits are kept in bytes: an INT4 input takes an int8 array of values from"
    yield "-8 to 7, a UINT4 one uint8 from 0 to 15, and outputs come in the same way. Nothing"
    yield "checks the range of what an input is given at run time."
    yield from ("", "| tests | all | in scope | passed |", "|---|---|---|---|")
    counts = Counter(case.kind for case in cases)
    tried = Counter(result.case.kind for result in results)
    good = Counter(result.case.kind for result in passed)
    for kind in KINDS:
        yield f"| {kind} | {counts[kind]} | {tried[kind]} | {good[kind]} |"
    yield from ("", "| out of scope | cases |", "|---|---|")
    for reason in REASONS:
        yield f"| {reason} | {sum(r == reason for r in scope.out.values())} |"
    rows = by_operator(scope, cases, results)
    yield from (
        "",
        "## Operators",
        "",
        "By the node tests of each, its written-out forms included.",
    )
    yield "Versions are those that an importer knows; an operator without one is replaced by ONNX's"
    yield "own definition, where it has one. Everything else is rejected with the reason."
    yield from ("", "| operator | versions | becomes | passed / in scope / all | why not |")
    yield "|---|---|---|---|---|"
    for operator in sorted(rows):
        row = rows[operator]
        becomes = ", ".join(sorted(row.ops)) or (_NOTHING if row.passed else "-")
        counted = f"{row.passed} / {row.scope} / {row.cases}"
        why = "; ".join(row.reasons) or "-"
        yield f"| {operator} | {versions(operator)} | {becomes} | {counted} | {why} |"


def by_operator(
    scope: Scope, cases: Sequence[Case], results: Sequence[Result]
) -> Mapping[str, Row]:
    """Return the results of each operator, by its node tests."""
    found = {result.case.name: result for result in results}
    operators = dict(_operators([case for case in cases if case.kind == "node"]))
    rows: dict[str, Row] = defaultdict(Row)
    for case in (case for case in cases if case.name in operators):
        row, result = rows[operators[case.name]], found.get(case.name)
        row.cases += 1
        row.scope += result is not None
        if result is not None and result.ops is not None:
            row.passed += 1
            row.ops |= result.ops
        else:
            row.reasons[scope.out.get(case.name) or scope.failing[case.name]] = None
    return rows


def _operators(cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Return each case's operator; an expanded case is named like the case that it expands."""
    plain = {case.name: case for case in cases if len(case.model.graph.node) == 1}
    for case in cases:
        about = plain.get(case.name.partition("_expanded")[0], case)
        node = about.model.graph.node[0]
        yield case.name, f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def versions(operator: str) -> str:
    """Return the versions of an operator that are converted, or how it is handled instead."""
    domain, _, op_type = operator.rpartition(":")
    table = CLASSICAL if domain == CLASSICAL.domain else ONNX
    if known := table.versions(op_type):
        return " ".join(map(str, known))
    if operator in _CONTROL:
        return "written out"
    try:
        schema = onnx.defs.get_schema(op_type, domain)
    except onnx.defs.SchemaError:
        return "-"
    given = any(
        # missing in onnx's type stubs
        getattr(schema, name)
        for name in ("has_function", "has_context_dependent_function")
    )
    return "by definition" if given else "-"


if __name__ == "__main__":
    main()
