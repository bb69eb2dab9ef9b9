"""The backend `saver`: every call succeeds and is recorded, and nothing is computed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import INPUT, Program

import dovetail as dt
from dovetail.errors import ConfigError, DovetailError
from dovetail.ir import DType, TensorKind
from dovetail.plugins.hooks import hooks
from dovetail.runtime import Backend, Graph
from dovetail.runtime.calls import CallRecord, CompletionRecord, differences
from dovetail.runtime.config_file import load_config
from dovetail_saver.replay import replay
from dovetail_saver.trace import Trace
from dovetail_saver.vendor.importer import import_program


def saver(folder: Path, **options: Any) -> Backend:
    return Backend.create("saver", {"output": str(folder), **options})


def finalized(backend: Backend, package: str = "qti.aisw", op: str = "Relu") -> Graph:
    graph = backend.create_context().create_graph("g")
    x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    graph.add_node("node", package, op, [x], [y])
    graph.finalize()
    return graph


def functions(folder: Path) -> list[str]:
    records = [entry.record for entry in Trace(folder)]
    return [r.function for r in records if isinstance(r, CallRecord)]


def test_calls_are_recorded_and_outputs_are_zeros(tmp_path: Path) -> None:
    with saver(tmp_path / "trace") as backend:
        graph = finalized(backend)
        used = {"y": np.full((2, 3), 9, np.float32)}
        found = graph.execute({"x": INPUT}, used)
        assert hooks.active
    assert not hooks.active
    assert found["y"] is used["y"]
    assert not found["y"].any()
    trace = Trace(tmp_path / "trace")
    assert functions(trace.folder) == [
        "backend_create",
        "context_create",
        "graph_create",
        "graph_create_tensor",
        "graph_create_tensor",
        "graph_add_node",
        "graph_finalize",
        "graph_execute",
        "context_free",
        "backend_free",
    ]
    assert trace.count() == 10
    assert trace.header.backends == ("saver",)


class OnCpu:
    """Replays on the backend `cpu`."""

    def __init__(self) -> None:
        from dovetail.runtime.calls import InstalledResolver

        self._installed = InstalledResolver()

    def backend(
        self, reference: object, options: Mapping[str, Any] | None
    ) -> tuple[str, Mapping[str, Any] | None]:
        return "cpu", None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._installed, name)


def test_zeros_are_marked_and_never_compared(tmp_path: Path) -> None:
    with dt.record(tmp_path / "all"), saver(tmp_path / "own") as backend:
        graph = finalized(backend)
        graph.execute({"x": INPUT})
        graph.execute_async({"x": INPUT}, {"y": np.ones((2, 3), np.float32)}).wait()
    for name in ("all", "own"):
        trace = Trace(tmp_path / name)
        keys = [
            entry.record.payloads[-1]
            for entry in trace
            if isinstance(entry.record, CompletionRecord)
            or getattr(entry.record, "function", "") == "graph_execute"
        ]
        assert keys == ["", ""]  # of the outputs
        played = list(replay(trace, OnCpu()))  # type: ignore[arg-type]
        assert [differences(p) for p in played] == [()] * len(played)
        assert [p.result["y"].tolist() for p in played if isinstance(p.result, dict)] == [
            np.maximum(INPUT, 0).tolist()
        ] * 2  # the replay computes them


def test_ops_that_are_not_installed_are_recorded(tmp_path: Path) -> None:
    with saver(tmp_path / "trace") as backend:
        graph = finalized(backend, "not.installed", "Anything")
        assert graph.execute({"x": INPUT})["y"].shape == (2, 3)
    assert functions(tmp_path / "trace").count("graph_add_node") == 1


def test_two_backends_do_not_mix(tmp_path: Path) -> None:
    with (
        saver(tmp_path / "trace") as first,
        saver(tmp_path / "trace") as second,
        Backend.create("cpu") as other,
    ):
        graphs = [finalized(backend) for backend in (second, first, other)]
        for times, graph in enumerate(graphs, 1):
            for _ in range(times):
                graph.execute({"x": INPUT})
    (own,) = (tmp_path / "trace").glob("process-*")
    # the folder belongs to the one whose call came first
    assert functions(tmp_path / "trace").count("graph_execute") == 1
    assert functions(own).count("graph_execute") == 2
    assert functions(own).count("backend_create") == functions(own).count("backend_free") == 1


def test_a_backend_without_calls_leaves_nothing(tmp_path: Path) -> None:
    backend = saver(tmp_path / "trace")
    backend.plugin.close()
    assert not hooks.active
    assert not (tmp_path / "trace").exists()


def test_a_target_gives_the_verdicts(tmp_path: Path) -> None:
    with (
        Backend.create("cpu") as cpu,
        saver(tmp_path / "own") as plain,
        saver(tmp_path / "trace", target="cpu") as backend,
    ):
        with pytest.raises(DovetailError, match=r"not\.installed"):
            finalized(backend, "not.installed", "Anything")
        keys = (105, 202, 525, 1103)
        for key in keys:
            assert backend.has_capability(key) == cpu.has_capability(key)
        assert all(plain.has_capability(key) for key in keys)
        assert backend.get_platform_info() == cpu.get_platform_info()
        graph = finalized(backend)
        assert not graph.execute({"x": INPUT})["y"].any()
    records = [entry.record for entry in Trace(tmp_path / "trace")]
    assert [r.error.code for r in records if r.error] == ["GRAPH_ERROR_INVALID_OP_CONFIG"]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"target": "saver"}, ConfigError, "another backend"),
        ({"target": "cpu", "target_options": {"thread": 1}}, ConfigError, "thread"),
        ({"payloads": "outputs"}, ConfigError, "payloads"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        saver(tmp_path / "trace", **options)
    assert not hooks.active


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="new or empty"):
        saver(tmp_path)


def test_the_sdk_name_and_default_folder(program: Program, tmp_path: Path) -> None:
    for _ in range(2):  # a second run leaves the first
        done = program(SAVED)
        assert done.returncode == 0, done.stderr
    (second,) = (tmp_path / "saver_output").glob("process-*")
    assert functions(tmp_path / "saver_output") == functions(second)


SAVED = """
with Backend.create("sdk/lib/libQnnSaver.so") as backend:
    backend.create_context()
"""


def test_a_backend_that_is_not_freed_is_closed_at_the_end(program: Program, tmp_path: Path) -> None:
    done = program("Backend.create('saver').create_context()")
    assert (done.returncode, done.stderr) == (0, "")
    trace = Trace(tmp_path / "saver_output")
    assert trace.count() == 2
    assert trace.mark is not None


def run_on_saver(folder: Path, monkeypatch: pytest.MonkeyPatch, **keys: object) -> None:
    """Run a network on the Saver with a config file of the SDK."""
    monkeypatch.chdir(folder)
    (folder / "saver.json").write_text(json.dumps(keys))
    config = load_config(folder / "saver.json", "libQnnSaver.so")
    with Backend.create("libQnnSaver.so", config.options) as backend:
        finalized(backend).execute({"x": INPUT})


def test_the_sdk_configs_write_the_vendors_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on_saver(tmp_path, monkeypatch, OUTPUT_DIRECTORY="out", BACKEND_ID=6)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "params.bin",
        "saver_output.c",
        "trace",
    ]
    import_program(
        tmp_path / "out" / "saver_output.c", tmp_path / "out" / "params.bin", tmp_path / "again"
    )
    assert "graph_execute" in functions(tmp_path / "again")
    assert functions(tmp_path / "out" / "trace")[-1] == "backend_free"


def test_the_vendors_files_have_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"modelFileName": "net.c", "dataFileName": "net.bin"}
    run_on_saver(tmp_path, monkeypatch, FILE_CONFIG=names)
    output = tmp_path / "saver_output"
    assert sorted(p.name for p in output.iterdir()) == ["net.bin", "net.c", "trace"]
    assert 'fopen("net.bin", "rb")' in (output / "net.c").read_text()
    run_on_saver(tmp_path, monkeypatch, APPEND_TIMESTAMP=1)
    (program,) = output.glob("saver_output_*.c")
    (data,) = output.glob("params_*.bin")
    assert data.name in program.read_text()


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"FILE_CONFIG": {"modelFileName": "../net.c"}}, "modelFileName"),
        ({"FILE_CONFIG": {"dataFileName": 'a";system("b'}}, "dataFileName"),
        ({"FILE_CONFIG": {}, "APPEND_TIMESTAMP": 1}, "mutually exclusive"),
        ({"OUTPUT_DIRECTORY": "a", "OUTPUT_DIR": "a"}, "OUTPUT_DIR"),
    ],
)
def test_wrong_sdk_configs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        run_on_saver(tmp_path, monkeypatch, **keys)
    assert text in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["saver.json"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("saver", None),
        ("saver", {"output": "OUT"}),
        ("saver", {"output": "OUT", "program": {"modelFileName": "evil.c"}}),
        (
            "saver",
            {"target": "hetero", "target_options": {"members": {"saver": {"output": "OUT"}}}},
        ),
        ("hetero:cpu,saver", {"members": {"saver": {"output": "OUT"}}}),
    ],
)
def test_a_replay_writes_nothing_that_a_trace_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any] | None
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    outside = tmp_path / "outside"
    with dt.record(tmp_path / "trace"), saver(tmp_path / "first") as backend:
        finalized(backend).execute({"x": INPUT})
    calls = tmp_path / "trace" / "calls.jsonl"
    first, rest = calls.read_bytes().split(b"\n", 1)
    changed = json.loads(first)
    changed["arguments"]["name"]["name"] = name
    changed["arguments"]["config"] = json.loads(json.dumps(options).replace("OUT", str(outside)))
    calls.write_bytes(json.dumps(changed).encode() + b"\n" + rest)
    played = list(replay(Trace(tmp_path / "trace")))
    assert played[0].error is None
    assert len(played) >= 9  # a target that supports no op rejects the graph
    assert not outside.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first", "here", "trace"]
    assert not list((tmp_path / "here").iterdir())
    assert not hooks.active
