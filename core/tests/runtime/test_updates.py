"""Updates of tensors: staged, then applied by another `finalize`, then used by runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from reference_backend import OPS, BareBackend, chain
from updating_backend import SUM_OPS, UpdatingBackend

from dovetail import runtime
from dovetail.container import Model, Producer
from dovetail.errors import BackendError, GraphError, UnsupportedOpError
from dovetail.ir import AxisScaleOffset, DType, EncodingKind, ScaleOffset, TensorKind, pack

F32, U8 = DType.FLOAT_32, DType.UFIXED_POINT_8
X = np.arange(3, dtype=np.float32)
ONE, TEN = np.ones(3, np.float32), np.full(3, 10, np.float32)
CHANGING = TensorKind.UPDATEABLE_STATIC


@pytest.fixture
def context() -> Iterator[runtime.Context]:
    with runtime.Backend.create(UpdatingBackend, ops=SUM_OPS) as backend:
        yield backend.create_context()


def tensors(graph: runtime.Graph, **w: Any) -> tuple[runtime.Tensor, ...]:
    """Compose y = x + w and return the handles of x, w and y."""
    x = graph.create_tensor("x", F32, (3,), TensorKind.APP_WRITE)
    given = {"dtype": F32, "shape": (3,), "kind": CHANGING, "data": ONE} | w
    changing = graph.create_tensor("w", **given)
    y = graph.create_tensor("y", F32, (3,), TensorKind.APP_READ)
    graph.add_node("n", "test.sums", "Add", [x, changing], [y])
    return x, changing, y


def test_an_update_takes_effect_with_the_next_finalize(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 1)
    graph.update_tensor(w, TEN)
    assert not graph.is_finalized
    with pytest.raises(BackendError, match="not been finalized") as caught:
        graph.execute({"x": X})
    assert caught.value.code == "GRAPH_ERROR_GRAPH_NOT_FINALIZED"
    with pytest.raises(BackendError, match="not been finalized"):
        graph.execute_async({"x": X}, {"y": np.empty_like(X)})
    graph.finalize()
    assert graph.is_finalized
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 10)
    with pytest.raises(BackendError, match="is finalized") as caught:
        graph.finalize()
    assert caught.value.code == "GRAPH_ERROR_GRAPH_FINALIZED"


@pytest.mark.parametrize("data", [np.array(["a", "b", "c"]), np.array(["a", 1, None], object)])
def test_data_that_are_no_numbers_are_rejected(context: runtime.Context, data: Any) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.finalize()
    with pytest.raises(GraphError, match="no FLOAT_32") as caught:
        graph.update_tensor(w, data)
    assert caught.value.code == "TENSOR_ERROR_INVALID_TENSOR_PARAM"
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 1)
    with pytest.raises(GraphError, match="no FLOAT_32"):
        context.create_graph("other").create_tensor("w", F32, (3,), CHANGING, data=data)


def test_an_updated_graph_cannot_grow(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.finalize()
    graph.update_tensor(w, TEN)
    with pytest.raises(BackendError, match="is finalized"):
        graph.create_tensor("z", F32, (3,))


def test_updates_before_the_first_finalize(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.update_tensor(w, TEN)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 10)


def test_the_last_update_counts_and_all_come_in_one_call(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.finalize()
    for data in (TEN, pack(2 * TEN, F32)):
        graph.update_tensor(w, data)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 20)
    assert graph._prepared.updated == [("w",)]  # type: ignore[union-attr]


def test_encodings_are_updated_with_and_without_data(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    stored = np.array([10, 20, 30], np.uint8)
    _, w, _ = tensors(graph, dtype=U8, encoding=ScaleOffset(0.5, -10), data=stored)
    graph.finalize()
    assert graph.execute({"x": 0 * X})["y"].tolist() == [0, 5, 10]
    graph.update_tensor(w, encoding=ScaleOffset(2.0))
    graph.finalize()
    assert graph.execute({"x": 0 * X})["y"].tolist() == [20, 40, 60]
    graph.update_tensor(w, stored[::-1])
    graph.update_tensor(w, encoding=ScaleOffset(1.0))
    graph.finalize()
    assert graph.execute({"x": 0 * X})["y"].tolist() == [30, 20, 10]


def test_the_callers_array_may_change_after_an_update(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    data = TEN.copy()
    graph.update_tensor(w, data)
    data[:] = -1
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 10)


WRONG: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, ["neither data nor an encoding"]),
    ({}, {"data": np.ones(4, np.float32)}, ["expected data of shape (3,), got (4,)"]),
    ({}, {"data": pack(np.ones(4), F32)}, ["has 16 bytes of data"]),
    (
        {},
        {"data": np.ones((3, 1), np.float32), "encoding": ScaleOffset(1)},
        ["expected data of shape (3,)", "no encoding", "FLOAT_32 is not a fixed-point type"],
    ),
    (
        {"dtype": U8, "encoding": ScaleOffset(1), "data": np.ones(3, np.uint8)},
        {"encoding": AxisScaleOffset(0, np.ones(2, np.float32))},
        ["expected scales of shape (3,)"],
    ),
    (
        {"dtype": U8, "encoding": ScaleOffset(1), "data": np.ones(3, np.uint8)},
        {"encoding": ScaleOffset(-1.0, 0, 9)},
        ["a scale is negative", "bitwidth 9"],
    ),
]


@pytest.mark.parametrize(("how", "update", "faults"), WRONG)
def test_what_does_not_match_is_refused_with_every_fault(
    how: dict[str, Any], update: dict[str, Any], faults: list[str], context: runtime.Context
) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph, **how)
    graph.finalize()
    before = graph.execute({"x": X})["y"]
    with pytest.raises(GraphError) as caught:
        graph.update_tensor(w, **update)
    assert caught.value.code == "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE"
    assert caught.value.where == "tensor 'w'"
    texts = [p.message for p in caught.value.problems]
    assert len(texts) == len(faults)
    for text, wanted in zip(texts, faults, strict=True):
        assert wanted in text
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], before)  # nothing was staged


def test_values_that_do_not_fit_are_refused(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    how = {"dtype": U8, "encoding": ScaleOffset(1), "data": np.ones(3, np.uint8)}
    _, w, _ = tensors(graph, **how)
    with pytest.raises(GraphError, match="256 cannot be stored"):
        graph.update_tensor(w, np.array([1, 256, 0]))


def test_only_updateable_tensors_of_the_graph_are_updated(context: runtime.Context) -> None:
    graph, other = context.create_graph("net"), context.create_graph("other")
    x, _, _ = tensors(graph)
    _, w, _ = tensors(other)
    with pytest.raises(GraphError, match="APP_WRITE cannot be updated") as caught:
        graph.update_tensor(x, TEN)
    assert caught.value.code == "TENSOR_ERROR_INCOMPATIBLE_TENSOR_UPDATE"
    with pytest.raises(GraphError, match="not a tensor of this graph") as caught:
        graph.update_tensor(w, TEN)
    assert caught.value.code == "TENSOR_ERROR_DOES_NOT_EXIST"


def test_only_backends_with_updates_accept_them() -> None:
    with runtime.Backend.create(BareBackend, ops=SUM_OPS) as backend:
        graph = backend.create_context().create_graph("net")
        _, w, _ = tensors(graph)
        with pytest.raises(BackendError, match="capability 'updates'") as caught:
            graph.update_tensor(w, TEN)
        assert caught.value.code == "TENSOR_ERROR_UNSUPPORTED_FEATURE"


def test_a_failed_update_leaves_a_graph_that_can_be_finalized_later(
    context: runtime.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = context.create_graph("net")
    _, w, _ = tensors(graph)
    graph.finalize()
    graph.update_tensor(w, TEN)
    monkeypatch.setattr(UpdatingBackend, "fails", True)
    with pytest.raises(BackendError, match="`update` failed") as caught:
        graph.finalize()
    assert caught.value.code == "GRAPH_ERROR_FINALIZE_FAILED"
    np.testing.assert_array_equal(w.ir.values(), ONE)
    with pytest.raises(BackendError, match="not been finalized"):
        graph.execute({"x": X})
    monkeypatch.setattr(UpdatingBackend, "fails", False)
    graph.finalize()
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 10)


def test_an_update_that_the_backend_does_not_support_can_be_taken_back(
    context: runtime.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = context.create_graph("net")
    old = ScaleOffset(1.0)
    how = {"dtype": U8, "encoding": old, "data": np.ones(3, np.uint8)}
    _, w, _ = tensors(graph, **how)
    graph.finalize()
    able = runtime.contract.Capabilities(
        updates=True, encodings=frozenset({EncodingKind.SCALE_OFFSET})
    )
    monkeypatch.setattr(context.backend, "capabilities", able)
    graph.update_tensor(w, encoding=ScaleOffset(1.0, 0, 4))
    with pytest.raises(UnsupportedOpError, match="does not support 1 of 1 nodes") as caught:
        graph.finalize()
    assert "tensor 'w'.encoding is BW_SCALE_OFFSET" in str(caught.value)
    assert w.ir.encoding == old
    graph.update_tensor(w, encoding=old)
    graph.finalize()
    assert graph.execute({"x": X})["y"].tolist() == [1, 2, 3]


def test_updateable_static_without_data_is_refused(context: runtime.Context) -> None:
    graph = context.create_graph("net")
    tensors(graph, data=None)
    with pytest.raises(GraphError) as caught:
        graph.finalize()
    (problem,) = caught.value.problems
    assert (problem.where, problem.message) == (
        "tensor 'w'",
        "is UPDATEABLE_STATIC but has no data; it needs values until the first update",
    )


@pytest.mark.parametrize("given", ["array", "view", "read-only view"])
def test_a_model_owns_its_data(given: str, context: runtime.Context) -> None:
    data = np.ones((2, 3), np.float32)
    array = data[0]
    if given == "array":
        data = array = array.copy()
    if given == "read-only view":
        array.flags.writeable = False
    graph = context.create_graph("net")
    tensors(graph, data=array)
    data[...] = 5
    graph.finalize()
    data[...] = 7
    np.testing.assert_array_equal(graph.execute({"x": X})["y"], X + 1)
    assert data.flags.writeable


def test_immutable_data_are_not_copied(context: runtime.Context, tmp_path: Any) -> None:
    graph = context.create_graph("net")
    path = tmp_path / "w.bin"
    path.write_bytes(ONE.tobytes())
    mapped = np.memmap(path, np.float32, "r")
    of_bytes = np.frombuffer(ONE.tobytes(), np.float32)
    blob = pack(ONE, F32)
    for name, data in (("mapped", mapped), ("bytes", of_bytes), ("blob", blob)):
        made = graph.create_tensor(name, F32, (3,), TensorKind.STATIC, data=data)
        assert made.ir.data is not None
        stored = blob.bytes if data is blob else data
        assert np.may_share_memory(made.ir.data.bytes, stored)
    writable = np.memmap(path, np.float32, "c")
    copied = graph.create_tensor("c", F32, (3,), TensorKind.STATIC, data=writable).ir.data
    assert copied is not None
    assert not np.may_share_memory(copied.bytes, writable)


def test_memory_belongs_to_its_context(context: runtime.Context) -> None:
    other = context.backend.create_context()
    model = Model.of(chain("Scale"), producer=Producer("test", "1"), registry=OPS)
    (graph,) = context.compose(model)
    graph.finalize()
    shape = (2, 3)
    mine = context.register_memory(np.ones(shape, np.float32), F32)
    foreign = other.register_memory(np.ones(shape, np.float32), F32)
    result = context.register_memory(np.zeros(shape, np.float32), F32)
    graph.execute({"x": mine}, {"y": result})
    assert (result.descriptor.array == 2).all()
    for inputs, outputs in (({"x": foreign}, {"y": result}), ({"x": mine}, {"y": foreign})):
        with pytest.raises(BackendError, match="registered in another context") as caught:
            graph.execute(inputs, outputs)
        assert caught.value.code == "GRAPH_ERROR_INVALID_TENSOR"
    other.free()
    with pytest.raises(BackendError) as caught:
        graph.execute({"x": foreign})
    assert caught.value.code == "MEM_ERROR_INVALID_HANDLE"
