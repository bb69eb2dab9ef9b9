"""Damaged DLC files: each fault has its own message, and all are listed."""

from __future__ import annotations

import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dlc_files import members_of, small_graph, write_dlc, write_members

from dovetail.errors import ContainerError, FrontendError
from dovetail_qnn.dlc import DlcFrontend
from dovetail_qnn.dlc._streams import pack_stream
from dovetail_qnn.dlc._tables import (
    GRAPHS,
    PARAMS,
    GraphTable,
    LocationTable,
    ModelTable,
    NodeTable,
    PayloadsTable,
    PerAxis,
    Quantization,
    TensorTable,
)
from dovetail_qnn.dlc.flatbuffers import FaultList, decode, encode


@pytest.fixture
def members(tmp_path: Path) -> dict[str, bytes]:
    """Return the members of a sound file."""
    return members_of(write_dlc(small_graph(), tmp_path / "net.dlc"))


def refused(path: Path) -> FrontendError:
    with pytest.raises(FrontendError) as caught:
        DlcFrontend().read(path)
    assert caught.value.code == "MODEL_INVALID"
    assert str(path) in caught.value.where
    return caught.value


def problems_of(members: dict[str, bytes], tmp_path: Path) -> list[str]:
    """Return the problems of a file with such members."""
    return [str(p) for p in refused(write_members(tmp_path / "bad.dlc", members)).problems]


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04" + bytes(100), b"not a zip" * 20])
def test_files_that_are_no_archives(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad.dlc").write_bytes(data)
    assert "zip directory is damaged" in refused(tmp_path / "bad.dlc").message
    assert not DlcFrontend().recognises(tmp_path / "bad.dlc")


def test_archives_of_something_else(tmp_path: Path) -> None:
    path = write_members(tmp_path / "other.zip", {"data": b"x"})
    assert "no member 'model'" in refused(path).message
    assert not DlcFrontend().recognises(path)
    assert not DlcFrontend().recognises(tmp_path / "missing")


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("model", b"", "neither a version nor a known identifier"),
        ("model", b"\xd5\x0a\x04", "cut short"),
        ("model", b"\xd5\x0a\x05\0\0\0\0\0", "unsupported version 5"),
        ("model", b"\xd5\x0a\x04\0\0\0\1\0", "unsupported version 4"),
        ("model", b"\xd5\x0a\x04\0\0\0\0\0\x08\0\0\0NETP", "identifier b'NETP', not NETD"),
        ("model.params", b"\xd5\x0a\x04\0\0\0\0\0", "identifier b'', not NETP or NR64"),
    ],
)
def test_streams(
    members: dict[str, bytes], tmp_path: Path, name: str, data: bytes, part: str
) -> None:
    (problem,) = problems_of(members | {name: data}, tmp_path)
    assert problem.startswith(f"{name}: ")
    assert part in problem


def test_archives(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write_members(tmp_path / "bad.dlc", members)
    whole = path.read_bytes()
    at = whole.index(b"PK\x01\x02")

    def changed(offset: int, form: str, value: int, start: int = at) -> str:
        data = bytearray(whole)
        struct.pack_into(form, data, start + offset, value)
        path.write_bytes(data)
        return refused(path).message

    assert "unsupported compression 12" in changed(10, "<H", 12)
    assert "encrypted" in changed(8, "<H", 1)
    assert "exceed the" in changed(20, "<I", 2**30)
    assert "cannot be stored in" in changed(24, "<I", 2**30)
    assert "outside the" in changed(42, "<I", 2**31)
    assert "not found" in changed(42, "<I", 1)
    assert "damaged" in changed(0, "<I", 0)
    model = whole.index(b"PK\x01\x02", whole.index(b"model", whole.index(b"dlc.metadata", at)) - 60)
    assert "do not match their CRC" in changed(16, "<I", 1, model)
    path.write_bytes(whole[: len(whole) // 2])
    assert "zip directory" in refused(path).message


def test_compressed_data(members: dict[str, bytes], tmp_path: Path) -> None:
    path = write_members(tmp_path / "bad.dlc", members, zipfile.ZIP_DEFLATED)
    whole = path.read_bytes()
    at = whole.index(b"PK\x01\x02", whole.index(b"PK\x01\x02") + 90)
    data = bytearray(whole)
    struct.pack_into("<I", data, at + 24, struct.unpack_from("<I", data, at + 24)[0] - 1)
    path.write_bytes(data)
    assert "zip" in refused(path).message or "directory" in refused(path).message
    start = whole.index(b"model", whole.index(b"PK\x03\x04", 50)) + 40
    path.write_bytes(whole[:start] + b"\xff" * 30 + whole[start + 30 :])
    assert refused(path)
    bomb = {"model": bytes(2**22)}
    path = write_members(tmp_path / "bomb.dlc", bomb, zipfile.ZIP_DEFLATED)
    assert "neither a version" in str(refused(path).problems[0])


def test_a_damaged_payload_is_found_when_it_is_used(
    members: dict[str, bytes], tmp_path: Path
) -> None:
    path = write_members(tmp_path / "bad.dlc", members)
    data = bytearray(path.read_bytes())
    at = data.index(members["model.params.bin"])
    data[at + 5] ^= 1
    path.write_bytes(data)
    (graph,) = DlcFrontend().read(path)
    with pytest.raises(FrontendError, match="do not match their CRC"):
        graph.tensor("w").values()


def test_a_file_that_changes_while_it_is_used(tmp_path: Path) -> None:
    path = write_dlc(small_graph(), tmp_path / "net.dlc")
    (graph,) = DlcFrontend().read(path)
    path.write_bytes(b"")
    with pytest.raises(ContainerError, match="overwritten"):
        graph.tensor("w").values()


def tables(stream: bytes, declared: type[Any]) -> Any:
    return decode(memoryview(stream)[8:], declared, "stream", FaultList())


def with_graph(members: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """Return members with a changed table of the graph."""
    (graph,) = tables(members["model"], ModelTable).graphs
    changed = {key: change(getattr(graph, key)) for key, change in changes.items()}
    root = ModelTable((replace(graph, **changed),))
    return members | {"model": pack_stream(encode(root, GRAPHS))}


def on(name: str, /, **changes: Any) -> Any:
    """Return a function that changes the table with a name."""

    def change(given: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(each, **changes) if each.name == name else each for each in given)

    return change


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"dtype": 0}, ["model: graphs[0].tensors[4] 'z': unknown data type 0x0"]),
        ({"kind": 77}, ["unknown kind 77 of a tensor"]),
        ({"kind": 4}, ["'z': the tensor is static, but the file has no payload for it"]),
        ({"shape": (1,) * 65}, ["65 axes; at most 64 are read"]),
        ({"name": None}, ["the tensor has no name"]),
        ({"name": "y"}, ["duplicate tensor name 'y'"]),
        ({"quantization": Quantization(0, 1)}, ["the encoding has no scale"]),
        ({"quantization": Quantization(4, 1)}, ["unsupported encoding BLOCK in a DLC"]),
        ({"quantization": Quantization(40, 1)}, ["unsupported encoding 40"]),
        ({"quantization": Quantization(1, 1, per_axis=PerAxis(9))}, ["axis 9"]),
    ],
)
def test_tensors(
    members: dict[str, bytes], tmp_path: Path, changes: dict[str, Any], parts: list[str]
) -> None:
    found = problems_of(with_graph(members, tensors=on("z", **changes)), tmp_path)
    for part in parts:
        assert any(part in problem for problem in found), found


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"inputs": ("nothing", "z")}, "tensor 'nothing' not found in the graph"),
        ({"outputs": ("w",)}, "'w': is STATIC, but"),
        ({"name": "relu"}, "duplicate node name 'relu'"),
        ({"type": None}, "no name or no type"),
        ({"attributes": ()}, "needs the attribute 'operation'"),
        ({"type": "Pool"}, "needs the attribute 'pool_type'"),
        ({"inputs": ("out", "z")}, "cycle"),
    ],
)
def test_nodes(
    members: dict[str, bytes], tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    found = problems_of(with_graph(members, nodes=on("sum", **changes)), tmp_path)
    assert any(part in problem for problem in found), found


def test_a_cycle_is_found_in_a_file_with_extras(members: dict[str, bytes], tmp_path: Path) -> None:
    changed = with_graph(members, nodes=on("sum", inputs=("out", "z")))
    (found,) = problems_of(changed | {"dovetail.json": b"{}"}, tmp_path)
    assert "cycle" in found


def test_all_faults_are_listed(members: dict[str, bytes], tmp_path: Path) -> None:
    changed = with_graph(
        members, tensors=on("z", dtype=3), nodes=on("relu", inputs=("none",), outputs=("y",))
    )
    del changed["model.params.bin"]
    found = problems_of(changed, tmp_path)
    assert len(found) >= 5
    missing = "model.params.bin', which is missing"
    assert sum(missing in problem for problem in found) == 4  # two weights and two params


def test_payloads(members: dict[str, bytes], tmp_path: Path) -> None:
    (graph,) = tables(members["model.params"], PayloadsTable).graphs
    far = tuple(replace(p, location=LocationTable(2**63, 2**63)) for p in graph.tensors)

    def problems(**changes: Any) -> list[str]:
        root = PayloadsTable((replace(graph, **changes),))
        stream = pack_stream(encode(root, PARAMS))
        return problems_of(members | {"model.params": stream}, tmp_path)

    assert all("exceed the" in p for p in problems(tensors=far))
    short = tuple(replace(p, location=LocationTable(0, 2)) for p in graph.tensors)
    assert any("has 2 bytes of data" in p for p in problems(tensors=short))
    empty = tuple(replace(p, location=None) for p in graph.tensors)
    assert all("neither bytes nor a location" in p for p in problems(tensors=empty))
    assert all("no payload for it" in p for p in problems(name="other"))
    rest = {k: v for k, v in members.items() if k != "model.params"}
    assert all("no payload for it" in p for p in problems_of(rest, tmp_path))


def test_scalars_that_do_not_fit(members: dict[str, bytes], tmp_path: Path) -> None:
    (graph,) = tables(members["model"], ModelTable).graphs
    conv = next(node for node in graph.nodes if node.name == "conv")
    group = next(a for a in conv.attributes if a.name == "group")
    for value, part in (
        (replace(group.value, kind=0x9999), "unknown data type 0x9999 of a scalar"),
        (replace(group.value, kind=0x0008, integer=300), "300 does not fit the type INT_8"),
    ):
        attributes = on("group", value=value)(conv.attributes)
        found = problems_of(with_graph(members, nodes=on("conv", attributes=attributes)), tmp_path)
        assert found[0].endswith(f"'conv': attribute 'group': {part}")


def test_two_graphs_of_one_name_and_none_at_all(members: dict[str, bytes], tmp_path: Path) -> None:
    graphs = tables(members["model"], ModelTable).graphs
    stream = pack_stream(encode(ModelTable(graphs * 2), GRAPHS))
    assert problems_of(members | {"model": stream}, tmp_path) == [
        "model: graphs[1]: duplicate graph name 'net'"
    ]
    stream = pack_stream(encode(ModelTable(), GRAPHS))
    assert problems_of(members | {"model": stream}, tmp_path) == ["model: the stream has no graph"]


def test_huge_counts_allocate_nothing(members: dict[str, bytes], tmp_path: Path) -> None:
    shape = (2**32 - 1,) * 8
    table = GraphTable(
        "net",
        (NodeTable("n", "Relu", ("x",), ("y",)),),
        (TensorTable(1, "x", 0, shape, dtype=0x232), TensorTable(2, "y", 1, shape, dtype=0x232)),
    )
    stream = pack_stream(encode(ModelTable((table,)), GRAPHS))
    (graph,) = DlcFrontend().read(write_members(tmp_path / "huge.dlc", members | {"model": stream}))
    assert graph.tensor("x").shape == shape
    data = bytearray(members["model"])
    at = data.index(struct.pack("<I3s", 3, b"net"))
    struct.pack_into("<I", data, at, 2**32 - 1)
    assert "4294967295 elements" in problems_of(members | {"model": bytes(data)}, tmp_path)[0]
