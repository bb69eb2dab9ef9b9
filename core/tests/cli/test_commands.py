"""The commands that core brings: plugins, doctor, explain, inspect."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail import __version__
from dovetail.cli import main
from dovetail.container import Model, Producer
from dovetail.errors import CATALOGUE
from dovetail.ir import DType, Graph, Node, Spec, Tensor, TensorKind
from dovetail.ops import In, Op, OpPackage, OpRegistry
from dovetail.plugins import refresh

COMMANDS = "dovetail.commands"
VERIFIERS = "dovetail.verifiers"
Capture = pytest.CaptureFixture[str]


def run_json(capsys: Capture, *args: str, code: int = 0) -> Any:
    assert main(["--json", *args]) == code
    return json.loads(capsys.readouterr().out)


def only(monkeypatch: pytest.MonkeyPatch, *dists: str) -> None:
    """Leave out whatever else is installed."""
    monkeypatch.setenv("DOVETAIL_PLUGINS", ",".join(dists))
    refresh()


# -- plugins ---------------------------------------------------------------------------------------


def test_plugins_lists_without_importing(site: Any, capsys: Capture) -> None:
    site.module("shy_plugin", "raise RuntimeError('shy')")
    site.dist("shy-dist", {VERIFIERS: {"shy": "shy_plugin:thing"}}, version="3.2")
    assert main(["plugins"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["GROUP", "NAME", "DIST", "VERSION", "STATUS", "REASON"]
    assert ["verifiers", "shy", "shy-dist", "3.2", "unloaded"] in [row.split() for row in rows]
    assert not any(row.startswith("command_help") for row in rows)
    assert "shy_plugin" not in sys.modules


def test_plugins_load_shows_the_reason(site: Any, capsys: Capture) -> None:
    site.module(
        "glad_plugin",
        "class thing:\n    def update(self, golden, target): ...\n    def finish(self): ...",
    )
    site.module("grim_plugin", "raise RuntimeError('grim')")
    points = {"glad": "glad_plugin:thing", "grim": "grim_plugin:thing"}
    site.dist("mood-dist", {VERIFIERS: points})
    site.dist("old-dist", {VERIFIERS: {"old": "glad_plugin:thing"}}, requires=["dovetail-core<0"])
    shown = run_json(capsys, "plugins", "--load", "--group", "verifiers")["plugins"]
    states = {p["name"]: (p["status"], p["reason"]) for p in shown}
    assert states["glad"] == ("ok", "")
    assert states["grim"] == ("broken", "RuntimeError: grim")
    assert states["old"][0] == "incompatible"
    assert {p["group"] for p in shown} == {VERIFIERS}


@pytest.mark.parametrize("group", ["command_help", "command-help", "dovetail.command_help"])
def test_plugins_of_one_group(group: str, capsys: Capture) -> None:
    shown = run_json(capsys, "plugins", "--group", group)["plugins"]
    assert {"doctor", "explain", "inspect", "plugins"} <= {p["name"] for p in shown}
    assert {p["status"] for p in shown} == {"ok"}


def test_show_loads_a_plugin_and_lists_its_types(
    site: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    table = "type_table = classmethod(lambda cls, arch=None: {{'Relu': (f'in[0] {{arch}}',)}})"
    text = BACKEND.replace("    def __init__", f"    {table}\n\n    def __init__")
    site.module("listing_backend", text.format(name="listing", init="pass"))
    site.module("silent_backend", BACKEND.format(name="silent", init="pass"))
    points = {"listing": "listing_backend:Backend", "silent": "silent_backend:Backend"}
    site.dist("listing-dist", {"dovetail.backends": points})
    only(monkeypatch, "listing-dist")
    shown = run_json(capsys, "plugins", "show", "listing", "--ops")
    assert [(p["name"], p["status"]) for p in shown["plugins"]] == [("listing", "ok")]
    assert shown["ops"] == {"Relu": ["in[0] None"]}
    shown = run_json(capsys, "plugins", "show", "listing:v2", "--ops")
    assert shown["ops"] == {"Relu": ["in[0] v2"]}
    assert main(["plugins", "show", "silent", "--ops"]) == 0
    assert "has no table of types" in capsys.readouterr().out
    assert main(["plugins", "show", "listng"]) == 2
    assert "did you mean 'listing'?" in capsys.readouterr().err


# -- doctor ----------------------------------------------------------------------------------------

BACKEND = """
from dovetail.runtime.base import BackendBase
from dovetail.runtime.contract import Platform

class Backend(BackendBase):
    name = "{name}"
    prepare = lambda *given: None

    def __init__(self, ops, options):
        {init}

    def platform(self):
        return Platform(notes=("driver 7", "2 devices"))
"""


def test_doctor_of_core_alone_says_what_is_missing(
    site: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    only(monkeypatch)
    report = run_json(capsys, "doctor")
    assert report["ok"]
    assert report["dovetail-core"] == __version__
    assert report["numpy"] == np.__version__
    enabled = [p for p in report["plugins"] if p["status"] != "disabled"]
    assert {p["name"]: p["status"] for p in enabled} == dict.fromkeys(
        ["auto", "cache", "doctor", "explain", "hetero", "inspect", "plugins"], "ok"
    )
    missing = " ".join(report["missing"])
    assert all(g in missing for g in ("op_packages", "frontends", "backends"))


def test_doctor_asks_backends(site: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    site.module("well_backend", BACKEND.format(name="well", init="pass"))
    site.dist("well-dist", {"dovetail.backends": {"well": "well_backend:Backend"}})
    only(monkeypatch, "well-dist")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "backends well (well-dist)\n" in out
    assert "    driver 7\n" in out
    assert "no usable plugin in dovetail.backends" not in out
    assert out.endswith("every plugin works\n")


@pytest.mark.parametrize(
    ("group", "source", "reason"),
    [
        (
            "dovetail.backends",
            BACKEND.format(name="ill", init="raise OSError('no driver')"),
            "no driver",
        ),
        ("dovetail.backends", "raise ImportError('no libfoo')", "ImportError: no libfoo"),
        ("dovetail.op_packages", "Backend = 3", "expected an OpPackage"),
        (VERIFIERS, "pass", "no attribute 'Backend'"),
        ("dovetail.verifyers", "Backend = 3", "did you mean 'dovetail.verifiers'?"),
    ],
)
def test_doctor_finds_what_is_broken(
    site: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    group: str,
    source: str,
    reason: str,
) -> None:
    site.module("ill_plugin", source)
    site.dist("ill-dist", {group: {"ill": "ill_plugin:Backend"}})
    only(monkeypatch, "ill-dist")
    report = run_json(capsys, "doctor", code=6)
    assert not report["ok"]
    ill = next(p for p in report["plugins"] if p["name"] == "ill")
    assert ill["status"] == "broken"
    assert reason in ill["reason"]
    assert main(["doctor"]) == 6
    assert "1 plugin cannot be used" in capsys.readouterr().out


# -- explain ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["PLUGIN_BROKEN", "plugin_broken"])
def test_explain_a_code(code: str, capsys: Capture) -> None:
    assert main(["explain", code]) == 0
    out = capsys.readouterr().out
    entry = CATALOGUE["PLUGIN_BROKEN"]
    assert "PLUGIN_BROKEN (exit code 6)" in out
    assert entry.meaning in out
    assert entry.remedy in out


def test_explain_a_number_gives_every_code_that_has_it(capsys: Capture) -> None:
    shown = run_json(capsys, "explain", "1000")["codes"]
    assert {"COMMON_ERROR_NOT_SUPPORTED", "PROPERTY_NOT_SUPPORTED"} <= {e["name"] for e in shown}
    assert {e["number"] for e in shown} == {1000}
    assert run_json(capsys, "explain", "0x3e8")["codes"] == shown


def test_explain_lists_all_codes(capsys: Capture) -> None:
    shown = run_json(capsys, "explain")["codes"]
    assert [e["name"] for e in shown] == [e.name for e in CATALOGUE]
    assert main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(shown) + 1


def test_explain_suggests_the_nearest(capsys: Capture) -> None:
    assert main(["explain", "PLUGIN_BROKE"]) == 2
    assert "did you mean 'PLUGIN_BROKEN'?" in capsys.readouterr().err
    assert main(["explain", "12345"]) == 2


def test_explain_compat_compares_with_what_is_installed(
    site: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    site.module(
        "run_command",
        "import typer\napp = typer.Typer(add_completion=False)\n"
        "@app.command()\n"
        "def run(backend: str = '', output_dir: str = '', use_mmap: bool = False): ...\n",
    )
    site.module("convert_command", "raise ImportError('torn')")
    points = {"net-run": "run_command:app", "convert": "convert_command:app"}
    site.dist("tools-dist", {COMMANDS: points})
    only(monkeypatch, "tools-dist")
    shown = run_json(capsys, "explain", "compat")
    states = {t["sdk"]: t["state"] for t in shown["tools"]}
    assert states["qnn-net-run"] == "yes"
    assert states["qnn-onnx-converter"] == "cannot be loaded"
    assert states["qnn-netron"] == "not installed"
    options = {o["option"]: o["verdict"] for o in shown["options"]}
    assert {o["command"] for o in shown["options"]} == {"net-run"}
    assert options["--output_dir"] == "offered as --output-dir"
    assert options["--log_level"] == "offered as --log-level"
    assert options["--keep_num_outputs"] == "missing"
    assert main(["explain", "compat"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["qnn-net-run", "--keep_num_outputs", "missing"] in lines
    assert not [line for line in lines if "--output_dir" in line]  # it differs in dashes only


# -- inspect ---------------------------------------------------------------------------------------

PACKAGE = OpPackage("test.ops", "1.4.0")


@PACKAGE.op("Add")
class Add(Op):
    inputs = (In("in[0]"), In("in[1]"))

    def infer(self, a: Spec, b: Spec, out: Spec | None) -> Spec:
        return a

    def reference(self, a: Any, b: Any) -> Any:
        return a + b

    def work(self, ins: Any, outs: Any) -> int:
        return 3 * math.prod(outs[0].shape)


def small_graph(name: str = "small") -> Graph:
    graph = Graph(name)
    x = Tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = Tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    weight = Tensor.static("weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    for tensor in (x, weight, y):
        graph.add_tensor(tensor)
    graph.add_node(Node("add", "test.ops", "Add", [x, weight], [y]))
    return graph


@pytest.fixture
def dvt(tmp_path: Path) -> Path:
    path = tmp_path / "small.dvt"
    producer = Producer("test", "9", "small.onnx")
    Model.of(small_graph(), producer=producer, registry=OpRegistry.of(PACKAGE)).save(path)
    return path


def test_inspect_a_container(dvt: Path, capsys: Capture) -> None:
    assert main(["inspect", str(dvt)]) == 0
    out = capsys.readouterr().out
    assert f"{dvt}: model, format 1, {dvt.stat().st_size:,} bytes\n" in out
    assert "written by test 9 from small.onnx\n" in out
    assert "op packages: test.ops 1.4.0\n" in out
    assert "graph small: 1 node, 3 tensors, 24 bytes of static data\n" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["input", "x", "FLOAT_32", "2x3"] in rows
    assert ["output", "y", "FLOAT_32", "2x3"] in rows
    assert ["test.ops::Add", "1"] in rows
    shown = run_json(capsys, "inspect", str(dvt), "--verify")
    assert shown["verified"]
    assert shown["graphs"][0]["inputs"][0]["shape"] == [2, 3]
    assert shown["op_packages"] == {"test.ops": "1.4.0"}


def test_inspect_shows_layers(dvt: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail.cli.layers.installed_ops", lambda: OpRegistry.of(PACKAGE))
    assert main(["inspect", str(dvt), "--layers"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "graph small:",
        "",
        "OP             NAME   OUTPUTS       PARAMS  MACS  BYTES",
        "test.ops::Add  add    FLOAT_32 2x3       6    18     24",
        "1 layer        total                     6    18     24",
    ]
    shown = run_json(capsys, "inspect", str(dvt), "--layers")["layers"]["small"]
    assert (shown["params"], shown["macs"], shown["bytes"], shown["unknown"]) == (6, 18, 24, 0)
    (layer,) = shown["layers"]
    assert layer["outputs"] == [{"name": "y", "dtype": "FLOAT_32", "shape": ["2", "3"]}]
    assert (layer["op"], layer["macs"], layer["encodings"]) == ("test.ops::Add", 18, {})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--layers", "--text"], "mutually exclusive"),
        (["--sort", "macs"], "add --layers"),
        (["--layers", "--sort", "size"], "size"),
    ],
)
def test_inspect_rejects_wrong_options(
    options: list[str], text: str, dvt: Path, capsys: Capture
) -> None:
    assert main(["inspect", str(dvt), *options]) == 2
    assert text in capsys.readouterr().err


def test_inspect_shows_layers_of_unknown_ops(dvt: Path, capsys: Capture) -> None:
    assert main(["inspect", str(dvt), "--layers"]) == 0
    out = capsys.readouterr().out
    assert "no installed op package defines the ops of 1 layer" in out
    assert ["test.ops::Add", "add", "FLOAT_32", "2x3", "6", "?", "24"] in map(
        str.split, out.splitlines()
    )


def test_inspect_text_prints_the_graph(dvt: Path, capsys: Capture) -> None:
    assert main(["inspect", str(dvt), "--text"]) == 0
    assert "test.ops::Add(%x, %weight) 'add'" in capsys.readouterr().out
    assert run_json(capsys, "inspect", str(dvt), "--text")["text"].keys() == {"small"}


def test_inspect_verify_finds_one_flipped_bit(dvt: Path, capsys: Capture) -> None:
    data = bytearray(dvt.read_bytes())
    data[data.index(np.arange(6, dtype=np.float32).tobytes())] ^= 1
    dvt.write_bytes(data)
    assert main(["inspect", str(dvt)]) == 0  # reads no weights
    capsys.readouterr()
    assert main(["inspect", str(dvt), "--verify"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error[CONTAINER_DAMAGED]: {dvt}: the file is damaged")
    assert "blob 0" in err


@pytest.mark.parametrize(
    ("name", "data", "args", "code", "error"),
    [
        ("gone.dvt", None, [], 3, "FILE_UNREADABLE"),
        ("text.dvt", b"hello, this is not a container at all", [], 3, "CONTAINER_NOT_ONE"),
        ("model.onnx", b"x", ["--verify"], 2, "USAGE"),
        ("model.dlc", b"x", [], 3, "MODEL_FOREIGN"),
        ("model.xyz", b"x", [], 3, "MODEL_FORMAT_UNKNOWN"),
    ],
)
def test_inspect_refuses(
    tmp_path: Path,
    site: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    name: str,
    data: bytes | None,
    args: list[str],
    code: int,
    error: str,
) -> None:
    only(monkeypatch)
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    assert main(["inspect", str(path), *args]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error[{error}]")
    assert str(path) in err


FRONTEND = """
import numpy as np
from dovetail.ir import DType, Graph, Node, Tensor, TensorKind
from dovetail.ops import In, Op, OpPackage
from dovetail.ops.frontend import FrontendOptions

PACKAGE = OpPackage("toy.neg", "2.0")

@PACKAGE.op("Neg")
class Neg(Op):
    inputs = (In("in[0]"),)

    def infer(self, x, out):
        return x

    def reference(self, x):
        return -x

class Frontend:
    name = "toy"
    suffixes = (".toy",)
    options_type = FrontendOptions

    def recognises(self, path):
        return False

    def read(self, path, options, ops):
        graph = Graph("made")
        x = Tensor("x", DType.FLOAT_32, (4,), TensorKind.APP_WRITE)
        y = Tensor("y", DType.FLOAT_32, (4,), TensorKind.APP_READ)
        graph.add_tensor(x)
        graph.add_tensor(y)
        graph.add_node(Node("neg", "toy.neg", "Neg", [x], [y]))
        return [graph]

    def dry_run(self, path, options, ops):
        raise NotImplementedError

class Pipeline:
    name = "convert.default"
    passes = ()

    def run(self, graph):
        return False

    def expanded(self, extra, leave_out):
        return self

PIPELINE = Pipeline()
"""


def test_inspect_a_model_that_is_converted(
    site: Any, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    site.module("toy_frontend", FRONTEND)
    site.dist(
        "toy-frontend",
        {
            "dovetail.frontends": {"toy": "toy_frontend:Frontend"},
            "dovetail.passes": {"convert.default": "toy_frontend:PIPELINE"},
            "dovetail.op_packages": {"toy.neg": "toy_frontend:PACKAGE"},
        },
    )
    only(monkeypatch, "toy-frontend")
    path = tmp_path / "model.toy"
    path.write_bytes(b"anything")
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"{path}: shown as converted\n" in out
    assert "op packages: toy.neg 2.0\n" in out
    assert ["toy.neg::Neg", "1"] in [line.split() for line in out.splitlines()]
    shown = run_json(capsys, "inspect", str(path))
    assert shown["graphs"][0]["outputs"][0]["name"] == "y"


@pytest.mark.parametrize("action", ["list", "clear"])
def test_a_folder_of_a_cache_must_exist(action: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["cache", action, "--folder", str(tmp_path / "nosuch")]) == 2
    assert "the folder does not exist" in capsys.readouterr().err
