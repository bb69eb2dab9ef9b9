"""Adapters of the commands: sections written by the generator, and applied by net-run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.adapters import write_safetensors
from dovetail.ir import DType, ScaleOffset, TensorKind

X = np.array([1, 2, 3], "f4")


@pytest.fixture
def scaled(new_net: Any, raw: Any, listing: Any) -> Any:
    """Write models y = x * w with w of ones, that adapters update; return their names."""

    def write(*names: str) -> str:
        for name in names:
            net = new_net(name)
            w = net.static("w", np.ones(3, "f4"))
            w.kind = TensorKind.UPDATEABLE_STATIC
            net.save(net.node("ElementWiseMultiply", net.input("x", 3), w, name="y"))
        return ",".join(f"{name}.dvt" for name in names)

    raw("a.raw", X)
    listing("a.raw")
    return write


def config(*entries: tuple[str, str, float], shared: bool = False) -> str:
    """Write a config of adapters: names, graphs and values of w; return its name."""
    uses = []
    for i, (name, graph, value) in enumerate(entries):
        write_safetensors(Path(f"{i}.safetensors"), {"w": np.full(3, value, "f4")})
        uses.append({"name": name, "graph": graph, "weights": f"{i}.safetensors"})
    data = {"use_case": uses, "share_adapters_between_graphs": shared}
    Path("adapters.json").write_text(json.dumps(data))
    return "adapters.json"


def generate(run: Any, model: str, *args: object) -> Any:
    given = ("--model", model, "--binary-file", "net", "--adapter-weight-config")
    return run("--json", "context-binary-generator", *given, *args)


def retrieve(run: Any, *args: object, lists: str = "list.txt") -> Any:
    given = ("--retrieve-context", "output/net.bin", "--input-list", lists, "--output-dir", "out")
    return run("--json", "net-run", *given, *args)


def test_each_adapter_has_a_section(scaled: Any, run: Any, result: Any) -> None:
    model = scaled("net")
    assert run("context-binary-generator", "--model", model, "--binary-file", "plain").code == 0
    done = generate(run, model, config(("two", "net", 2), ("a/b", "net", 5)))
    assert done.code == 0, done.err
    paths = [file["path"] for file in done.data["files"]]
    assert paths == ["output/net.bin", "output/net_two.bin", "output/net_a_b.bin"]
    # the adapters have left no trace in the base
    assert Path("output/net.bin").read_bytes() == Path("output/plain.bin").read_bytes()
    for options, factor in (
        ([], 1),
        (["--adapter", "two"], 2),
        (["--adapter", "a/b"], 5),
        (["--adapter", "output/net_two.bin"], 2),
    ):
        done = retrieve(run, *options)
        assert done.code == 0, done.err
        np.testing.assert_array_equal(result("y.raw", folder="out"), X * factor)


@pytest.mark.parametrize("shared", [True, False])
def test_adapters_of_several_graphs(scaled: Any, run: Any, result: Any, shared: bool) -> None:
    model = scaled("a", "b")
    entries = config(("all", "a", 2), ("all", "b", 3), ("some", "b", 7), shared=shared)
    done = generate(run, model, entries)
    assert done.code == 0, done.err
    names = {Path(file["path"]).name for file in done.data["files"]}
    own = {"net_all_a.bin", "net_all_b.bin", "net_some_b.bin"}
    assert names == {"net.bin", *({"net_all.bin", "net_some.bin"} if shared else own)}
    for adapter, factors in (("all", (2, 3)), ("some", (1, 7))):
        assert retrieve(run, "--adapter", adapter, lists="list.txt,list.txt").code == 0
        for graph, factor in zip("ab", factors, strict=True):
            np.testing.assert_array_equal(result("y.raw", folder=f"out/{graph}"), X * factor)


def test_adapters_of_models(scaled: Any, run: Any, result: Any) -> None:
    model = scaled("net")
    given = ("net-run", "--model", model, "--input-list", "list.txt", "--adapter")
    entries = config(("two", "net", 2), ("five", "net", 5))
    assert run(*given, "five", "--adapter-weight-config", entries).code == 0
    np.testing.assert_array_equal(result("y.raw"), X * 5)
    assert run(*given, "0.safetensors").code == 0
    np.testing.assert_array_equal(result("y.raw"), X * 2)
    done = run(*given, "fife", "--adapter-weight-config", entries)
    assert done.code == 2
    assert "did you mean 'five'?" in done.err


def test_an_adapter_of_models_of_which_one_is_skipped(scaled: Any, run: Any, result: Any) -> None:
    model = scaled("a", "b")
    entries = config(("all", "a", 2), ("all", "b", 3))
    given = ("net-run", "--model", model, "--input-list", "__,list.txt", "--adapter", "all")
    done = run(*given, "--adapter-weight-config", entries)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(result("y.raw", folder="output/b"), X * 3)


@pytest.mark.parametrize("shared", [True, False])
def test_an_adapter_of_graphs_of_which_one_is_loaded(
    scaled: Any, run: Any, result: Any, shared: bool
) -> None:
    entries = config(("all", "a", 2), ("all", "b", 3), shared=shared)
    assert generate(run, scaled("a", "b"), entries).code == 0
    Path("own.toml").write_text('[context]\nenable_graphs = ["b"]\n')
    done = retrieve(run, "--adapter", "all", "--config-file", "own.toml")
    assert done.code == 0, done.err
    np.testing.assert_array_equal(result("y.raw", folder="out"), X * 3)


def test_a_binary_with_the_name_of_a_section_is_refused(scaled: Any, run: Any) -> None:
    model = scaled("net")
    done = generate(run, model, config(("two", "net", 2)), "--backend-binary", "net_two")
    assert done.code == 2
    assert "have the same file 'net_two.bin'" in done.err
    assert not list(Path("output").glob("*"))


def test_outputs_are_read_with_the_encodings_of_the_adapter(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    net = new_net()
    x = net.input("x", 3, dtype=DType.UFIXED_POINT_8, encoding=ScaleOffset(1.0))
    x.kind = TensorKind.UPDATEABLE_APP_WRITE
    net.node("Relu", x, name="y").kind = TensorKind.UPDATEABLE_APP_READ
    path = net.save()
    raw("a.raw", X)
    listing("a.raw")
    entry = {"bitwidth": 8, "scale": 0.5, "offset": 0, "dtype": "int", "is_symmetric": "False"}
    own = [entry | {"min": 0, "max": 127.5}]
    encodings = {"activation_encodings": {"x": own, "y": own}, "param_encodings": {}}
    Path("w.encodings").write_text(json.dumps(encodings))
    write_safetensors(Path("w.safetensors"), {})
    use = {"name": "fine", "weights": "w.safetensors", "encodings": "w.encodings"}
    data = {"use_case": [use | {"enable_weights_updates": False}]}
    Path("adapters.json").write_text(json.dumps(data))
    assert generate(run, path, "adapters.json").code == 0
    given = ("--output-data-type", "float_and_native", "--adapter", "fine")
    assert retrieve(run, *given).code == 0
    assert result("y.raw", folder="out").tolist() == X.tolist()
    assert result("y_native.raw", "u1", folder="out").tolist() == [2, 4, 6]


def test_refusals(scaled: Any, run: Any, entries: Any) -> None:
    model = scaled("net")
    path = config(("two", "net", 2), ("2", "net", 3))
    assert generate(run, model, path).code == 0
    before = entries()
    done = retrieve(run, "--adapter", "twoo")
    assert (done.code, done.error["hint"]) == (2, "did you mean 'two'?")
    done = retrieve(run, "--adapter", "two", "--adapter-weight-config", path)
    assert "--adapter-weight-config and --retrieve-context are mutually exclusive" in done.err
    given = ("net-run", "--model", model, "--input-list", "list.txt")
    assert "requires --adapter" in run(*given, "--adapter-weight-config", path).err
    done = run("context-binary-generator", "--model", model, "--adapter-weight-config", path)
    assert (done.code, "requires --binary-file" in done.err) == (2, True)
    assert entries() == before


@pytest.mark.parametrize(
    ("names", "code", "part"),
    [
        ((("a/b", "net", 1), ("a_b", "net", 2)), 2, "have the same file 'net_a_b.bin'"),
        ((("two", "nut", 1),), 2, "graph 'nut' not found"),
        ((("two", "nut", 1), ("three", "nat", 2)), 2, "graph 'nat' not found"),
    ],
)
def test_faults_of_a_config_leave_nothing(
    scaled: Any, run: Any, entries: Any, names: Any, code: int, part: str
) -> None:
    model, path = scaled("net"), config(*names)
    before = entries()
    done = generate(run, model, path)
    assert done.code == code, done.err
    assert part in done.err
    assert entries() == before


def test_entries_without_a_graph_of_the_context_are_all_named(scaled: Any, run: Any) -> None:
    model, path = scaled("net", "second"), Path(config(("two", "net", 2), ("three", "nut", 2)))
    data = json.loads(path.read_text())
    del data["use_case"][0]["graph"]
    path.write_text(json.dumps(data))
    done = generate(run, model, path)
    assert done.code == 2
    assert [(p["where"], p["message"]) for p in done.error["problems"]] == [
        ("adapter 'two'", "the key `graph` is missing, and the context has several graphs"),
        ("adapter 'three'", "graph 'nut' not found"),
    ]


def test_a_section_of_another_base(new_net: Any, scaled: Any, run: Any, entries: Any) -> None:
    model, path = scaled("net"), config(("two", "net", 2))
    assert generate(run, model, path, "--output-dir", "first").code == 0
    net = new_net()
    w = net.static("w", np.full(3, 9, "f4"))
    w.kind = TensorKind.UPDATEABLE_STATIC
    net.save(net.node("ElementWiseMultiply", net.input("x", 3), w, name="y"))
    assert generate(run, model, path).code == 0
    before = entries()
    done = retrieve(run, "--adapter", "first/net_two.bin")
    assert (done.code, done.error["code"]) == (5, "CONTAINER_INCOMPATIBLE"), done.err
    assert entries() == before
