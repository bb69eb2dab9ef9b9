"""Write the table of docs/export.md: the ONNX operators that each op is exported as.

    python tools/export_table.py

It is derived from the exported models of the conformance kit's op cases.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import onnx

from dovetail.errors import UnsupportedOpError
from dovetail.testing import bind
from dovetail_onnx.exporter import EXPORTED, OnnxExportOptions, OnnxQdqExporter
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

TARGET = Path(__file__).parents[1] / "docs" / "export.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
# Operators due to a tensor's type or order of axes, not to an op.
_OF_TENSORS = {"Cast", "DequantizeLinear", "QuantizeLinear", "Transpose"}


def main() -> None:
    """Try all cases and write the table."""
    head, rest = TARGET.read_text("utf-8").split(BEGIN)
    _, tail = rest.split(END)
    TARGET.write_text(f"{head}{BEGIN}{table()}{END}{tail}", "utf-8")


def table() -> str:
    """Return the table and the list of ops that cannot be exported."""
    operators, reasons = tried()
    lines = ["| op | ONNX operators | not expressible |\n", "|---|---|---|\n"]
    for op_type in sorted(EXPORTED):
        made = ", ".join(sorted(operators[op_type])) or "-"
        lines.append(f"| `{op_type}` | {made} | {'; '.join(sorted(reasons[op_type])) or '-'} |\n")
    missing = sorted(set(PACKAGE.schemas) - EXPORTED)
    listed = ", ".join(f"`{op_type}`" for op_type in missing)
    lines.append(f"\nNot exported ({len(missing)} of {len(PACKAGE.schemas)}): {listed}.\n")
    return "".join(lines)


def tried() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return each op's ONNX operators, and the reasons why cases of it were rejected."""
    operators: dict[str, set[str]] = defaultdict(set)
    reasons: dict[str, set[str]] = defaultdict(set)
    exporter = OnnxQdqExporter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        for case in CASES:
            graph = bind(case).graph(PACKAGE.schemas[case.op_type])
            try:
                exporter.export(graph, path, OnnxExportOptions())
            except UnsupportedOpError as error:
                reasons[case.op_type] |= {problem.message for problem in error.problems}
                continue
            operators[case.op_type] |= set(_operators(path))
    return operators, reasons


def _operators(path: Path) -> Iterator[str]:
    made = {node.op_type for node in onnx.load(path).graph.node}
    # an op that is nothing else is its tensors' own
    return iter(made - _OF_TENSORS or made)


if __name__ == "__main__":
    main()
