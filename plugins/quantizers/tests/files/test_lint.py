"""Lint: each rule finds what it is for, and leaves what is well alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE
from dovetail_quantizers.files import EncodingsFile, Form, TensorEncoding
from dovetail_quantizers.files.lint import Remark, lint
from dovetail_quantizers.files.model_tensors import model_tensors_of


def entry(name: str = "t", scale: Any = 0.1, offset: Any = -61, **more: Any) -> TensorEncoding:
    scales, offsets = np.asarray(scale, np.float64), np.asarray(offset)
    if "minimum" in more:
        more |= {key: np.asarray(more[key], np.float64) for key in ("minimum", "maximum")}
    form = Form.PER_CHANNEL if scales.ndim else Form.PER_TENSOR
    return TensorEncoding(name, form=form, scales=scales, offsets=offsets, **more)


def remarks(*entries: TensorEncoding, graph: Graph | None = None) -> list[Remark]:
    places = None if graph is None else model_tensors_of([graph], OpRegistry.of(PACKAGE))
    return lint(EncodingsFile.of("1.0.0", entries), (), places)


@pytest.mark.parametrize(
    "fine",
    [
        entry(),
        entry(offset=0, symmetric=True),  # symmetric with unsigned storage
        entry(offset=-127, symmetric=True),  # strict
        entry(scale=[0.1, 0.2], offset=[-128, -128], symmetric=True),
        entry(minimum=-6.1, maximum=19.4),
        entry(offset=-128, symmetric=True, minimum=-12.7, maximum=12.7),
        entry(offset=-128, symmetric=True, minimum=-12.8, maximum=12.7),
        entry(scale=0.0001 / 255, offset=0),  # the least range that the quantizer makes
        TensorEncoding("t", "float", 16),
    ],
)
def test_good_entries_are_left_alone(fine: TensorEncoding) -> None:
    assert remarks(fine) == []


@pytest.mark.parametrize(
    ("odd", "rule", "part"),
    [
        (entry(scale=[0.1, 0.2], offset=[-128, -7]), "asymmetric-per-channel", "PER_CHANNEL"),
        (entry(symmetric=True), "symmetric-offset", "offset -61"),
        (entry(scale=[1e-9, 0.1], offset=[-128, -128]), "range-tiny", "1 of 2 encodings"),
        (entry(scale=1e30), "range-huge", "2.55e+32"),
        (entry(minimum=-6.13, maximum=19.37), "zero-not-representable", "not a point of the grid"),
        (entry(minimum=-6.2, maximum=19.3), "range-mismatch", "up to 1 steps"),
    ],
)
def test_smells(odd: TensorEncoding, rule: str, part: str) -> None:
    found = {remark.rule: remark for remark in remarks(odd)}
    assert found[rule].level == "smell"
    assert part in found[rule].problem.message
    assert found[rule].problem.where == "'t'"


def test_notes() -> None:
    derived = entry(scale=[0.0, 0.0], offset=[0, 0])
    assert [(r.level, r.rule) for r in remarks(derived)] == [("note", "derived")]
    assert [(r.level, r.rule) for r in remarks(TensorEncoding("t"))] == [("note", "no-range")]


def dense() -> Graph:
    """y = x @ w + b, with 3 outputs."""
    graph = Graph("g")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 2), TensorKind.APP_WRITE))
    w = graph.add_tensor(Tensor.static("w", np.zeros((3, 2), np.float32)))
    b = graph.add_tensor(Tensor.static("b", np.zeros(3, np.float32)))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (1, 3), TensorKind.APP_READ))
    graph.add_node(Node("fc", "qti.aisw", "FullyConnected", [x, w, b], [y]))
    return graph


def weight(*scales: float) -> TensorEncoding:
    return entry("w", list(scales), [-128] * len(scales), symmetric=True)


def bias(*scales: float, bitwidth: int = 32) -> TensorEncoding:
    offsets = [-(1 << (bitwidth - 1))] * len(scales)
    return entry("b", list(scales), offsets, symmetric=True, bitwidth=bitwidth)


def test_a_bias_s_scale_is_input_times_weight() -> None:
    x, w = entry("x", 0.5), weight(0.1, 0.2, 0.4)
    assert remarks(x, w, bias(0.05, 0.1, 0.2), graph=dense()) == []
    assert remarks(x, w, bias(0.05, 0.1, 0.2, bitwidth=8), graph=dense()) == []
    (found,) = remarks(x, w, bias(0.05, 0.1, 0.3), graph=dense())
    assert (found.level, found.rule) == ("smell", "bias-scale")
    assert "up to 0.5 from" in found.problem.message
    assert "FullyConnected node 'fc'" in found.problem.hint
    assert remarks(x, w, bias(0.0, 0.0, 0.0), graph=dense())[0].rule == "derived"


def test_numbers_that_do_not_fit_the_model_are_faults() -> None:
    (found,) = remarks(weight(0.1, 0.2), graph=dense())
    assert (found.level, found.rule) == ("fault", "misfit")
    assert "2 scales for the 3 channels" in found.problem.message


def test_names_that_the_model_lacks_are_faults_with_the_nearest() -> None:
    (found,) = remarks(entry("xx"), graph=dense())
    assert (found.level, found.rule) == ("fault", "unknown-tensor")
    assert found.problem.hint == "did you mean 'x'?"
