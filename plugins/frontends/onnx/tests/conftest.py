"""What the tests share: making small models, reading them, and comparing with a peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from reference_values import values_of
from runtime import peer_session

from dovetail.ir import Array, Graph
from dovetail.ops import OpRegistry, find_op_faults
from dovetail_onnx import OnnxFrontend
from dovetail_opset import PACKAGE

# The newest operator set that this ONNX Runtime release vouches for; ONNX's own evaluator is the
# peer above it.
NEWEST_OF_RUNTIME = 24
# float32 sums over up to a few hundred elements, taken in another order than the peer's.
RTOL, ATOL = 1e-5, 1e-6

Model = Callable[..., ModelProto]


def make_model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Array | tuple[int, Sequence[int | str | None]]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    *,
    opset: int = 17,
    **fields: Any,
) -> ModelProto:
    """Create a model; an input is an array like it, or (element type, dims)."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [_info(name, like) for name, like in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    ir_version = min(helper.find_min_ir_version_for(opsets), 11)
    return helper.make_model(
        graph, **({"opset_imports": opsets, "ir_version": ir_version} | fields)
    )


def _info(name: str, like: Any) -> onnx.ValueInfoProto:
    if isinstance(like, tuple):
        return helper.make_tensor_value_info(name, *like)
    kind = helper.np_dtype_to_tensor_dtype(like.dtype)
    return helper.make_tensor_value_info(name, kind, like.shape)


def evaluate(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a graph by the references of its ops."""
    values = values_of(graph, feeds, OpRegistry.of(PACKAGE))
    return {t.name: values[t.name] for t in graph.outputs}


def run_peer(model: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Run a model on ONNX Runtime, or on ONNX's own evaluator where the opset is too new."""
    names = [o.name for o in model.graph.output]
    if model.opset_import[0].version > NEWEST_OF_RUNTIME:
        return dict(zip(names, ReferenceEvaluator(model).run(None, dict(feeds)), strict=True))
    session = peer_session(_typed(model))
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _typed(model: ModelProto) -> ModelProto:
    # ONNX Runtime wants the outputs' types in the file
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {info.name: info for info in (*inferred.graph.value_info, *inferred.graph.output)}
    typed = ModelProto()
    typed.CopyFrom(model)
    for output in typed.graph.output:
        output.CopyFrom(known[output.name])
    return typed


@pytest.fixture(name="evaluate")
def fixture_evaluate() -> Callable[..., dict[str, Array]]:
    """Run a graph by the meaning of its ops; see `evaluate`."""
    return evaluate


@pytest.fixture(name="run_peer")
def fixture_run_peer() -> Callable[..., dict[str, Array]]:
    """Run a model on the peer; see `run_peer`."""
    return run_peer


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Graph]:
    """Read a ModelProto through a file, as a user would, and checks the graph."""

    def run(model: ModelProto, *options: Any) -> Graph:
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        (graph,) = OnnxFrontend().read(path, *options)
        assert find_op_faults(graph, OpRegistry.of(PACKAGE)) == []
        return graph

    return run


@pytest.fixture
def run() -> Callable[..., dict[str, Array]]:
    """Run a graph by the meaning of its ops."""
    return evaluate


@pytest.fixture
def agree(read: Callable[..., Graph]) -> Callable[..., Graph]:
    """Read a model, runs it and the peer, and compares names, types, shapes and values."""

    def run(
        model: ModelProto, feeds: Mapping[str, Array], *, rtol: float = RTOL, atol: float = ATOL
    ) -> Graph:
        graph = read(model)
        found, wanted = evaluate(graph, feeds), run_peer(model, feeds)
        assert [t.name for t in graph.inputs] == [i.name for i in model.graph.input]
        assert list(found) == list(wanted)
        for name, want in wanted.items():
            assert found[name].dtype == want.dtype
            assert found[name].shape == want.shape
            np.testing.assert_allclose(found[name], want, rtol=rtol, atol=atol, err_msg=name)
        return graph

    return run


@pytest.fixture
def check(agree: Callable[..., Graph]) -> Callable[..., Graph]:
    """Compare one node: `check("Add", [x, y], opset=13)`; constants come as `known`."""

    def run(
        op_type: str,
        inputs: Sequence[Array | None],
        *,
        opset: int = 17,
        known: Sequence[Array | None] = (),
        outputs: int = 1,
        rtol: float = RTOL,
        atol: float = ATOL,
        **attributes: Any,
    ) -> Graph:
        feeds = {f"x{i}": a for i, a in enumerate(inputs) if a is not None}
        names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
        constants = {f"c{i}": a for i, a in enumerate(known) if a is not None}
        names += ["" if a is None else f"c{i}" for i, a in enumerate(known)]
        outs = [f"y{i}" for i in range(outputs)]
        node = helper.make_node(op_type, names, outs, name="the_node", **attributes)
        model = make_model([node], feeds, outs, constants, opset=opset)
        return agree(model, feeds, rtol=rtol, atol=atol)

    return run


@pytest.fixture
def model() -> Model:
    """Create models; see `make_model`."""
    return make_model


@pytest.fixture
def rng() -> np.random.Generator:
    """Reproducible numbers."""
    return np.random.default_rng(7)
