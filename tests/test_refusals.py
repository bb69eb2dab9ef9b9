"""Bad input through the command line: one clear error, the right exit code, nothing left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["dovetail", *arguments], folder)


def save(
    path: Path, nodes: list[onnx.NodeProto], weights: list[TensorProto] | None = None
) -> onnx.ModelProto:
    """Save a model from x (1, 4) to y (1, 4)."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights or [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return model


def good(path: Path) -> None:
    weight = numpy_helper.from_array(np.arange(16, dtype=np.float32).reshape(4, 4), "w")
    save(path, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [weight])


def not_onnx(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))


def truncated(path: Path) -> None:
    good(path)
    path.write_bytes(path.read_bytes()[:-20])


def cyclic(path: Path) -> None:
    a = helper.make_node("Add", ["x", "b"], ["a"], "first")
    b = helper.make_node("Relu", ["a"], ["b"], "second")
    save(path, [a, b, helper.make_node("Relu", ["b"], ["y"], "third")])


def duplicate(path: Path) -> None:
    first, second = (helper.make_node("Relu", ["x"], ["y"], name) for name in ("one", "two"))
    save(path, [first, second])


def external(path: Path, location: str) -> None:
    weight = numpy_helper.from_array(np.zeros((4, 4), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    save(path, [helper.make_node("MatMul", ["x", "w"], ["y"], "product")], [weight])


def missing_data(path: Path) -> None:
    external(path, "weights.bin")


def data_outside(path: Path) -> None:
    (path.parent.parent / "secret.bin").write_bytes(bytes(64))
    external(path, "../secret.bin")


def short_data(path: Path) -> None:
    (path.parent / "weights.bin").write_bytes(bytes(10))
    external(path, "weights.bin")


def unsupported(path: Path) -> None:
    nodes = [
        helper.make_node("Multinomial", ["x"], ["a"], "draw"),
        helper.make_node("Nope", ["a"], ["y"]),
    ]
    save(path, nodes)


@pytest.mark.parametrize(
    ("make", "code", "exit_code", "words"),
    [
        (not_onnx, "MODEL_INVALID", 3, ["ONNX"]),
        (truncated, "MODEL_INVALID", 3, ["bad.onnx"]),
        (cyclic, "MODEL_INVALID", 3, ["cycle", "first"]),
        (duplicate, "MODEL_INVALID", 3, ["'y'"]),
        (missing_data, "MODEL_EXTERNAL_DATA", 3, ["weights.bin"]),
        (short_data, "MODEL_EXTERNAL_DATA", 3, ["weights.bin", "64"]),
        (data_outside, "MODEL_EXTERNAL_DATA", 3, ["outside"]),
        (unsupported, "OP_UNSUPPORTED", 4, ["draw", "Multinomial", "Nope"]),
    ],
)
def test_a_bad_model_is_refused(
    make: Callable[[Path], None], code: str, exit_code: int, words: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    make(folder / "bad.onnx")
    before = set(folder.iterdir())
    done = run(folder, "convert", "-i", "bad.onnx", "-o", "out.dvt")
    assert done.returncode == exit_code, done.stderr
    assert f"error[{code}]" in done.stderr
    assert done.stderr.count("error[") == 1
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert set(folder.iterdir()) == before


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """A folder with a good model, converted, and a good input."""
    good(tmp_path / "net.onnx")
    dovetail.convert(tmp_path / "net.onnx").save(tmp_path / "net.dvt")
    np.ones((1, 4), np.float32).tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text("x:=x.raw\n")
    return tmp_path


def net_run(folder: Path, *more: str, model: str = "net.dvt") -> subprocess.CompletedProcess[str]:
    return run(folder, "net-run", "--model", model, "--input-list", "list.txt", *more)


def assert_refused(
    done: subprocess.CompletedProcess[str], folder: Path, exit_code: int, *words: str
) -> None:
    assert done.returncode == exit_code, done.stderr
    assert done.stderr.count("error[") == 1
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert not list(folder.glob("output/**/*")), "a refused run leaves nothing"


def test_the_good_ones_run(run_folder: Path) -> None:
    for model in ("net.dvt", "net.onnx"):
        done = net_run(run_folder, model=model)
        assert done.returncode == 0, done.stderr
        y = np.fromfile(run_folder / "output" / "Result_0" / "y.raw", np.float32)
        np.testing.assert_array_equal(y, [24, 28, 32, 36])


def test_wrong_size_of_a_raw_file(run_folder: Path) -> None:
    np.ones(3, np.float32).tofile(run_folder / "x.raw")
    assert_refused(net_run(run_folder), run_folder, 3, "x.raw", "12", "16")


def test_unknown_input_name(run_folder: Path) -> None:
    (run_folder / "list.txt").write_text("x:=x.raw\nX1:=x.raw\n")
    assert_refused(net_run(run_folder), run_folder, 3, "X1", "list.txt:2", "'x'")


def test_unknown_config_key(run_folder: Path) -> None:
    (run_folder / "run.toml").write_text('[context]\ncontext_prioritty = "high"\n')
    done = net_run(run_folder, "--config-file", "run.toml")
    assert_refused(done, run_folder, 2, "context_prioritty", "did you mean 'context_priority'?")


def test_unknown_backend_option(run_folder: Path) -> None:
    (run_folder / "run.toml").write_text("[backend.cpu]\nno_such_option_anywhere = 1\n")
    done = net_run(run_folder, "--config-file", "run.toml")
    assert_refused(done, run_folder, 2, "no_such_option_anywhere")


def test_missing_backend(run_folder: Path) -> None:
    done = net_run(run_folder, "--backend", "libQnnAbsent.so")
    assert_refused(done, run_folder, 6, "absent", "cpu")


def test_an_architecture_of_a_backend_without_any(run_folder: Path) -> None:
    done = net_run(run_folder, "--backend", "cpu:v73")
    assert_refused(done, run_folder, 2, "cpu", "no architectures")


@pytest.mark.parametrize(
    ("name", "code", "part"),
    [
        ("libnet.so", "MODEL_FOREIGN", "model-lib-generator"),
        ("net.dlc", "MODEL_INVALID", "zip directory"),
    ],
)
def test_the_vendors_models(run_folder: Path, name: str, code: str, part: str) -> None:
    (run_folder / name).write_bytes(bytes(100))
    assert_refused(net_run(run_folder, model=name), run_folder, 3, code, part)


@pytest.mark.parametrize("part", ["header", "manifest", "padding", "blob", "cut"])
def test_a_damaged_container(run_folder: Path, part: str) -> None:
    path = run_folder / "net.dvt"
    data = bytearray(path.read_bytes())
    # MatMul by a constant becomes FullyConnected, whose weights are (units, inputs)
    weights = np.arange(16, dtype=np.float32).reshape(4, 4).T.tobytes()
    blob = data.find(weights)
    padding = data.rfind(b"}", 0, blob) + 1
    assert blob > padding > 64
    assert not any(data[padding:blob]), "between manifest and blob there is padding"
    places = {"header": 20, "manifest": 100, "padding": padding, "blob": blob + 5}
    if part == "cut":
        data = data[:-7]
    else:
        data[places[part]] ^= 0x40
    path.write_bytes(data)
    assert_refused(net_run(run_folder), run_folder, 3, "net.dvt", "CONTAINER_DAMAGED")


def test_an_unused_option_is_a_usage_error(run_folder: Path) -> None:
    done = net_run(run_folder, "--modle", "x")
    assert done.returncode == 2
    assert "--model" in done.stderr


def test_errors_as_json(run_folder: Path) -> None:
    (run_folder / "list.txt").write_text("z:=x.raw\n")
    done = net_run(run_folder, "--json")
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert (done.returncode, done.stdout) == (3, "")
    assert error["code"] == "INPUT_INVALID"


LONG = "a" * 300  # more than a file system allows


@pytest.mark.parametrize(
    "arguments",
    [
        f"convert -i net.onnx -o {LONG}.dvt",
        f"quantize --model net.dvt --float-fallback -o {LONG}.dvt",
        f"export net.dvt -o {LONG}.onnx",
        f"net-run --model net.dvt --input-list list.txt --output-dir {LONG}",
        f"inspect {LONG}",
        f"replay {LONG}",
        f"cache list --folder {LONG}",
        f"new-plugin hook watcher --output-path {LONG}",
    ],
)
def test_a_name_that_is_too_long_is_no_bug(run_folder: Path, arguments: str) -> None:
    before = sorted(path.name for path in run_folder.iterdir())
    done = run(run_folder, *arguments.split())
    assert done.returncode in (2, 3), done.stderr
    assert "internal error" not in done.stderr
    assert LONG in done.stderr
    assert sorted(path.name for path in run_folder.iterdir()) == before


def test_an_export_creates_its_folder_or_leaves_none(run_folder: Path) -> None:
    assert run(run_folder, "export", "net.dvt", "-o", "new/inner/net.onnx").returncode == 0
    assert dovetail.convert(run_folder / "new/inner/net.onnx").graphs
    done = run(run_folder, "export", "net.dvt", "--graph", "z", "-o", "other/inner/net.onnx")
    assert done.returncode == 2, done.stderr
    assert not (run_folder / "other").exists()
