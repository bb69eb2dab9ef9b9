"""Every op case of the standard set that can be exported gives its answer on ONNX Runtime."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from exported import export, feeds_of, run, stored_outputs

from dovetail.errors import UnsupportedOpError
from dovetail.testing import OpCase
from dovetail.testing.binding import bind
from dovetail.testing.comparison import difference
from dovetail_onnx.exporter import EXPORTED
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES

# What a node may ask of ops that can be exported, and ONNX cannot express.
REFUSED = {
    "BatchPermutation-out_of_range": "the indices in[1] must be a constant",
    "BatchPermutation": "the indices in[1] must be a constant",
    "Cast-stored_values": "stored integers are read as numbers",
    "Gru-biases,_state,_reverse": "kept between runs",
    "Lstm-all_parts": "normalized gates",
    "Lstm-in_two_calls": "kept between runs",
    "MaskedSoftmax-compressed": "concatenated sequences",
    "RoiAlign-not_aligned": "one scale and one number of samples",
}
# How many of the cases prove something: most of them must.
LEAST_EXPORTED = 651


def refused(case: OpCase) -> str | None:
    """Return what the refusal of a case says, None if it can be exported."""
    if case.op_type not in EXPORTED:
        return f"unsupported op qti.aisw::{case.op_type}"
    text = REFUSED.get(case.id)
    return None if text is None else re.escape(text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: OpCase, tmp_path: Path) -> None:
    bound = bind(case)
    graph = bound.graph(PACKAGE.schemas[case.op_type])
    refusal = refused(case)
    if refusal is not None:
        with pytest.raises(UnsupportedOpError, match=refusal):
            export(graph, tmp_path / "case.onnx")
        return
    model = export(graph, tmp_path / "case.onnx")
    found = stored_outputs(graph, run(model, feeds_of(graph, bound.feeds())))
    for tensor, answer in zip(graph.outputs, bound.expected, strict=True):
        assert not difference(found[tensor.name], answer, case), tensor.name


def test_most_cases_are_of_ops_that_can_be_exported() -> None:
    exported = [c for c in CASES if refused(c) is None]
    assert len(exported) >= LEAST_EXPORTED


def test_the_table_names_ops_of_the_standard_set() -> None:
    assert set(PACKAGE.schemas) >= EXPORTED
