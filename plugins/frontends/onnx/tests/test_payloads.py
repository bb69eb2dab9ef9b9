"""Large initializers, whose bytes stay in the model file until they are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper, save_model

import dovetail
from dovetail.errors import ContainerError, FrontendError
from dovetail.ir import Graph
from dovetail_onnx._frontend import OnnxFrontend
from dovetail_onnx._payloads import _SMALL, Payloads
from dovetail_onnx._reader import GraphReader

FLOAT = TensorProto.FLOAT


def sums(*initializers: TensorProto) -> ModelProto:
    """Return a model that adds its initializers to x."""
    value, nodes = "x", []
    for i, tensor in enumerate(initializers):
        nodes.append(helper.make_node("Add", [value, tensor.name], [f"y{i}"], name=f"n{i}"))
        value = f"y{i}"
    x = helper.make_tensor_value_info("x", FLOAT, [1])
    y = helper.make_tensor_value_info(value, FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [y], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def raw(name: str, size: int) -> TensorProto:
    data = np.random.default_rng(size).bytes(size)
    return TensorProto(name=name, data_type=TensorProto.UINT8, dims=[size], raw_data=data)


def parsed(payloads: Payloads) -> ModelProto:
    found = ModelProto()
    found.ParseFromString(payloads.rest)
    payloads.restore(found)
    return found


def test_large_payloads_are_not_parsed(tmp_path: Path) -> None:
    whole = sums(raw("a", _SMALL), raw("b", _SMALL + 1), raw("c", 200_000))
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.SerializeToString())
    payloads = Payloads(path)
    assert len(payloads.rest) < _SMALL + 2000
    rest = ModelProto.FromString(payloads.rest)
    assert [t.name for t in rest.graph.initializer] == ["a", "b", "c"]
    assert [t.HasField("raw_data") for t in rest.graph.initializer] == [True, False, False]
    assert payloads.read("a") is None
    found = payloads.read("c")
    assert found is not None
    assert found.tobytes() == whole.graph.initializer[2].raw_data
    assert parsed(payloads) == whole


def test_two_initializers_of_one_name_stay_what_they_are(tmp_path: Path) -> None:
    whole = sums(raw("a", 100_000), raw("a", 200_000))
    (tmp_path / "m.onnx").write_bytes(whole.SerializeToString())
    assert parsed(Payloads(tmp_path / "m.onnx")) == whole


@pytest.mark.parametrize("place", ["key", "length"])
def test_numbers_longer_than_protobuf_permits_stay_errors(tmp_path: Path, place: str) -> None:
    graph = sums(raw("a", 100_000)).graph.SerializeToString()
    key, size = (b"\xba" + b"\x80" * 5 + b"\0", b"") if place == "key" else (b"\x3a", b"\x80" * 3)
    length = bytes([len(graph) >> at & 127 | 128 for at in (0, 7, 14)])
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08" + key + length + size + b"\0" + graph)
    with pytest.raises(DecodeError):
        ModelProto.FromString(path.read_bytes())
    with pytest.raises(DecodeError):
        ModelProto.FromString(Payloads(path).rest)


@pytest.mark.parametrize("place", ["model", "graph", "tensor"])
def test_files_of_many_short_fields_are_left_to_protobuf(tmp_path: Path, place: str) -> None:
    many = b"\x98\x06\1" * 50_000  # of a number that ONNX does not use
    tensor, whole = raw("a", 100_000), sums()
    tensor.MergeFromString(many if place == "tensor" else b"")
    whole.graph.initializer.append(tensor)
    whole.graph.MergeFromString(many if place == "graph" else b"")
    whole.MergeFromString(many if place == "model" else b"")
    data = whole.SerializeToString()
    assert len(data) > 250_000
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    payloads = Payloads(path)
    assert payloads.rest == data
    assert payloads.read("a") is None


def test_a_number_with_too_many_bytes_is_said_to_have_them(tmp_path: Path) -> None:
    # the pattern of Gelu reads its constants
    whole = sums()
    del whole.graph.node[:]
    for i, (op_type, inputs) in enumerate(
        [("Div", "xa"), ("Erf", "0"), ("Add", "1b"), ("Mul", "x2"), ("Mul", "3c")]
    ):
        whole.graph.node.append(helper.make_node(op_type, [*inputs], [str(i)]))
    whole.graph.output[0].name = "4"
    numbers = {"a": 2**0.5, "b": 1.0, "c": 0.5}
    whole.graph.initializer.extend(
        numpy_helper.from_array(np.float32(x), name) for name, x in numbers.items()
    )
    whole.graph.initializer[1].raw_data = bytes(100_000)
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.SerializeToString())
    with pytest.raises(FrontendError, match=r"expected 4 of data for FLOAT .*, got 100000 bytes"):
        dovetail.convert(path)


SIZES = st.sampled_from([0, 1, 200, _SMALL - 20, _SMALL, _SMALL + 1, 70_000])
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 255), st.sampled_from("sid")), max_size=4
)


@settings(max_examples=150)
@given(sizes=st.lists(SIZES, max_size=4), edits=EDITS, at_head=st.booleans())
def test_a_model_is_what_protobuf_makes_of_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    edits: list[tuple[float, int, str]],
    at_head: bool,
) -> None:
    data = bytearray(sums(*(raw(f"t{i}", n) for i, n in enumerate(sizes))).SerializeToString())
    for place, byte, kind in edits:  # most bytes are payload: faults are near the ends
        room = min(len(data), 400)
        at = int(place * (room - 1)) + (0 if at_head else len(data) - room)
        if kind == "s":
            data[at] = byte
        elif kind == "i":
            data.insert(at, byte)
        else:
            del data[at]
    path = tmp_path_factory.mktemp("m") / "m.onnx"
    path.write_bytes(data)
    payloads = Payloads(path)
    try:
        wanted = ModelProto.FromString(bytes(data))
    except DecodeError:
        with pytest.raises(DecodeError):
            ModelProto.FromString(payloads.rest)
    else:
        assert parsed(payloads) == wanted


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(sums(raw("a", 100_000)).SerializeToString())
    payloads = Payloads(path)
    path.write_bytes(sums(raw("a", 100_001)).SerializeToString())
    with pytest.raises(ContainerError, match="overwritten"):
        payloads.read("a")


@pytest.mark.parametrize("is_external", [False, True])
def test_a_file_that_changes_after_the_last_tensor_was_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_external: bool
) -> None:
    path = tmp_path / "m.onnx"
    whole = sums(numpy_helper.from_array(np.ones(50_000, np.float32), "a"))
    save_model(whole, path, save_as_external_data=is_external, location="w")
    changed = tmp_path / "w" if is_external else path
    run = GraphReader.run

    def overwritten(reader: GraphReader) -> Graph:
        made = run(reader)
        changed.write_bytes(bytes(100_000))
        return made

    monkeypatch.setattr(GraphReader, "run", overwritten)
    with pytest.raises(ContainerError, match="overwritten"):
        OnnxFrontend().read(path)


def test_a_converted_model_does_not_depend_on_its_file(model, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # the sizes of a name decide whether elements are aligned in the file
    weights = {"w" * n: rng.normal(size=(120, 120)).astype(np.float32) for n in range(1, 9)}
    nodes, value = [], "x"
    for i, name in enumerate(weights):
        op_type = "MatMul" if i % 2 else "Add"
        nodes.append(helper.make_node(op_type, [value, name], [f"y{i}"]))
        value = f"y{i}"
    nodes.append(helper.make_node("Reshape", ["w", "shape"], ["r"]))
    nodes.append(helper.make_node("Add", [value, "r"], ["y"]))
    constants = {**weights, "shape": np.array([1, 120, 120])}
    path = tmp_path / "m.onnx"
    save_model(model(nodes, {"x": weights["w"]}, ["y"], constants), path)
    made = dovetail.convert(path)
    path.write_bytes(bytes(path.stat().st_size))
    found = {t.source: t for t in made.graphs["m"].tensors.values() if t.data is not None}
    for name, values in weights.items():
        assert found[name].data.guard is None
        assert found[name].values().flags.aligned
        turned = values.transpose(found[name].source_perm or (0, 1))
        np.testing.assert_array_equal(found[name].values().reshape(turned.shape), turned)


def test_neither_do_constants_in_another_shape(model, tmp_path: Path) -> None:
    filters = np.random.default_rng(0).normal(size=(1, 20_000, 1)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    path = tmp_path / "m.onnx"
    save_model(model([node], {"x": (FLOAT, [1, 20_000, 3])}, ["y"], {"w": filters}), path)
    made = dovetail.convert(path).graphs["m"]
    path.write_bytes(bytes(path.stat().st_size))
    (stored,) = (t for t in made.tensors.values() if t.data is not None)
    np.testing.assert_array_equal(stored.values().reshape(-1), filters.reshape(-1))
