"""net-run's options: what is taken, what is refused and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import net_run

from dovetail.container import Model, Producer
from dovetail.ir import DType, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail.plugins import refresh
from dovetail.plugins.events import ApiCall
from dovetail.plugins.hooks import hooks
from dovetail.plugins.hookspecs import hookimpl
from dovetail_opset.build import add


@pytest.fixture
def fed(two_steps: str, raw: Any, listing: Any) -> None:
    raw("a.raw", np.arange(6.0))
    listing("a.raw")


@pytest.mark.parametrize("name", ["cpu", "libQnnCpu.so", "/sdk/lib/x86/libQnnCpu.so", "QnnCpu.dll"])
def test_backend_names(fed: None, run: Any, name: str) -> None:
    assert net_run(run, "--backend", name).data["backend"] == "cpu"


def test_the_members_of_a_backend_are_reported(fed: None, run: Any) -> None:
    done = net_run(run, "--backend", "hetero:cpu", "--profiling-level", "basic")
    assert done.data["backend"] == done.data["profiling"]["backend"] == "hetero:cpu"
    assert 'backend: "hetero:cpu"' in Path("output/execution_metadata.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (["--backend", "cpx"], 6, "did you mean 'cpu'?"),
        (["--backend", "libQnnHexagon.so"], 6, "plugin 'hexagon' is not installed"),
        (
            ["--use-native-input-files", "--native-input-tensor-names", "x"],
            2,
            "are mutually exclusive",
        ),
        (["--debug", "--set-output-tensors", "net:mid"], 2, "are mutually exclusive"),
        (
            ["--use-native-output-files", "--output-data-type", "float_only"],
            2,
            "are mutually exclusive",
        ),
        (["--output-data-type", "native"], 2, "'--output-data-type': 'native' is not one of"),
        (["--num-inferences", "0"], 2, "num-inferences"),
        (["--keep-num-outputs", "-1"], 2, "keep-num-outputs"),
        (["--duration", "0"], 2, "more than 0 seconds"),
        (["--duration", "nan"], 2, "more than 0 seconds"),
        (["--timeout", "-5"], 2, "timeout"),
        (["--timeout", "0"], 2, "got 0 microseconds"),
        (["--profiling-level", "extreme"], 2, "extreme"),
        (["--perf-profile", "bursts"], 2, "did you mean 'burst'?"),
        (["--op-packages", "libExample.so:Provider"], 2, "compiled op package"),
        (["--op-packages", "dovetail_opset:"], 2, "module.path:attribute"),
        (["--op-packages", "no.such.module:x"], 6, "No module named 'no'"),
        (["--op-packages", "dovetail_opset:nothing"], 6, "has no attribute 'nothing'"),
        (["--op-packages", "dovetail_opset:__doc__"], 6, "expected an OpPackage, got a str"),
        (["--config-file", "none.toml"], 2, "none.toml"),
        (["--io-tensor-mem-handle-type", "ion"], 2, "requires --shared-buffer"),
        (["--shared-buffer", "--io-tensor-mem-handle-type", "rpc"], 2, "'rpc'"),
        (["--batch-multiplier", "0"], 2, "batch-multiplier"),
        (["--dlc-path", "a.dlc"], 2, "--model and --dlc-path are mutually exclusive"),
        (["--max-input-cache-tensor-sets", "-2"], 2, "max-input-cache-tensor-sets"),
        (
            ["--max-input-cache-tensor-sets", "2", "--max-input-cache-size-mb", "3"],
            2,
            "--max-input-cache-tensor-sets and --max-input-cache-size-mb are mutually exclusive",
        ),
        (["--graph-profiling-start-delay", "1"], 2, "requires --profiling-level"),
        (["--graph-profiling-num-executions", "1"], 2, "requires --profiling-level"),
        (
            ["--profiling-level", "basic", "--graph-profiling-start-delay", "-1"],
            2,
            "must not be negative",
        ),
        (["--profiling-level", "backend"], 7, "'cpu' has no profiling level of its own"),
        (["--platform-options", "num_threads"], 2, "expected key0:value0;key1:value1"),
        (["--platform-options", "num_threads:1;num_threads:2"], 2, "with each key once"),
        (["--platform-options", "num_thread:1"], 2, "did you mean 'num_threads'?"),
        (["--platform-options", "num_threads:many"], 2, "num_threads"),
    ],
)
def test_refusals(fed: None, run: Any, entries: Any, args: list[str], code: int, part: str) -> None:
    before = entries()
    done = net_run(run, *args)
    assert done.code == code, done.err
    assert part in done.err
    assert entries() == before


def test_the_sdks_reader_of_dlc_files_requires_them(fed: None, run: Any) -> None:
    done = net_run(run, model="/sdk/lib/libQnnModelDlc.so")
    assert done.code == 2
    assert "requires --dlc-path" in done.error["message"]
    given = ("--dlc-path", "none.dlc", "--input-format", "onnx")
    done = net_run(run, *given, model="libQnnModelDlc.so")
    assert done.code == 2
    assert "--input-format and --dlc-path are mutually exclusive" in done.error["message"]


@pytest.mark.parametrize("name", ["model.so", "libmodel.SO"])
def test_compiled_models_are_refused(fed: None, run: Any, name: str) -> None:
    Path(name).write_bytes(b"\x7fELF")
    done = net_run(run, model=name)
    assert (done.code, done.error["code"]) == (3, "MODEL_FOREIGN")
    assert "dovetail model-lib-generator" in done.error["hint"]
    assert not Path("output").exists()


def test_a_missing_model(fed: None, run: Any) -> None:
    done = net_run(run, model="none.dvt")
    assert (done.code, done.error["code"]) == (3, "FILE_UNREADABLE")


@pytest.mark.parametrize("needed", [["--input-list", "list.txt"], ["--model", "net.dvt"]])
def test_model_and_list_are_required(run: Any, needed: list[str]) -> None:
    done = run("net-run", *needed)
    assert done.code == 2
    assert "missing option" in done.err.lower()


def test_config_about_another_graph(fed: None, run: Any) -> None:
    Path("run.toml").write_text('[[graph]]\ngraph_name = "nut"\n')
    done = net_run(run, "--config-file", "run.toml")
    assert done.code == 2
    assert "did you mean 'net'?" in done.err


def test_unknown_config_keys(fed: None, run: Any) -> None:
    Path("run.toml").write_text("[context]\ncontext_prority = 'low'\n")
    done = net_run(run, "--config-file", "run.toml")
    assert done.code == 2
    assert "context_priority" in done.err
    Path("run.toml").write_text("[backend.cpu]\nmemmory = 'plain'\n")
    done = net_run(run, "--config-file", "run.toml")
    assert done.code == 2
    assert "did you mean 'memory'" in done.err


def test_the_sdks_config_is_taken(fed: None, run: Any) -> None:
    Path("inner.json").write_text('{"engine": "numpy"}')
    Path("outer.json").write_text(
        '{"backend_extensions": {"shared_library_path": "libQnnCpuNetRunExtensions.so",'
        ' "config_file_path": "inner.json"}, "context_configs": {"context_priority": "high"},'
        ' "graph_configs": [{"graph_name": "net", "graph_priority": "low"}]}'
    )
    done = net_run(run, "--config-file", "outer.json")
    assert done.code == 0, done.err
    Path("inner.json").write_text('{"engine": "abacus"}')
    done = net_run(run, "--config-file", "outer.json")
    assert done.code == 2
    assert "inner.json" in done.err
    assert "abacus" in done.err


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--perf-profile", "--perf-profile burst has no effect"),
        ("--model-prefix", "--model-prefix burst selects nothing"),
    ],
)
def test_options_without_effect_say_so_once(fed: None, run: Any, option: str, text: str) -> None:
    done = net_run(run, option, "burst")
    assert done.code == 0
    assert done.err.count(text) == 1
    assert "burst" not in net_run(run, option, "burst", "--log-level", "error").err


def test_every_fault_of_a_command_line_is_listed(fed: None, run: Any, entries: Any) -> None:
    before = entries()
    done = net_run(
        run,
        *("--debug", "--set-output-tensors", "net", "--timeout", 0, "--perf-profile", "bursts"),
        *("--use-native-output-files", "--output-data-type", "float_only"),
        *("--chrome-trace", "trace.json", "--platform-options", "a"),
    )
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert [p["message"] for p in done.error["problems"]] == [
        "--debug and --set-output-tensors are mutually exclusive",
        "--use-native-output-files and --output-data-type are mutually exclusive",
        "--chrome-trace requires --profiling-level",
        "the timeout must be positive, got 0 microseconds",
        "unknown performance profile 'bursts'",
        "invalid selection 'net'",
        "invalid option 'a'",
    ]
    assert entries() == before


def test_platform_options_are_options_of_the_backend(fed: None, run: Any) -> None:
    Path("run.toml").write_text("[backend.cpu]\nnum_threads = 2\nengine = 'onednn'\n")
    created: list[Any] = []

    class Note:
        @hookimpl
        def dovetail_api_call(self, call: ApiCall) -> None:
            if call.function == "backend_create":
                created.append(call.arguments["config"])

    with hooks.registered(Note()):
        given = "num_threads:1;engine:numpy"
        done = net_run(run, "--config-file", "run.toml", "--platform-options", given)
    assert done.code == 0, done.err
    assert created == [{"num_threads": 1, "engine": "numpy"}]


def test_the_version(run: Any) -> None:
    done = run("net-run", "--version")
    assert (done.code, done.out.split()[0]) == (0, "dovetail")


# -- op packages -----------------------------------------------------------------------------------

PACKAGE_SOURCE = """
import numpy as np
from dovetail.ops import In, Op, OpPackage, Out

package = OpPackage("tests.loose", "1.2.3")


@package.op("Halve")
class Halve(Op):
    "x / 2."
    inputs = (In("in[0]"),)
    outputs = (Out("out[0]"),)

    def infer(self, x, out):
        return x

    def reference(self, x):
        return x / np.float32(2)
"""


@pytest.fixture
def loose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model that uses an op package which is importable, but not installed."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "loose_ops.py").write_text(PACKAGE_SOURCE)
    monkeypatch.syspath_prepend(str(folder))
    import loose_ops  # type: ignore[import-not-found,unused-ignore]

    graph = Graph("net")
    x = graph.add_tensor(Tensor("x", DType.FLOAT_32, (1, 3), TensorKind.APP_WRITE))
    y = Tensor("y", DType.FLOAT_32, (1, 3), TensorKind.APP_READ)
    add(graph, "Halve", [x], name="halve", outputs=y, package=loose_ops.package)
    registry = OpRegistry.of(loose_ops.package)
    Model.of(graph, producer=Producer("tests", "1"), registry=registry).save("net.dvt")
    refresh()  # a registry of ops of its own
    yield
    sys.modules.pop("loose_ops")
    refresh()


def test_op_packages_are_registered(
    loose: None, run: Any, raw: Any, listing: Any, result: Any
) -> None:
    raw("a.raw", [2.0, 4.0, 5.0])
    listing("a.raw")
    done = net_run(run)
    assert done.code != 0
    assert "tests.loose" in done.err
    assert net_run(run, "--op-packages", "loose_ops:package:HTP").code != 0  # for another backend
    done = net_run(run, "--op_packages", "loose_ops:package:CPU")
    assert done.code == 0, done.err
    assert result("y.raw").tolist() == [1, 2, 2.5]


# -- start-up --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    ["net_run", "convert", "context_binary_generator", "context_binary_utility"],
)
def test_importing_a_command_imports_no_numpy(module: str) -> None:
    code = (
        f"import sys, dovetail_tools.{module}; "
        "print([m for m in ('numpy', 'msgspec', 'onnx', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("source", "part"),
    [(None, "must be installed"), ("x = 1", "the module was imported"), ("1 / 0", "was found")],
)
def test_op_packages_of_the_working_folder(
    fed: None, run: Any, source: str | None, part: str
) -> None:
    name = f"ops_of_{part.split()[0]}_{len(part)}"  # modules stay imported
    if source is not None:
        Path(f"{name}.py").write_text(source)
    done = net_run(run, "--op-packages", f"{name}:package")
    assert done.code == 6
    assert part in done.error["hint"]
