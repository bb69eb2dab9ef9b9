"""context-binary-generator: which files it writes, and what is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.container import ContextFile
from dovetail.ir import DType, MemoryType, Tensor
from dovetail.runtime import Backend, read_profile_log
from dovetail.runtime.base import PreparedBase

BINARY = "output/net.bin"


def generate(run: Any, *args: object, model: str = "net.dvt") -> Any:
    return run("--json", "context-binary-generator", "--model", model, *args)


@pytest.fixture
def two_models(new_net: Any) -> str:
    """Two models, `one` and `two`, with the same weights: y = x @ w."""
    weights = np.arange(64 * 1000, dtype="f4").reshape(64, 1000)
    for name, rows in (("one", 1), ("two", 3)):
        net = new_net(name)
        y = Tensor("y", DType.FLOAT_32, (rows, 1000))
        net.save(
            net.node("MatMul", net.input("x", rows, 64), net.static("w", weights), name="y", out=y)
        )
    return "one.dvt,two.dvt"


@pytest.mark.parametrize("name", ["net", "net.bin"])
def test_the_suffix_is_added_once(two_steps: str, run: Any, entries: Any, name: str) -> None:
    before = entries()
    done = generate(run, "--binary-file", name)
    assert done.code == 0, done.err
    assert entries() - before == {"output", BINARY}
    assert done.data["files"] == [{"path": BINARY, "bytes": Path(BINARY).stat().st_size}]
    assert [graph["graph"] for graph in done.data["graphs"]] == ["net"]
    assert list(ContextFile.open(BINARY).graphs) == ["net"]


def test_equal_models_give_equal_files(two_steps: str, run: Any) -> None:
    contents = []
    for folder in ("a", "b"):
        assert generate(run, "--binary-file", "net", "--output-dir", folder).code == 0
        contents.append(Path(folder, "net.bin").read_bytes())
    assert contents[0] == contents[1]


def test_without_a_name_nothing_is_written(two_steps: str, run: Any, entries: Any) -> None:
    before = entries()
    done = run("context-binary-generator", "--model", "net.dvt")
    assert done.code == 0
    assert "nothing is written" in done.err
    assert entries() == before


def test_graphs_of_several_models_share_weights(two_models: str, run: Any) -> None:
    assert generate(run, "--binary-file", "one", model="one.dvt").code == 0
    assert generate(run, "--binary-file", "both", model=two_models).code == 0
    assert list(ContextFile.open("output/both.bin").graphs) == ["one", "two"]
    one, both = (Path(f"output/{n}.bin").stat().st_size for n in ("one", "both"))
    assert both < 1.2 * one


def test_many_graphs(new_net: Any, run: Any) -> None:
    names = [f"g{i}" for i in range(70)]
    for name in names:
        net = new_net(name)
        net.save(net.node("Relu", net.input("x", 2), name="y"))
    models = ",".join(f"{name}.dvt" for name in names)
    assert generate(run, "--binary-file", "all", model=models).code == 0
    assert list(ContextFile.open("output/all.bin").graphs) == names


def test_models_are_embedded_unless_said_otherwise(two_models: str, run: Any) -> None:
    given = ("--binary-file", "net", "--backend-binary", "own")
    assert generate(run, *given, model="one.dvt").code == 0
    with_model, without = (ContextFile.open(f"output/{n}.bin") for n in ("net", "own"))
    assert with_model.model("one") is not None
    assert without.model("one") is None
    assert generate(run, "--binary-file", "net", "--no-embed-model", model="one.dvt").code == 0
    assert Path(BINARY).read_bytes() == Path("output/own.bin").read_bytes()


def test_steps_of_numpy_are_restored_without_a_model(two_steps: str, run: Any) -> None:
    assert generate(run, "--binary-file", "net", "--no-embed-model").code == 0
    x = np.arange(-3, 3, dtype="f4").reshape(2, 3)
    with Backend.create("cpu") as backend:
        binary = np.fromfile(BINARY, np.uint8)
        graph = backend.create_context_from_binary(binary).retrieve_graph("net")
        np.testing.assert_array_equal(graph.execute({"x": x})["y"], -np.maximum(x, 0))


def test_models_that_are_needed_must_be_embedded(
    two_steps: str, run: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PreparedBase, "needs_model", True)  # as of a backend of someone else
    before = entries()
    done = generate(run, "--binary-file", "net", "--no-embed-model")
    assert (done.code, done.error["code"]) == (7, "CONTEXT_ERROR_UNSUPPORTED_FEATURE")
    assert "--embed-model" in done.error["hint"]
    assert not (entries() - before - {"output"}), "nothing is written"


@pytest.mark.parametrize(
    "options", [["--enable-intermediate-outputs"], ["--set-output-tensors", "net:mid"]]
)
def test_tensors_become_outputs(two_steps: str, run: Any, options: list[str]) -> None:
    assert generate(run, "--binary-file", "net", *options).code == 0
    _, outputs = ContextFile.open(BINARY).interface("net")
    assert {tensor.name for tensor in outputs} == {"y", "mid"}
    with Backend.create("cpu") as backend:
        graph = backend.create_context_from_binary(BINARY).graphs["net"]
        found = graph.execute({"x": np.array([[-1, 2, 3], [4, -5, 6]], "f4")})
    assert found["mid"].tolist() == [[0, 2, 3], [4, 0, 6]]
    assert found["y"].tolist() == [[0, -2, -3], [-4, 0, -6]]


def test_outputs_are_named_as_the_converters_write_them(new_net: Any, run: Any) -> None:
    net = new_net()
    middle = net.node("Relu", net.input("x", 2, 3), name="1.mid")
    net.save(net.node("ElementWiseNeg", middle, name="y"))
    for spelling in ("1.mid", "_1_mid"):
        done = generate(run, "--binary-file", "net", "--set-output-tensors", f"net:{spelling}")
        assert done.code == 0, done.err
        _, outputs = ContextFile.open(BINARY).interface("net")
        assert {tensor.name for tensor in outputs} == {"y", "1.mid"}


@pytest.mark.parametrize("kind", ["raw", "memhandle"])
def test_the_memory_of_inputs_and_outputs(two_steps: str, run: Any, kind: str) -> None:
    given = ("--binary-file", "net", "--input-output-tensor-mem-type", kind)
    assert generate(run, *given).code == 0
    inputs, outputs = ContextFile.open(BINARY).interface("net")
    assert {t.memory_type for t in (*inputs, *outputs)} == {MemoryType[kind.upper()]}


def test_profiles_of_the_preparation(two_steps: str, run: Any, entries: Any) -> None:
    before = entries()
    given = ("--binary-file", "net", "--profiling-level", "detailed")
    done = generate(run, *given, "--profiling-option", "optrace")
    assert done.code == 0, done.err
    log = "output/qnn-profiling-data_0.log"
    assert entries() - before == {"output", BINARY, log, "output/chrometrace.json"}
    (section,) = read_profile_log(log)
    assert [record.call for record in section.records] == [2, 7]
    events = json.loads(Path("output/chrometrace.json").read_text())["traceEvents"]
    assert any(event.get("ph") == "X" for event in events)


def test_the_config_and_platform_options_are_used(two_steps: str, run: Any) -> None:
    Path("run.toml").write_text("[backend.cpu]\nengine = 'numpy'\n[profile]\nnum_max_events = 1\n")
    given = ("--config-file", "run.toml", "--platform-options", "num_threads:1")
    done = generate(run, "--binary-file", "net", "--profiling-level", "basic", *given)
    assert done.code == 0, done.err
    assert ContextFile.open(BINARY).manifest.options == {"engine": "numpy", "num_threads": 1}
    (section,) = read_profile_log("output/qnn-profiling-data_0.log")
    assert [len(record.event.children) for record in section.records] == [0, 0]


@pytest.mark.parametrize(
    ("options", "code", "part"),
    [
        (
            ["--enable-intermediate-outputs", "--set-output-tensors", "net:mid"],
            2,
            "--enable-intermediate-outputs and --set-output-tensors are mutually exclusive",
        ),
        (["--profiling-option", "optrace"], 2, "requires --profiling-level"),
        (
            ["--profiling-option", "optrace", "--profiling-level", "basic"],
            2,
            "requires --profiling-level detailed",
        ),
        (["--profiling-level", "client"], 2, "'client'"),
        (["--profiling-level", "backend"], 7, "no profiling level of its own"),
        (["--set-output-tensors", "net:mdi"], 2, "did you mean 'mid'?"),
        (["--set-output-tensors", "nut:mid"], 2, "did you mean 'net'?"),
        (["--binary-file", "a/net"], 2, "invalid name 'a/net'"),
        (["--binary-file", "../net"], 2, "invalid name '../net'"),
        (["--binary-file", ".."], 2, "invalid name '..'"),
        (["--backend-binary", ""], 2, "invalid name ''"),
        (["--backend-binary", "net.bin"], 2, "have the same name 'net.bin'"),
        (["--input-output-tensor-mem-type", "ion"], 2, "'ion'"),
        (["--backend", "cpx"], 6, "did you mean 'cpu'?"),
        (["--model", "none.dvt"], 3, "none.dvt"),
        (["--model", "net.dvt,net.dvt"], 3, "duplicate graph name 'net'"),
        (["--platform-options", "num_thread:1"], 2, "did you mean 'num_threads'?"),
    ],
)
def test_refusals(
    two_steps: str, run: Any, entries: Any, options: list[str], code: int, part: str
) -> None:
    before = entries()
    done = generate(run, "--binary-file", "net", *options)
    assert done.code == code, done.err
    assert part in done.err
    assert entries() == before


def test_a_failed_write_leaves_the_earlier_file(
    two_models: str, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    assert generate(run, "--binary-file", "net", model="one.dvt").code == 0
    before = Path(BINARY).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = generate(run, "--binary-file", "net", "--no-embed-model", model="one.dvt")
    assert (done.code, done.error["code"]) == (3, "FILE_UNWRITABLE")
    assert Path(BINARY).read_bytes() == before
    assert {p.name for p in Path("output").iterdir()} == {"net.bin"}
