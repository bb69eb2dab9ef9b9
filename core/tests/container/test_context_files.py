"""Context binaries and sections: their summaries, what graphs share, and what damage does."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dovetail.container import (
    ContextContent,
    ContextFile,
    ContextParts,
    ContextSummary,
    StoredContextGraph,
    compare_weights,
    context_weights,
    embedded_model,
    graph_digest,
    summarize,
    verify,
)
from dovetail.errors import ConfigError, ContainerError
from dovetail.ir import Blob, DType, Tensor, TensorKind
from dovetail.runtime import sharing_report

from .conftest import HEADER, PRODUCER, manifest_of, pack_header, rich_graph
from .test_hostile_manifest import mutate

BOTH, FIRST, UNNAMED = (np.full(size, fill, np.uint8) for size, fill in ((300, 7), (90, 8), (5, 9)))
KEYS = {"0/both": BOTH, "0/first": FIRST, "facts": UNNAMED}


def stored(name: str, weights: Tensor, *keys: str, model: bool = True) -> StoredContextGraph:
    graph = rich_graph(name, weights)
    return StoredContextGraph(
        name=name,
        plan={"name": name, "forms": [[key, 3] for key in keys], "none": None},
        inputs=graph.inputs,
        outputs=graph.outputs,
        model=graph if model else None,
        digest=graph_digest(graph),
        config={"profiling": 1},
        observed=("middle",),
        added_outputs=("middle",),
        memory_bytes=1234,
    )


def content(*graphs: StoredContextGraph, **how: object) -> ContextContent:
    found: dict[str, object] = {
        "producer": PRODUCER,
        "backend": "null",
        "options": {"depth": 2},
        "fingerprint": {"backend": "null", "version": "1"},
        "op_packages": {"my.pkg": "3.1", "qti.aisw": "1.0.0"},
        "graphs": graphs,
        "blobs": {key: Blob(array) for key, array in KEYS.items()},
    }
    return ContextContent(**(found | how))  # type: ignore[arg-type]


def write(path: Path, what: ContextContent) -> Path:
    path.write_bytes(b"".join(what.parts()))
    return path


def weights(shift: float = 0) -> Tensor:
    return Tensor.static("weights", np.arange(2048, dtype=np.float32).reshape(64, 32) + shift)


@pytest.fixture
def context() -> ContextContent:
    """Two graphs, whose plans name blobs without the index that is before their keys."""
    one = stored("one", weights(), "both", "first")
    return content(one, stored("two", weights(), "both"))


@pytest.fixture
def saved(context: ContextContent, tmp_path: Path) -> Path:
    return write(tmp_path / "c.bin", context)


def test_a_summary_says_what_the_file_is_for(saved: Path) -> None:
    summary = summarize(saved)
    assert isinstance(summary, ContextSummary)
    assert (summary.kind, summary.backend, summary.options) == ("context", "null", {"depth": 2})
    assert summary.fingerprint["version"] == "1"
    assert summary.file_bytes == saved.stat().st_size
    one, two = summary.graphs
    assert [graph.name for graph in (one, two)] == ["one", "two"]
    assert (one.nodes, one.has_model, one.memory_bytes) == (2, True, 1234)
    assert (one.config, one.observed, one.added_outputs) == (
        {"profiling": 1},
        ("middle",),
        ("middle",),
    )
    assert one.inputs[0].encoding == "(scale 0.1, offset -3)"
    assert msgspec.json.decode(msgspec.json.encode(summary), type=ContextSummary) == summary


def test_graphs_share_what_their_plans_and_models_name(saved: Path) -> None:
    summary = summarize(saved)
    assert isinstance(summary, ContextSummary)
    # of the model: axis and block have the same 160 bytes, expanded 80, text 6, weights 8192,
    # stride 8, and the scales of 80 channels; then the blob of both plans and that of none
    model = 160 + 80 + 6 + 8192 + 8 + 4 * 80
    shared = model + BOTH.size + UNNAMED.size
    assert summary.shared_blob_bytes == shared
    assert [graph.shared_blob_bytes for graph in summary.graphs] == [shared, shared]
    # besides them a graph has its plan and its model, and here the first one a blob alone
    rest = [graph.blob_bytes - shared - graph.plan_bytes for graph in summary.graphs]
    assert rest[0] - rest[1] == FIRST.size


@pytest.mark.parametrize("names", [["one"], ["two"], ["one", "two"]])
def test_a_file_with_some_graphs_has_the_size_that_parts_say(
    saved: Path, tmp_path: Path, names: list[str]
) -> None:
    parts = ContextParts(ContextFile.open(saved))
    some = parts.content(names)
    path = write(tmp_path / "some.bin", some)
    assert parts.size(some) == path.stat().st_size
    again = ContextFile.open(path)
    assert list(again.graphs) == names
    assert set(again.blobs) == (KEYS.keys() if "one" in names else KEYS.keys() - {"0/first"})
    assert again.plan(names[0]) == ContextFile.open(saved).plan(names[0])
    assert not verify(path)
    if len(names) == 2:
        assert path.read_bytes() == saved.read_bytes()


def test_a_section_has_its_tensors(tmp_path: Path) -> None:
    kind = TensorKind.UPDATEABLE_STATIC
    data = np.arange(6, dtype=np.float32)
    tensor = Tensor("w", DType.FLOAT_32, (6,), kind, data=Blob(data))
    graph = StoredContextGraph(name="one", plan=None, digest="ab", updated=(tensor,))
    blobs = {"0/x": Blob(data)}
    path = write(tmp_path / "s.bin", content(graph, blobs=blobs, is_section=True))
    summary = summarize(path)
    assert isinstance(summary, ContextSummary)
    assert (summary.kind, summary.graphs[0].digest) == ("section", "ab")
    assert [(t.name, t.shape) for t in summary.graphs[0].updated] == [("w", (6,))]
    assert summary.graphs[0].blob_bytes == data.nbytes  # the same bytes as those of the image
    assert not verify(path)


def test_models_are_embedded_in_all_graphs_or_missing(tmp_path: Path, saved: Path) -> None:
    model = embedded_model(ContextFile.open(saved))
    assert list(model.graphs) == ["one", "two"]
    assert graph_digest(model.graphs["one"]) == graph_digest(rich_graph("one", weights()))
    graphs = stored("one", weights()), stored("two", weights(), model=False)
    path = write(tmp_path / "bare.bin", content(*graphs))
    with pytest.raises(ContainerError, match="no model of graph two") as caught:
        embedded_model(ContextFile.open(path))
    assert caught.value.code == "CONTAINER_INCOMPATIBLE"
    assert "--embed-model" in caught.value.hint


def test_every_flipped_byte_is_found(saved: Path) -> None:
    raw = saved.read_bytes()
    assert not verify(saved)
    for position in range(8, len(raw), 101):  # before it, the file would be of another format
        changed = bytearray(raw)
        changed[position] ^= 0x10
        saved.write_bytes(changed)
        assert verify(saved), position
    for size in (63, 64, len(raw) // 2, len(raw) - 1):
        saved.write_bytes(raw[:size])
        assert verify(saved), size


def test_damage_that_has_correct_checksums_is_found_in_each_graph(
    context: ContextContent, tmp_path: Path
) -> None:
    one, two = context.graphs
    other = msgspec.structs.replace(two, model=msgspec.structs.replace(one).model)
    faults = verify(write(tmp_path / "c.bin", content(one, other)))
    assert [fault.message for fault in faults] == ["the model has the name 'one'"]
    assert "graph 'two'" in faults[0].where


def test_a_file_states_what_its_interface_uses(tmp_path: Path) -> None:
    x = Tensor("x", DType.FLOAT_32, (4, 3), TensorKind.APP_WRITE, dynamic=(True, False))
    graph = StoredContextGraph(name="net", plan=[], inputs=(x,))
    summary = summarize(write(tmp_path / "c.bin", content(graph)))
    assert (summary.format_minor, summary.requires) == (1, ("dynamic",))


def test_a_context_tensor_must_be_in_the_file(context: ContextContent, tmp_path: Path) -> None:
    one = msgspec.structs.replace(context.graphs[0], shared=("s",))
    shared = Tensor("s", DType.FLOAT_32, (2,), TensorKind.APP_READWRITE)
    path = write(tmp_path / "c.bin", content(one, tensors=(shared,)))
    summary = summarize(path)
    assert isinstance(summary, ContextSummary)
    assert (summary.graphs[0].context_tensors, summary.tensors[0].name) == (("s",), "s")
    with pytest.raises(ContainerError, match="context tensor 's' not found"):
        summarize(write(tmp_path / "d.bin", content(one)))


def test_an_empty_graph_is_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "c.bin", content(StoredContextGraph(name="net", plan=None)))
    summary = summarize(path)
    assert summary.graphs[0].inputs == ()
    assert ContextFile.open(path).model("net") is None


def test_a_plan_that_is_nested_too_deeply_is_not_written(tmp_path: Path) -> None:
    plan: list[object] = []
    for _ in range(100_000):
        plan = [plan]
    with pytest.raises(ContainerError, match="nested too deeply"):
        write(tmp_path / "c.bin", content(StoredContextGraph(name="net", plan=plan)))


def forged(saved: Path, manifest: object) -> Path:
    """Write the blobs of a file under another manifest, with correct checksums."""
    raw = saved.read_bytes()
    size = HEADER.unpack(raw[:64])[4]
    blobs = raw[-(-(64 + size) // 64) * 64 :]
    text = msgspec.json.encode(manifest)
    padded = text + bytes(-len(text) % 64)
    kind = HEADER.unpack(raw[:64])[2]
    path = saved.with_name("forged.bin")
    path.unlink(missing_ok=True)
    header = pack_header(text, 64 + len(padded) + len(blobs), kind=kind)
    path.write_bytes(header + padded + blobs)
    return path


def test_an_unknown_integrity_is_rejected(saved: Path) -> None:
    with pytest.raises(ConfigError, match="unknown integrity 'binds'") as caught:
        ContextFile.open(saved, integrity="binds")  # type: ignore[arg-type]
    assert "'bind'" in caught.value.hint


NAMED = {
    "a graph": (("graphs",), "graph", "$.graphs"),
    "a context tensor": (("tensors",), "tensor", "$.tensors"),
    "an input": (("graphs", 0, "inputs"), "input or output", "$.graphs[0]"),
    "an updated tensor": (("graphs", 0, "updated"), "tensor", "$.graphs[0].updated"),
}


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("is_empty", [False, True])
def test_names_must_be_unique_and_not_empty(
    context: ContextContent, tmp_path: Path, named: str, is_empty: bool
) -> None:
    tensor = Tensor("w", DType.FLOAT_32, (6,), TensorKind.UPDATEABLE_STATIC)
    tensor.data = Blob(np.arange(6, dtype=np.float32))
    shared = Tensor("s", DType.FLOAT_32, (2,), TensorKind.APP_READWRITE)
    one, two = context.graphs
    graphs = msgspec.structs.replace(one, updated=(tensor,)), two
    saved = write(tmp_path / "c.bin", content(*graphs, tensors=(shared,)))
    manifest = manifest_of(saved)
    keys, what, where = NAMED[named]
    entries = functools.reduce(lambda found, key: found[key], keys, manifest)
    if is_empty:
        entries[0]["name"] = ""
    else:
        entries.append(entries[0])
    with pytest.raises(ContainerError) as caught:
        ContextFile.open(forged(saved, manifest))
    assert caught.value.message == f"{'empty' if is_empty else 'duplicate'} {what} name"
    assert caught.value.where.endswith(where)


@pytest.mark.parametrize("section", [False, True])
def test_no_mutated_manifest_raises_anything_but_a_container_error(
    context: ContextContent, tmp_path: Path, section: bool
) -> None:
    tensor = Tensor("w", DType.FLOAT_32, (6,), TensorKind.UPDATEABLE_STATIC)
    tensor.data = Blob(np.arange(6, dtype=np.float32))
    graphs = tuple(msgspec.structs.replace(g, updated=(tensor,)) for g in context.graphs)
    shared = Tensor("s", DType.FLOAT_32, (2,), TensorKind.APP_READWRITE)
    changed = msgspec.structs.replace(context, graphs=graphs, tensors=(shared,), is_section=section)
    saved = write(tmp_path / "c.bin", changed)
    rng, rejected = random.Random(11), 0
    for _ in range(100):
        manifest = manifest_of(saved)
        mutate(manifest, rng)
        path = forged(saved, manifest)
        verify(path)
        try:
            summarize(path)
            file = ContextFile.open(path, section=section)
            sharing_report(file, similarity=True)
            found = context_weights(file)
            compare_weights(found, found)
        except ContainerError:
            rejected += 1
    assert 30 < rejected < 100  # some changes do no harm
