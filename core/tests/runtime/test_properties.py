"""Property keys and verdicts on tensors: both say what a backend's capabilities say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import fields
from reference_backend import OPS, ReferenceBackend, chain
from updating_backend import SUM_OPS, UpdatingBackend

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, UnsupportedOpError
from dovetail.ir import (
    AxisScaleOffset,
    DataFormat,
    DType,
    EncodingKind,
    EncodingMapping,
    Mapped,
    MemoryType,
    Tensor,
    TensorKind,
)
from dovetail.ops import NodeView
from dovetail.runtime.contract import Capabilities
from dovetail.runtime.properties import PROPERTIES
from dovetail.runtime.support import verdict

NUMBERS = [
    1, 101, *range(105, 109), 201, 202, *range(205, 223), *range(301, 324), *range(401, 405),
    *range(501, 533), 1001, 1002, *range(1101, 1105), *range(1201, 1204), 1301, 1302,
    *range(1401, 1406), 1501, 1502, 2001, 2002,
]  # fmt: skip
FLAGS = [f.name for f in fields(Capabilities) if f.default is False]


def test_the_table_has_every_key_once() -> None:
    assert sorted(PROPERTIES) == NUMBERS
    assert len({p.name for p in PROPERTIES.values()}) == len(NUMBERS)


def supported(able: Capabilities) -> set[str]:
    return {p.name for p in PROPERTIES.values() if p.holds(able)}


def test_each_capability_is_a_property() -> None:
    bare = Capabilities(encodings=frozenset(), data_formats=frozenset())
    always = supported(bare)
    # no keys of QNN's: whether opaque nodes and overlapping runs are possible, and results mean any
    others = {"opaque_ops", "overlap", "watch", "custom_memory", "records_only"}
    for name in set(FLAGS) - {*others, "emulates_io_buffers"}:
        able = Capabilities(**{name: True}, encodings=frozenset(), data_formats=frozenset())
        assert supported(able) > always, name
    able = Capabilities(memory_handles=True, custom_memory=True)
    assert "MEMORY_SUPPORT_MEM_TYPE_CUSTOM" in supported(able)
    assert "TENSOR_SUPPORT_QUANTIZATION_ENCODING_VECTOR" not in supported(Capabilities())


@pytest.mark.parametrize("kind", EncodingKind)
def test_each_encoding_is_a_property(kind: EncodingKind) -> None:
    bare, able = (Capabilities(encodings=frozenset(kinds)) for kinds in ((), (kind,)))
    (gained,) = supported(able) - supported(bare)
    stem = kind.name.replace("BW_BLOCK_MAPPED", "BW_BLOCK_SCALE_OFFSET_MAPPED").removeprefix("BW_")
    assert gained.startswith("TENSOR_SUPPORT_QUANTIZATION_ENCODING_")
    assert gained.endswith(stem)


def test_a_backend_answers_every_key() -> None:
    with runtime.Backend.create(UpdatingBackend, ops=SUM_OPS) as backend:
        answers = {key: backend.has_capability(key) for key in NUMBERS}
        assert [answers[key] for key in (502, 503, 504, 506)] == [True, True, False, True]
        assert answers == {k: p.holds(backend.capabilities) for k, p in PROPERTIES.items()}
        for key in {*range(-1, 2100)} - {*NUMBERS}:
            with pytest.raises(BackendError, match="unknown property key") as caught:
                backend.has_capability(key)
            assert caught.value.code == "PROPERTY_ERROR_UNKNOWN_KEY"


MAPPED = Mapped(
    AxisScaleOffset(1, np.ones(3, np.float32), None, 8), EncodingMapping.STANDARD_SYMMETRIC
)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dynamic": (True, False)}, "dynamic-dimensions: tensor 'x'.shape is [<=2, 3]"),
    (
        {"data_format": DataFormat.SPARSE},
        "data-format: tensor 'x'.data_format is SPARSE; allowed: DENSE",
    ),
    (
        {"memory_type": MemoryType.RETRIEVE_RAW},
        "memory-type: tensor 'x'.memory_type is RETRIEVE_RAW; allowed: RAW, MEMHANDLE",
    ),
    (
        {"dtype": DType.UFIXED_POINT_8, "encoding": MAPPED},
        "encoding: tensor 'x'.encoding is BW_AXIS_SCALE_OFFSET_MAPPED; allowed: SCALE_OFFSET",
    ),
]


def composed(backend: runtime.Backend, how: dict[str, Any]) -> runtime.Graph:
    graph = chain("Scale")
    x = graph.tensor("x")
    for name, value in how.items():
        setattr(x, name, value)
        if name in ("dtype", "encoding"):
            setattr(graph.tensor("y"), name, value)
    model = Model.of(graph, producer=Producer("test", "1"), registry=OPS)
    return backend.create_context().compose(model)[0]


@pytest.mark.parametrize(("how", "text"), REFUSED, ids=lambda how: str(how)[:20])
def test_what_a_backend_does_not_support_is_refused_by_verdict(
    how: dict[str, Any], text: str
) -> None:
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph = composed(backend, how)
        verdict = backend.validate_op(graph.ir.nodes[0])
        assert not verdict.ok
        assert str(verdict).startswith(text)
        with pytest.raises(UnsupportedOpError) as caught:
            graph.finalize()
        (problem,) = caught.value.problems
        assert problem.message == str(verdict)


class DynamicBackend(ReferenceBackend):
    """Sees the shapes that the application passes."""

    name = "dynamic"
    shapes: list[tuple[int, ...]] = []  # noqa: RUF012 - cleared by the test

    def capabilities(self) -> Capabilities:
        return Capabilities(dynamic_dimensions=True, memory_handles=True)

    def prepare(self, graph: Any, request: Any, context: Any) -> Any:
        prepared = super().prepare(graph, request, context)

        class Recording(runtime.base.PreparedBase):
            def run(self, inputs: Any, outputs: Any, control: Any) -> None:
                DynamicBackend.shapes.append(inputs["x"].shape)

        return Recording() if prepared else None


def test_a_backend_that_can_receives_less_on_dynamic_axes() -> None:
    DynamicBackend.shapes.clear()
    with runtime.Backend.create(DynamicBackend, ops=OPS) as backend:
        graph = composed(backend, {"dynamic": (True, False)})
        graph.finalize()
        for shape in ((1, 3), (2, 3)):
            graph.execute({"x": np.zeros(shape, np.float32)})
        for shape in ((3, 3), (2, 2), (2,), (1, 1, 3)):
            with pytest.raises(BackendError, match="buffers do not match"):
                graph.execute({"x": np.zeros(shape, np.float32)})
    assert DynamicBackend.shapes == [(1, 3), (2, 3)]


def test_memory_handles_are_accepted_where_they_are_supported() -> None:
    how = {"memory_type": MemoryType.MEMHANDLE}
    with runtime.Backend.create(ReferenceBackend, ops=OPS) as backend:
        graph = composed(backend, how)
        graph.finalize()
        x = np.ones((2, 3), np.float32)
        memory = graph.context.register_memory(x, DType.FLOAT_32)
        np.testing.assert_array_equal(graph.execute({"x": memory})["y"], 2 * x)


def test_params_are_judged_as_well() -> None:
    node = chain("Scale").nodes[0]
    how = Tensor("p", DType.FLOAT_32, (1,), TensorKind.STATIC, data_format=DataFormat.CODEBOOK)
    node.params["p"] = how
    view = NodeView(node, None, None, (), ())
    backend = ReferenceBackend(OPS, None)
    found = verdict(backend, backend.capabilities(), view, None, None)
    assert "tensor 'p'.data_format" in str(found)
