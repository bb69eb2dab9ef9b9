"""net-run on context binaries: the same results as on models, and which options hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.ir import ScaleOffset
from dovetail.ir.dtypes import DType
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl

BINARY = "output/net.bin"


def retrieve(run: Any, *args: object, lists: str = "list.txt") -> Any:
    given = ("--retrieve-context", BINARY, "--input-list", lists, "--output-dir", "out")
    return run("--json", "net-run", *given, *args)


@pytest.fixture
def fed(two_steps: str, run: Any, raw: Any, listing: Any) -> Any:
    """A context binary of y = -max(x, 0), and a list of one input; return that."""
    assert run("context-binary-generator", "--model", two_steps, "--binary-file", "net").code == 0
    listing("a.raw")
    return raw("a.raw", np.arange(6.0) - 2)


@pytest.fixture
def three_graphs(new_net: Any, run: Any, raw: Any, listing: Any) -> None:
    """A context binary of y = -x (a), y = max(x, 0) (b) and y = |x| (c), and a list for each."""
    for name, op in (("a", "ElementWiseNeg"), ("b", "Relu"), ("c", "ElementWiseAbs")):
        net = new_net(name)
        net.save(net.node(op, net.input("x", 2), name="y"))
        raw(f"{name}.raw", [-1.0, ord(name)])
        listing(f"{name}.raw", path=f"{name}.txt")
    models = "a.dvt,b.dvt,c.dvt"
    assert run("context-binary-generator", "--model", models, "--binary-file", "net").code == 0


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--synchronous"],
        ["--use-mmap"],
        ["--no-map-weights"],
        ["--validate-binary"],
        ["--retrieve-context-timeout", 10**9],
        ["--num-inferences", 9, "--max-input-cache-tensor-sets", -1],
        ["--profiling-level", "detailed"],
    ],
)
def test_results_are_those_of_the_model(
    fed: Any, run: Any, result: Any, options: list[object]
) -> None:
    done = retrieve(run, *options)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(result("y.raw", folder="out"), -np.maximum(fed, 0))
    assert "dimensions: [2, 3]" in Path("out/execution_metadata.yaml").read_text()


class Calls:
    """The names of calls, and the binaries that contexts are created from."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.binaries: list[object] = []

    @hookimpl
    def dovetail_api_call(self, call: ApiCall) -> None:
        self.seen[call.function] += 1
        if call.function == "context_create_from_binary":
            self.binaries.append(call.arguments["binary"])


def test_nothing_is_composed_or_finalized(fed: Any, run: Any) -> None:
    calls = Calls()
    with hooks.registered(calls):
        assert retrieve(run).code == 0
    assert not {"context_create", "graph_create", "graph_finalize"} & calls.seen.keys()
    assert calls.binaries == [Path(BINARY)]  # mapped
    assert calls.seen["context_validate_binary"] == 0
    with hooks.registered(calls):
        assert retrieve(run, "--no-map-weights", "--validate-binary").code == 0
    assert isinstance(calls.binaries[1], np.ndarray)
    assert calls.seen["context_validate_binary"] == 1


def test_the_profile_has_the_time_of_loading(fed: Any, run: Any) -> None:
    from dovetail.runtime import read_profile_log

    done = retrieve(run, "--profiling-level", "basic")
    (times,) = done.data["profiling"]["graphs"]
    assert times["client"]["prepare_us"] > 0
    assert times["finalize_us"] == 0
    (section,) = read_profile_log("out/qnn-profiling-data_0.log")
    calls = [record.call for record in section.records]
    assert calls[0] == 4  # created from a binary
    assert 2 not in calls


def test_outputs_that_the_binary_has_are_written(
    two_steps: str, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    given = ("--model", two_steps, "--binary-file", "net", "--enable-intermediate-outputs")
    assert run("context-binary-generator", *given).code == 0
    x = raw("a.raw", np.arange(6.0) - 2)
    listing("a.raw")
    assert retrieve(run).code == 0
    np.testing.assert_array_equal(result("mid.raw", folder="out"), np.maximum(x, 0))
    listing("%mid", "a.raw")
    assert retrieve(run).code == 0
    assert {p.name for p in Path("out/Result_0").iterdir()} == {"mid.raw"}
    listing("%mdi", "a.raw")
    done = retrieve(run)
    assert (done.code, done.error["problems"][0]["hint"]) == (3, "did you mean 'mid'?")


def test_encodings_come_from_the_binary(
    new_net: Any, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    net = new_net()
    x = net.input("x", 3, dtype=DType.UFIXED_POINT_8, encoding=ScaleOffset(0.25, -8))
    path = net.save(net.node("Relu", x, name="y"))
    assert run("context-binary-generator", "--model", path, "--binary-file", "net").code == 0
    raw("a.raw", [-1.0, 0.5, 2.0])
    listing("a.raw")
    done = retrieve(run, "--output-data-type", "float_and_native")
    assert done.code == 0, done.err
    assert result("y.raw", folder="out").tolist() == [0, 0.5, 2]
    assert result("y_native.raw", "u1", folder="out").tolist() == [8, 10, 16]


# -- several graphs --------------------------------------------------------------------------------


def test_lists_are_for_graphs_in_order(three_graphs: None, run: Any, result: Any) -> None:
    done = retrieve(run, lists="a.txt,__,c.txt")
    assert done.code == 0, done.err
    assert [graph["graph"] for graph in done.data["graphs"]] == ["a", "c"]
    assert result("y.raw", folder="out/a").tolist() == [1, -ord("a")]
    assert result("y.raw", folder="out/c").tolist() == [1, ord("c")]
    assert not Path("out/b").exists()
    done = retrieve(run, lists="a.txt,c.txt")
    assert done.code == 2
    assert "expected 3 input lists for the graphs a, b, c, got 2" in done.error["message"]


@pytest.mark.parametrize(
    "more",
    ["", "memory_limit_hint = 1\n", "is_persistent_binary = true\n", "memory_limit_hint=0\n"],
)
def test_enabled_graphs_alone_are_loaded(
    three_graphs: None, run: Any, result: Any, more: str
) -> None:
    Path("run.toml").write_text(f"[context]\nenable_graphs = ['c', 'a']\n{more}")
    done = retrieve(run, "--config-file", "run.toml", lists="c.txt,a.txt")
    assert done.code == 0, done.err
    assert "no effect" not in done.err
    assert [graph["graph"] for graph in done.data["graphs"]] == ["c", "a"]
    assert result("y.raw", folder="out/a").tolist() == [1, -ord("a")]


def test_unknown_graphs_are_refused(three_graphs: None, run: Any, entries: Any) -> None:
    before = entries()
    Path("run.toml").write_text("[context]\nenable_graphs = ['d', 'a', 'e']\n")
    done = retrieve(run, "--config-file", "run.toml", lists="a.txt")
    assert (done.code, done.error["code"]) == (2, "CONTEXT_ERROR_INVALID_CONFIG")
    assert [p["message"] for p in done.error["problems"]] == [
        "graph 'd' not found",
        "graph 'e' not found",
    ]
    Path("run.toml").write_text("[context]\nenable_graphs = ['d']\n")
    done = retrieve(run, "--config-file", "run.toml", lists="a.txt")
    assert [p["message"] for p in done.error["problems"]] == ["graph 'd' not found"]
    Path("run.toml").write_text("[[graph]]\ngraph_name = 'd'\ngraph_priority = 'low'\n")
    assert retrieve(run, "--config-file", "run.toml", lists="a.txt,b.txt,c.txt").code == 2
    assert entries() == {*before, "run.toml"}


def test_settings_of_graphs_and_the_context_hold(three_graphs: None, run: Any) -> None:
    Path("run.toml").write_text(
        "[context]\nenable_graphs = ['a']\ncontext_priority = 'high'\n"
        "[[graph]]\ngraph_names = ['a', 'b']\ngraph_priority = 'low'\n"
        "graph_profiling_num_executions = 2\n"
    )
    given = ("--config-file", "run.toml", "--profiling-level", "basic", "--num-inferences", 5)
    done = retrieve(run, *given, lists="a.txt")  # settings of graphs that are not enabled remain
    assert done.code == 0, done.err
    (times,) = done.data["profiling"]["graphs"]
    assert times["execute"]["count"] == 2


# -- refusals --------------------------------------------------------------------------------------


def test_exclusive_options(fed: Any, run: Any, entries: Any) -> None:
    before = entries()
    done = retrieve(
        run,
        *("--model", "net.dvt", "--debug", "--set-output-tensors", "net:mid"),
        *("--use-mmap", "--no-map-weights", "--retrieve-context-timeout", 0),
    )
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert [p["message"] for p in done.error["problems"]] == [
        "--retrieve-context and --model are mutually exclusive",
        "--debug and --retrieve-context are mutually exclusive",
        "--set-output-tensors and --retrieve-context are mutually exclusive",
        "--use-mmap and --no-map-weights are mutually exclusive",
        "--debug and --set-output-tensors are mutually exclusive",
        "the timeout must be positive, got 0 microseconds",
    ]
    assert entries() == before


@pytest.mark.parametrize(
    "option", [["--retrieve-context-timeout", "5"], ["--use-mmap"], ["--validate-binary"]]
)
def test_options_that_require_a_binary(fed: Any, run: Any, option: list[str]) -> None:
    done = run("net-run", "--model", "net.dvt", "--input-list", "list.txt", *option)
    assert done.code == 2
    assert f"{option[0]} requires --retrieve-context" in done.err


def test_a_timeout_ends_the_loading(fed: Any, run: Any, entries: Any) -> None:
    before = entries()
    done = retrieve(run, "--retrieve-context-timeout", 1)
    assert done.code == 7, done.err
    assert "TIME" in done.error["code"]
    assert done.error["message"] == "the timeout was exceeded"  # nothing was executed
    assert entries() == before


def test_damage_is_found_by_validation(fed: Any, run: Any, entries: Any) -> None:
    content = bytearray(Path(BINARY).read_bytes())
    before = entries()
    for at in (100, len(content) - 200):
        changed = content.copy()
        changed[at] ^= 1
        Path(BINARY).write_bytes(changed)
        done = retrieve(run, "--validate-binary")
        assert (done.code, done.error["exit_code"]) == (3, 3), done.err
        assert done.error["code"].startswith("CONTAINER")
    for wrong in (b"", bytes(content[:-64]), b"\x7fELF" * 40):
        Path(BINARY).write_bytes(wrong)
        assert retrieve(run).code == 3
    Path(BINARY).unlink()
    assert retrieve(run).code == 3
    assert entries() == before - {BINARY}


def test_backend_and_options_are_those_of_the_binary(
    two_steps: str, run: Any, raw: Any, listing: Any
) -> None:
    raw("a.raw", np.zeros(6))
    listing("a.raw")
    given = ("--model", two_steps, "--binary-file", "net", "--platform-options", "engine:numpy")
    assert run("context-binary-generator", *given).code == 0
    done = retrieve(run)
    assert (done.code, done.data["backend"]) == (0, "cpu"), done.err
    assert retrieve(run, "--backend", "libQnnCpu.so").code == 0


@pytest.mark.parametrize("option", [[], ["--validate-binary"]])
def test_a_binary_of_another_engine(fed: Any, run: Any, entries: Any, option: list[str]) -> None:
    before = entries()
    done = retrieve(run, "--platform-options", "engine:numpy", *option)
    assert (done.code, done.error["code"]) == (5, "CONTAINER_INCOMPATIBLE"), done.err
    assert entries() == before


@pytest.mark.parametrize("option", [[], ["--validate-binary"]])
@pytest.mark.parametrize(("mode", "code"), [("permissive", 0), ("strict", 5)])
def test_what_runs_but_was_prepared_for_something_else(
    fed: Any, run: Any, mode: str, code: int, option: list[str]
) -> None:
    Path("run.toml").write_text(
        f"[context]\ncache_compatibility_mode = '{mode}'\n[backend.cpu]\nnum_threads = 3\n"
    )
    done = retrieve(run, "--config-file", "run.toml", *option)
    assert done.code == code, done.err
    if code:
        assert "num_threads" in str(done.error["problems"])


def test_a_run_that_is_recorded_is_replayed(fed: Any, run: Any) -> None:
    given = ("net-run", "--retrieve-context", BINARY, "--input-list", "list.txt")
    assert run("record", "--out", "run.trace", "--", *given).code == 0
    done = run("replay", "run.trace", "--compare", "exact")
    assert done.code == 0, done.err
