"""Writing: reproducible, each content once, all of it or nothing."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.container import Model, Producer
from dovetail.errors import ContainerError, GraphError
from dovetail.ir import Blob, DType, Graph, Node, Tensor, TensorKind

from .conftest import HEADER, manifest_of

CHUNK = 4 << 20


def plain_model(*tensors: Tensor) -> Model:
    graph = Graph("g")
    for tensor in tensors:
        graph.add_tensor(tensor)
    return Model({"g": graph}, Producer("test", "1"), {})


def test_equal_models_give_equal_bytes(tmp_path: Path) -> None:
    # made apart, saved under other names and folders
    values = np.arange(1000, dtype=np.float32)
    first, second = tmp_path / "a.dvt", tmp_path / "folder" / "b.dvt"
    second.parent.mkdir()
    plain_model(Tensor.static("w", values)).save(first)
    plain_model(Tensor.static("w", values.copy())).save(second)
    assert first.read_bytes() == second.read_bytes()


def test_order_of_options_and_versions_does_not_matter(tmp_path: Path) -> None:
    for name, order in (("a", 1), ("b", -1)):
        options = dict([("x", "1"), ("y", "2")][::order])
        packages = dict([("p", "1"), ("q", "2")][::order])
        Model({}, Producer("t", "1", options=options), packages).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_bytes_of_version_1_never_change(saved: Path) -> None:
    # Files are out there: a change of these bytes is a new format version.
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()
    assert digest == "a27044be4cf15d2eea7324647c7f644cf56ed8df5286baac2dda4c6156c37d7f"


def test_a_file_says_neither_where_nor_when_it_was_made(saved: Path, tmp_path: Path) -> None:
    raw = saved.read_bytes()
    for trace in (str(tmp_path), os.uname().nodename if hasattr(os, "uname") else "model.dvt"):
        assert trace.encode() not in raw


def test_the_file_is_as_the_format_says(saved: Path) -> None:
    # read here by the specification alone, without any code of the container
    raw = saved.read_bytes()
    magic, version, kind, _, manifest_bytes, file_bytes, digest = HEADER.unpack(raw[:64])
    assert (magic, version, kind) == (b"\x89DVT\r\n\x1a\n", 1, 1)
    assert file_bytes == len(raw)
    assert file_bytes % 64 == 0
    assert hashlib.sha256(raw[64 : 64 + manifest_bytes]).digest() == digest
    position = 64 + manifest_bytes
    for blob in manifest_of(saved)["blobs"]:
        position = -(-position // 64) * 64
        content = raw[position : position + blob["size"]]
        assert hashlib.sha256(content).hexdigest() == blob["sha256"]
        position += blob["size"]
    assert file_bytes - position < 64


def test_equal_contents_are_stored_once(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=50_000).astype(np.float32)
    shared = Tensor.static("a", values)
    model = plain_model(
        shared,
        Tensor("b", DType.FLOAT_32, (50_000,), TensorKind.STATIC, data=shared.data),
        Tensor.static("c", values.copy()),
        Tensor.static("d", values.view(np.int32)),  # other values, the same bytes
        Tensor.static("e", values + 1),
    )
    path = tmp_path / "m.dvt"
    model.save(path)
    assert [b["size"] for b in manifest_of(path)["blobs"]] == [200_000, 200_000]
    assert path.stat().st_size < 2 * 200_000 + 5_000
    tensors = Model.load(path).graphs["g"].tensors
    assert tensors["a"].data is tensors["d"].data
    assert np.array_equal(tensors["c"].values(), values)


def test_graphs_share_their_blobs(saved: Path) -> None:
    prefill, decode = Model.load(saved).graphs.values()
    assert prefill.tensors["weights"].data is decode.tensors["weights"].data


def test_empty_data_take_a_blob_without_bytes(tmp_path: Path) -> None:
    path = tmp_path / "m.dvt"
    plain_model(Tensor.static("none", np.empty((0, 3), np.float32))).save(path)
    assert manifest_of(path)["blobs"][0]["crc32"] == []
    assert Model.load(path).graphs["g"].tensors["none"].values().shape == (0, 3)


def test_a_blob_of_several_chunks_comes_back(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, 2 * CHUNK + 1, np.uint8)
    path = tmp_path / "m.dvt"
    plain_model(Tensor.static("w", values)).save(path)
    assert np.array_equal(Model.load(path).graphs["g"].tensors["w"].values(), values)


def test_a_model_can_be_saved_over_the_file_it_was_loaded_from(saved: Path) -> None:
    before = saved.read_bytes()
    loaded = Model.load(saved)
    loaded.save(saved)
    assert saved.read_bytes() == before
    assert loaded.graphs["decode"].tensors["weights"].values().shape == (64, 32)


def failing_check() -> None:
    raise ContainerError("damaged on purpose")


def broken_blob(model: Model) -> None:
    data = np.zeros(4, np.uint8)
    model.graphs["decode"].add_tensor(
        Tensor(
            "bad",
            DType.UINT_8,
            (4,),
            TensorKind.STATIC,
            data=Blob(data, hash="0" * 64, check=failing_check),
        )
    )


def falsely_named_blob(model: Model) -> None:
    # found only while the file is being written
    model.graphs["decode"].add_tensor(
        Tensor(
            "bad",
            DType.UINT_8,
            (4,),
            TensorKind.STATIC,
            data=Blob(np.zeros(4, np.uint8), hash="0" * 64),
        )
    )


def broken_graph(model: Model) -> None:
    model.graphs["decode"].add_tensor(Tensor("y2", DType.FLOAT_32, (), TensorKind.APP_READ))


def unversioned_package(model: Model) -> None:
    graph = model.graphs["decode"]
    out = graph.add_tensor(Tensor("y2", DType.FLOAT_32, (), TensorKind.APP_READ))
    graph.add_node(Node("n", "un.known", "Make", [], [out]))


def bad_name(model: Model) -> None:
    model.graphs["decode"].add_tensor(Tensor("\ud800", DType.FLOAT_32, (), TensorKind.APP_WRITE))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (broken_blob, ContainerError, "on purpose"),
        (falsely_named_blob, ContainerError, "are damaged"),
        (broken_graph, GraphError, "fault"),
        (unversioned_package, GraphError, "missing version of op package un.known"),
        (bad_name, ContainerError, "UTF-8"),
    ],
)
@pytest.mark.parametrize("existing", [False, True])
def test_after_an_error_nothing_is_left(
    spoil: Any, error: type[Exception], message: str, existing: bool, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "m.dvt"
    if existing:
        path.write_bytes(b"the old one")
    spoil(model)
    with pytest.raises(error, match=message):
        model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == (["m.dvt"] if existing else [])
    assert not existing or path.read_bytes() == b"the old one"


def test_a_full_disk_leaves_nothing(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ContainerError, match="No space left") as caught:
        model.save(tmp_path / "m.dvt")
    assert caught.value.code == "FILE_UNWRITABLE"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "missing" / "m.dvt"
    with pytest.raises(ContainerError) as caught:
        model.save(path)
    assert caught.value.code == "FILE_UNWRITABLE"
    assert caught.value.where == str(path)


def test_damage_is_not_written_out_under_fresh_checksums(saved: Path, tmp_path: Path) -> None:
    raw = bytearray(saved.read_bytes())
    entries = {t["name"]: t for t in manifest_of(saved)["graphs"][0]["tensors"]}
    wanted = manifest_of(saved)["blobs"][entries["weights"]["data"]]["sha256"]
    position = next(
        p for p in range(0, len(raw), 64) if hashlib.sha256(raw[p : p + 8192]).hexdigest() == wanted
    )
    raw[position] ^= 1
    saved.write_bytes(raw)
    with pytest.raises(ContainerError, match="are damaged"):
        Model.load(saved, integrity="manifest").save(tmp_path / "copy.dvt")
    assert not (tmp_path / "copy.dvt").exists()


def test_a_saved_file_may_be_read_by_others_as_any_new_file(saved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)
