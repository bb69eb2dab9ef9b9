"""Write docs/onnx_coverage.md: the number of ONNX's backend tests that pass, by operator.

    python tools/onnx_coverage.py

Every case in scope is run. The data file of the tests lists the cases that are out of scope and
the reasons of those that fail; if the results differ from it, nothing is written.
"""

from __future__ import annotations

import logging
import sys
import textwrap
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
from dovetail_onnx._control import REPLACED
from dovetail_onnx.operators import CLASSICAL, ONNX

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "onnx_coverage.md"
sys.path.insert(0, str(ROOT / "plugins" / "frontends" / "onnx" / "tests" / "helpers"))

from onnx_cases import (  # noqa: E402 - helpers of tests are in no dist
    KINDS,
    REASONS,
    Case,
    Scope,
    load_cases,
    load_scope,
    run_case,
)
from onnx_coverage_microsoft import lines as microsoft_lines  # noqa: E402 - it needs the same

RULES = (
    "**Operator sets.** `ai.onnx` is another name of ONNX's own domain. Any other domain that"
    " a model uses without importing it counts as version 1, as in ONNX Runtime.",
    "**Unused inputs.** An input that no output depends on is an input of the graph all the "
    "same: `Session.run`, input lists and calibration data contain it, and its values are "
    "ignored. It is left out, with a warning, if its type or shape is unknown, or if the "
    "model is cut with `--out-name`.",
    "**64 bits.** ONNX's indices are int64, QNN's are 32-bit integers. A constant that does "
    "not fit its op is an error of the conversion, which names the node and the value. "
    "Computed indices saturate at the limits of INT_32 before they are narrowed, so an index "
    "out of range stays out of range, and the op raises an error or follows its own rule "
    "(OneHot: off everywhere). Negative indices count from the end. A `Cast` of the model "
    "itself wraps, as ONNX says.",
    "**4 bits.** Integers of 4 bits are stored in bytes: an INT4 input takes an int8 array of"
    " values from -8 to 7, a UINT4 input uint8 from 0 to 15; outputs are of the same types. "
    "The range of input values is not checked at run time.",
    "**Dropout.** Dropout in training mode is an error unless its ratio is 0; `--dropout off`"
    " converts it as at inference, where it does nothing.",
    "**Loops.** `If`, `Loop` and `Scan` are written out, so the condition and the number of "
    "iterations must be known; at most 10,000 nodes. Where inputs of a float type decide the "
    "condition of an `If`, both branches run, and the outputs of one are selected; their shapes and"
    " types must be the same. A loop that is an LSTM or a GRU becomes one Lstm or Gru, of up to "
    "65,536 steps: Keras (tf2onnx) and JAX export such loops, in many spellings. On the HTP, an "
    "Lstm has 8 bits. LSTM and GRU with other activations than these ops have are written out like "
    "RNN: up to 500 steps of an LSTM, 555 of a GRU, 2000 of an RNN. So are those whose sequences "
    "have different lengths, known or computed: up to 416, 454 and 1111 steps.",
    "**Sequences** are lists of tensors that are known at import, also those that a loop builds: "
    "their lengths, the sizes of their parts and positions in them must be known. Inputs and "
    "outputs of the model must be tensors.",
    "**External data** is mapped. A dry run reads none of it; a conversion reads a weight "
    "when a pass needs its values or when the `.dvt` is written. Weights in the model file itself "
    "are read one by one, and held once: 268 MB of them took 285 MB.",
    "**Experimental operators** of opset 7 to 9 (`Affine`, `Crop`, `GivenTensorFill`, "
    "`ImageScaler`, `ParametricSoftplus`, `ScaledTanh`, `ThresholdedRelu`) are converted; "
    "ONNX has no tests of them any more.",
)
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
    """The result of a case: the ops of its graph before any pass, None if it fails."""

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
    with warnings.catch_warnings(action="ignore"):  # NumPy warns of infinities in cases
        try:
            prepared = run_case(case)
        except (DovetailError, AssertionError):
            return Result(case, None)
        return Result(case, frozenset(ops_of(case, prepared)))


def ops_of(case: Case, prepared: backend.PreparedModel) -> Iterator[str]:
    """Yield the computing ops of a case's graph before any pass.

    A constant that is an output also passes through an op, which is unrelated to the operator.
    """
    inputs, _ = next(case.data_sets())
    for node in prepared.read(inputs).nodes:
        if any(t is not None and t.kind is not TensorKind.STATIC for t in node.inputs):
            yield node.op_type


def document(scope: Scope, cases: Sequence[Case], results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of the document."""
    passed = [result for result in results if result.ops is not None]
    folded = [result for result in passed if not result.ops]
    yield "# ONNX coverage"
    yield ""
    yield f"Of the {len(cases)} backend tests of onnx {onnx.__version__}, {len(results)} are in"
    yield f"scope and **{len(passed)} pass ({len(passed) / len(results):.1%})**, each at its own"
    yield "tolerance, on the backend `cpu`. `python tools/onnx_coverage.py` runs them and writes"
    yield "this file; `plugins/frontends/onnx/tests/backend/scope.toml` lists the cases out of"
    yield "scope and those that fail, with reasons."
    yield ""
    yield "Shapes are static, so an input that decides a shape or an attribute becomes a constant"
    yield f"with the value of the case. {len(folded)} of the cases that pass leave nothing to"
    yield "compute then: ONNX's own evaluator does it at import, so they prove little."
    yield from ("", "## Rules", "")
    for rule in RULES:
        yield from textwrap.wrap(
            rule, 98, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
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
        "Counted by the node tests of each, including those of its definition.",
    )
    yield "Versions are those with an importer; an operator without one is replaced by ONNX's own"
    yield "definition, if it has one. Everything else is an error that states the reason."
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
    """Yield each case's operator; an expanded case is named like the case that it expands."""
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
    if operator in REPLACED:
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
