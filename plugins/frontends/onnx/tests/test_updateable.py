"""Initializers that stay updateable: their kinds, layouts, and what reads them."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from onnx import TensorProto, helper
from updateable_cases import CASES, RNG, X

import dovetail as dt
from dovetail.errors import ConfigError, FrontendError, UnsupportedOpError
from dovetail.ir import TensorKind
from dovetail_onnx import OnnxOptions

N = helper.make_node
F32 = np.float32


def updateable(graph):
    return {t.name: t for t in graph.tensors.values() if t.kind is TensorKind.UPDATEABLE_STATIC}


@pytest.mark.parametrize("case", CASES)
def test_the_result_is_that_of_the_peer_also_after_all_passes(
    case, model, read, evaluate, run_peer, tmp_path
) -> None:
    """Read and optimized; and with other weights put into the updateable tensors."""
    nodes, x, known = CASES[case]
    names = tuple(name for name in known if name != "k")
    made = model(nodes, {"x": x}, ["y"], known)
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    options = OnnxOptions(updateable=names)
    other = {
        n: v if n == "k" else RNG.standard_normal(v.shape).astype(F32) for n, v in known.items()
    }
    (converted,) = dt.convert(path, options).graphs.values()
    for graph in (read(made, options), converted):
        assert {t.source for t in updateable(graph).values()} == set(names)
        for values in (known, other):
            for tensor in updateable(graph).values():
                wanted = values[tensor.source]
                perm = tensor.source_perm
                wanted = wanted if perm is None else wanted.transpose(perm)
                tensor.data = type(tensor.data)(np.ascontiguousarray(wanted).view(np.uint8).ravel())
                assert tensor.values().shape == wanted.shape
            found = evaluate(graph, {"x": x})["y"]
            expected = run_peer(model(nodes, {"x": x}, ["y"], values), {"x": x})["y"]
            # sums of up to 27 products in another order
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "ops"),
    [("matmul", "FullyConnected"), ("gemm", "FullyConnected"), ("conv", "Conv2d")],
)
def test_weights_stay_weights(case, ops, model, read) -> None:
    nodes, x, known = CASES[case]
    graph = read(model(nodes, {"x": x}, ["y"], known), OnnxOptions(updateable=tuple(known)))
    (layer,) = [node for node in graph.nodes if node.op_type == ops]
    assert [t.kind for t in layer.inputs[1:]] == [TensorKind.UPDATEABLE_STATIC] * len(known)
    assert [t.source for t in layer.inputs[1:]] == list(known)


def test_a_shared_weight_in_two_layouts_has_two_tensors(model, read) -> None:
    nodes, x, known = CASES["shared"]
    graph = read(model(nodes, {"x": x}, ["y"], known), OnnxOptions(updateable=("w",)))
    assert {t.source_perm for t in updateable(graph).values()} == {None, (1, 0)}


def test_unknown_names_are_listed_with_near_ones(model, read) -> None:
    nodes, x, known = CASES["gemm"]
    made = model(nodes, {"x": x}, ["y"], known)
    with pytest.raises(ConfigError) as caught:
        read(made, OnnxOptions(updateable=("W", "w", "x", "y")))
    told = [str(problem) for problem in caught.value.problems]
    assert len(told) == 3
    assert "initializer 'W' not found in the model" in told[0]
    assert "did you mean 'w'?" in told[0]


def test_a_value_that_must_be_known_cannot_be_updateable(model, read) -> None:
    made = model([N("Reshape", ["x", "s"], ["y"])], {"x": X}, ["y"], {"s": np.int64([4, 2])})
    with pytest.raises(UnsupportedOpError) as caught:
        read(made, OnnxOptions(updateable=("s",)))
    assert "must be constant, but is updateable" in str(caught.value.problems[0])


def test_an_initializer_that_no_node_reads_cannot_be_updateable(model, read, caplog) -> None:
    made = model([N("Relu", ["x"], ["y"])], {"x": X}, ["y"], {"w": X})
    with caplog.at_level(logging.ERROR), pytest.raises(FrontendError) as caught:
        read(made, OnnxOptions(updateable=("w",)))
    assert "no node of the graph reads" in str(caught.value.problems[0])


def test_an_updateable_integer_weight_stays_behind_its_dequantization(model, read) -> None:
    nodes = [N("DequantizeLinear", ["w", "s"], ["d"]), N("MatMul", ["x", "d"], ["y"])]
    known = {"w": np.int8([[1, 2], [3, 4], [5, 6], [7, 8]]), "s": F32(0.5)}
    made = model(nodes, {"x": X}, ["y"], known)
    graph = read(made, OnnxOptions(updateable=("w",)))
    assert [t.dtype.name for t in updateable(graph).values()] == ["INT_8"]
    assert made.graph.initializer[0].data_type == TensorProto.INT8
