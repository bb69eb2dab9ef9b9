"""Loading maps the file: nothing is copied, and what is not used is not read."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from dovetail.container import Model, Producer, WeightStore, summarize
from dovetail.errors import ContainerError
from dovetail.ir import Graph, Tensor

MIB = 1 << 20


def mapping_of(path: Path) -> tuple[int, int, int]:
    """First and last address and resident bytes of the one mapping of a file."""
    found = []
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            first, _, last = line.split()[0].partition("-")
            resident = next(s for s in lines if s.startswith("Rss:"))
            found.append((int(first, 16), int(last, 16), int(resident.split()[1]) * 1024))
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    graph = Graph("g")
    for i, mib in enumerate((8, 1, 24)):
        graph.add_tensor(Tensor.static(f"w{i}", np.full(mib * MIB // 4, i, np.float32)))
    path = tmp_path / "large.dvt"
    Model({"g": graph}, Producer("test", "1"), {}).save(path)
    return path


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"),
    reason="/proc tells which pages are resident on Linux only",
)


@linux
def test_loading_a_large_file_touches_little_of_it(large: Path) -> None:
    tensors = Model.load(large).graphs["g"].tensors
    # The kernel maps up to 64 KiB around each page touched: header, manifest, four gaps.
    assert mapping_of(large)[2] <= MIB // 2
    assert tensors["w1"].values().sum() == MIB // 4
    assert MIB <= mapping_of(large)[2] <= 2 * MIB  # the one blob that was used


@linux
def test_what_was_packed_leaves_memory_and_comes_back(large: Path) -> None:
    tensor = Model.load(large).graphs["g"].tensors["w2"]
    blob, values = tensor.data, tensor.values()
    assert blob is not None
    WeightStore().packed([tensor], "doubled", lambda *_: 2 * values)
    assert mapping_of(large)[2] <= MIB
    assert values.sum() == 2 * 24 * MIB // 4
    assert mapping_of(large)[2] >= 24 * MIB


@linux
def test_values_lie_in_the_mapping(large: Path) -> None:
    loaded = Model.load(large)
    first, last, _ = mapping_of(large)
    for tensor in loaded.graphs["g"].tensors.values():
        assert first < tensor.values().ctypes.data < last


def test_blobs_are_aligned_and_read_only(saved: Path) -> None:
    for tensor in Model.load(saved).graphs["decode"].tensors.values():
        if tensor.data is not None:
            stored = tensor.data.bytes
            assert stored.ctypes.data % 64 == 0
            with pytest.raises(ValueError, match="read-only"):
                stored[:1] = 0


def test_the_mapping_lives_as_long_as_an_array(saved: Path) -> None:
    values = Model.load(saved).graphs["decode"].tensors["weights"].values()
    expected = values.copy()
    saved.unlink()
    gc.collect()
    assert np.array_equal(values, expected)


@linux
def test_the_mapping_goes_with_the_last_array(saved: Path) -> None:
    loaded = Model.load(saved)
    assert str(saved) in Path("/proc/self/maps").read_text()
    del loaded
    gc.collect()
    assert str(saved) not in Path("/proc/self/maps").read_text()


@linux
def test_a_refused_file_is_not_kept_open(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-64])
    for look in (Model.load, summarize):
        with pytest.raises(Exception, match="cut short"):
            look(saved)
    gc.collect()
    assert str(saved) not in Path("/proc/self/maps").read_text()


def test_few_bytes_are_copied_and_many_are_not(large: Path) -> None:
    graph = Graph("g")
    graph.add_tensor(Tensor.static("small", np.zeros(1 << 14, np.float32)))
    graph.add_tensor(Tensor.static("large", np.zeros((1 << 14) + 1, np.float32)))
    path = large.parent / "both.dvt"
    Model({"g": graph}, Producer("test", "1"), {}).save(path)
    small, more = (t.data for t in Model.load(path).graphs["g"].tensors.values())
    assert small is not None
    assert more is not None
    kept = [small.bytes, more.bytes]
    assert (small.guard, more.guard is None) == (None, False)
    del kept
    assert more.guard is None  # nothing reads the mapping any more


def test_a_packed_form_is_never_the_mapped_file(large: Path) -> None:
    tensor = Model.load(large).graphs["g"].tensors["w1"]
    blob = tensor.data
    assert blob is not None
    packed = WeightStore().packed([tensor], "plain", lambda *_: tensor.stored()).data
    assert blob.guard is None
    assert (packed.sum(), packed.ctypes.data % 64) == (MIB // 4, 0)


def test_a_model_read_into_memory_is_not_mapped(saved: Path) -> None:
    mapped, private = Model.load(saved), Model.load(saved, map_weights=False)
    saved.write_bytes(b"")
    with pytest.raises(ContainerError, match="overwritten or cut short") as caught:
        mapped.graphs["decode"].tensors["weights"].values()
    assert (caught.value.code, caught.value.where) == ("CONTAINER_CHANGED", str(saved))
    tensor = private.graphs["decode"].tensors["weights"]
    assert tensor.values().shape == (64, 32)
    assert tensor.data is not None
    assert tensor.data.guard is None
    assert tensor.data.bytes.ctypes.data % 64 == 0


def test_damage_is_found_in_memory_too(saved: Path) -> None:
    raw = bytearray(saved.read_bytes())
    raw[-65] ^= 1
    saved.write_bytes(raw)
    graph = Model.load(saved, map_weights=False).graphs["decode"]
    blobs = [tensor.data for tensor in graph.tensors.values() if tensor.data is not None]
    with pytest.raises(ContainerError, match="is damaged in bytes"):
        _ = [blob.bytes for blob in blobs]


def test_a_loaded_model_is_pickled_and_copied(saved: Path, tmp_path: Path) -> None:
    loaded = Model.load(saved)
    pickled = pickle.dumps(loaded)
    copies = [pickle.loads(pickled), copy.deepcopy(loaded)]  # noqa: S301 - our own
    for i, each in enumerate(copies):
        assert each.graphs["decode"].tensors is not loaded.graphs["decode"].tensors
        each.save(tmp_path / f"{i}.dvt")
        assert (tmp_path / f"{i}.dvt").read_bytes() == saved.read_bytes()
