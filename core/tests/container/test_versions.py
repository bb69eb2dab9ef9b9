"""Minor versions: what a newer file may hold, and what an older core says of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dovetail.container import Model, summarize, verify
from dovetail.container._versions import MINOR
from dovetail.errors import ContainerError
from dovetail.ir import (
    AxisScaleOffset,
    DataFormat,
    DType,
    EncodingMapping,
    FloatBlock,
    Graph,
    Mapped,
    MemoryType,
    Node,
    Spec,
    Tensor,
    TensorKind,
    Vector,
)

from .conftest import PRODUCER, Forge, manifest_of
from .test_hostile_manifest import at, mutate, refusal_of

NEW_MINOR = 99
CHANNELS = AxisScaleOffset(1, np.float32([1, 2, 3]), np.int32([0, -1, -2]), 4)
S8 = DType.SFIXED_POINT_8


def small(**how: Any) -> Model:
    """x -> Relu -> y; `how` describes x."""
    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", S8, (4, 3), TensorKind.APP_WRITE, **how))
    y = graph.add_tensor(Tensor("y", DType.FLOAT_32, (4, 3), TensorKind.APP_READ))
    graph.add_node(Node("n", "qti.aisw", "Relu", [x], [y]))
    return Model({"net": graph}, PRODUCER, {"qti.aisw": "1"})


USES: list[tuple[dict[str, Any], list[str]]] = [
    ({"dynamic": (True, False)}, ["dynamic"]),
    ({"data_format": DataFormat.UBWC_NV12}, ["data_format"]),
    ({"memory_type": MemoryType.MEMHANDLE}, []),  # without it, the same model with other buffers
    ({"encoding": FloatBlock((4, 3), np.ones((1, 1)), np.full((1, 1), 0.5))}, ["float_block"]),
    ({"encoding": Mapped(CHANNELS, EncodingMapping.ASYMMETRIC_PLUS_ONE)}, ["mapped"]),
    ({"encoding": Vector(CHANNELS, 4, 3, 2, 1, 6)}, ["vector"]),
]


@pytest.mark.parametrize(("how", "requires"), USES, ids=lambda u: str(u)[:20])
def test_a_file_states_what_it_uses(
    how: dict[str, Any], requires: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "m.dvt"
    small(**how).save(path)
    manifest = manifest_of(path)
    assert manifest["minor"] == 1
    assert manifest.get("requires", []) == requires
    summary = summarize(path)
    assert (summary.format_minor, list(summary.requires)) == (1, requires)
    [loaded] = Model.load(path).graphs["net"].inputs
    for name, value in how.items():
        assert getattr(loaded, name) == value


@pytest.mark.parametrize("dtype", [DType.FLOAT_16, DType.UFIXED_POINT_4])
def test_a_grid_without_an_encoding_needs_a_later_reader(dtype: DType, tmp_path: Path) -> None:
    model = small()
    stated = {"y": Spec(dtype, (4, 3))}
    model.graphs["net"].source_encodings = dict(stated)
    model.save(tmp_path / "m.dvt")
    manifest = manifest_of(tmp_path / "m.dvt")
    assert (manifest["minor"], manifest["requires"]) == (2, ["open_grid"])
    assert Model.load(tmp_path / "m.dvt").graphs["net"].source_encodings == stated


def test_a_file_without_additions_is_as_before(saved: Path) -> None:
    assert not {"minor", "requires"} & manifest_of(saved).keys()
    assert (summarize(saved).format_minor, summarize(saved).requires) == (0, ())


def test_a_summary_shows_dynamic_axes_memory_and_format(tmp_path: Path) -> None:
    how = {"memory_type": MemoryType.MEMHANDLE, "data_format": DataFormat.MX}
    small(dynamic=(True, False), **how).save(tmp_path / "m.dvt")
    [x] = summarize(tmp_path / "m.dvt").graphs[0].inputs
    assert (x.dynamic, x.memory_type, x.data_format) == ((True, False), "MEMHANDLE", "MX")


PLACES: list[tuple[str | int, ...]] = [
    (),
    ("producer",),
    ("blobs", 0),
    ("graphs", 0),
    ("graphs", 0, "tensors", 0),
    ("graphs", 0, "tensors", 0, "encoding"),
    ("graphs", 0, "tensors", 1, "encoding", "scales"),
    ("graphs", 0, "nodes", 0),
    ("graphs", 0, "nodes", 0, "params", 0),
]


def test_unknown_keys_of_a_newer_minor_version_are_ignored(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved)
    for place in PLACES:
        at(*place, "color", value={"deep": ["red"]})(manifest)
    manifest["minor"] = NEW_MINOR
    path = forge(manifest)
    original, loaded = Model.load(saved), Model.load(path)
    again = path.with_name("again.dvt")
    loaded.save(again)
    assert again.read_bytes() == saved.read_bytes()
    assert list(loaded.graphs) == list(original.graphs)
    assert summarize(path).format_minor == NEW_MINOR
    assert verify(path) == ()


def test_a_newer_file_that_requires_nothing_unknown_is_read(saved: Path, forge: Forge) -> None:
    more = {"minor": NEW_MINOR, "requires": ["dynamic"], "color": "red"}
    assert len(Model.load(forge(manifest_of(saved) | more)).graphs) == 2


@pytest.mark.parametrize("minor", [0, MINOR, NEW_MINOR])
@pytest.mark.parametrize("color", [{}, {"color": "red"}], ids=["known keys", "unknown key"])
@pytest.mark.parametrize("read", [Model.load, summarize, verify])
def test_what_a_file_requires_and_we_lack_is_named(
    minor: int,
    color: dict[str, str],
    read: Callable[[Path], object],
    saved: Path,
    forge: Forge,
) -> None:
    more = {"minor": minor, "requires": ["smell", "dynamic", "color"]}
    path = forge(manifest_of(saved) | more | color)
    with pytest.raises(ContainerError, match="requires 'color', 'smell'") as caught:
        read(path)
    assert caught.value.code == "CONTAINER_VERSION"
    assert f"1.{MINOR}" in caught.value.message
    assert caught.value.where == str(path)


@pytest.mark.parametrize("minor", [0, MINOR])
def test_unknown_keys_of_a_known_minor_version_are_refused(
    minor: int, saved: Path, forge: Forge
) -> None:
    with pytest.raises(ContainerError, match=r"\$\.color"):
        Model.load(forge(manifest_of(saved) | {"minor": minor, "color": "red"}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minor", -1),
        ("minor", 2**32),
        ("minor", "1"),
        ("minor", None),
        ("requires", "dynamic"),
        ("requires", [1]),
        ("requires", {}),
    ],
)
def test_impossible_versions_are_refused(
    key: str, value: object, saved: Path, forge: Forge
) -> None:
    manifest = manifest_of(saved) | {"minor": NEW_MINOR, key: value}
    with pytest.raises(ContainerError) as caught:
        Model.load(forge(manifest))
    assert caught.value.code == "CONTAINER_INVALID"
    assert f"$.{key}" in caught.value.where


def test_wrong_values_of_a_newer_minor_version_are_still_refused(saved: Path, forge: Forge) -> None:
    manifest = manifest_of(saved) | {"minor": NEW_MINOR, "color": "red"}
    at("graphs", 0, "tensors", 0, "kind", value=77)(manifest)
    with pytest.raises(ContainerError, match="Invalid enum value 77"):
        Model.load(forge(manifest))


X = ("graphs", 0, "tensors", 0)
IMPOSSIBLE: list[tuple[tuple[str | int, ...], Any, str, str]] = [
    (("dynamic",), [True], "graph 'net'", "fault"),
    (("dynamic",), [True, 1], "tensors[0].dynamic", "Expected `bool`"),
    (("dynamic",), [True] * 65, "tensors[0].dynamic", "length <= 64"),
    (("memory_type",), 3, "tensors[0].memory_type", "Invalid enum value 3"),
    (("data_format",), 12, "tensors[0].data_format", "Invalid enum value 12"),
    (("encoding", "mapping"), 3, "encoding.mapping", "Invalid enum value 3"),
    (("encoding", "base"), {"encoding": "scale_offset", "scale": 1}, "encoding.base", "Invalid"),
    (("encoding", "base", "axis"), 2, "graph 'net'", "fault"),
    (("encoding", "base", "bitwidth"), None, "graph 'net'", "fault"),
    (("encoding", "base", "offsets", "values"), [0.5, 0, 0], "tensors[0].encoding", "INT_32"),
]


@pytest.mark.parametrize(("place", "value", "where", "what"), IMPOSSIBLE)
def test_impossible_additions_are_refused(
    place: tuple[str | int, ...], value: Any, where: str, what: str, tmp_path: Path, forge: Forge
) -> None:
    mapped = Mapped(CHANNELS, EncodingMapping.STANDARD_SYMMETRIC)
    small(encoding=mapped, dynamic=(True, True)).save(tmp_path / "m.dvt")
    manifest = manifest_of(tmp_path / "m.dvt")
    at(*X, *place, value=value)(manifest)
    manifest["blobs"] = manifest_of(tmp_path / "model.dvt")["blobs"]  # what the forge appends
    with pytest.raises(ContainerError) as caught:
        Model.load(forge(manifest))
    assert caught.value.code == "CONTAINER_INVALID"
    assert where in caught.value.where
    assert what in caught.value.message


def test_no_mutated_file_of_this_minor_version_gives_anything_but_a_container_error(
    tmp_path: Path, forge: Forge
) -> None:
    rng = random.Random(4)
    originals = []
    for how, _ in USES:
        small(**how).save(tmp_path / "m.dvt")
        blobs = {"blobs": manifest_of(tmp_path / "model.dvt")["blobs"]}
        originals.append(msgspec.json.encode(manifest_of(tmp_path / "m.dvt") | blobs))
    refused = 0
    for i in range(300):
        manifest = msgspec.json.decode(originals[i % len(originals)])
        mutate(manifest, rng)
        refused += refusal_of(forge(json.dumps(manifest).encode())) is not None
    assert 100 < refused < 290
