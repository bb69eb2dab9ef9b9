"""`weights compare` on the files of weights that converters write."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import forked
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def write(path: Path, **weights: np.ndarray) -> None:
    with tarfile.open(path, "w") as tar:
        for name, values in weights.items():
            entry = tarfile.TarInfo(f"{name}.raw")
            entry.size = values.nbytes
            tar.addfile(entry, io.BytesIO(values.tobytes()))


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    a, b, none = np.arange(6, dtype="<f4"), np.ones(300, "<f4"), np.empty(0)
    write(tmp_path / "first.bin", a=a, b=b, none=none)
    write(tmp_path / "second.bin", a=a, b=b + 1, none=none, c=b)


def test_weights_are_compared_by_name_and_content(tmp_path: Path) -> None:
    done = forked.run("dovetail weights compare first.bin second.bin --check", tmp_path)
    assert done.returncode == 1, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    for line in (["identical", "2"], ["different", "1"], ["only", "in", "second.bin", "1"]):
        assert line in lines
    assert "by content: 3 and 4 different ones, 3 in both" in done.stdout
    same = forked.run("dovetail weights compare first.bin first.bin --check", tmp_path)
    assert same.returncode == 0


@pytest.mark.parametrize("size", [700, 1500])
def test_a_damaged_file_is_an_error(tmp_path: Path, size: int) -> None:
    damaged = tmp_path / "damaged.bin"
    damaged.write_bytes((tmp_path / "first.bin").read_bytes()[:size])
    done = forked.run("dovetail weights compare first.bin damaged.bin", tmp_path)
    assert done.returncode == 3
    assert "damaged.bin" in done.stderr


def test_a_file_of_weights_equals_the_model_that_it_belongs_to(tmp_path: Path) -> None:
    """The file says neither types nor shapes, and has names of C++."""
    draw = np.random.default_rng(3)
    weight = draw.normal(size=(5, 4)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "fc.weight"], ["y"])
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, n))
        for name, n in (("x", 5), ("y", 4))
    ]
    graph = helper.make_graph(
        [node], "g", infos[:1], infos[1:], [numpy_helper.from_array(weight, "fc.weight")]
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    done = forked.run("dovetail convert -i net.onnx -o net.cpp", tmp_path)
    assert done.returncode == 0, done.stderr
    for pair in ("net.bin net.onnx", "net.onnx net.bin"):
        done = forked.run(f"dovetail weights compare {pair} --check", tmp_path)
        assert done.returncode == 0, done.stdout
    with tarfile.open(tmp_path / "net.bin") as tar:
        (name,) = tar.getnames()
    write(tmp_path / "net.bin", **{name.removesuffix(".raw"): weight + 1})
    done = forked.run("dovetail weights compare net.bin net.onnx --check", tmp_path)
    assert done.returncode == 1
    assert "UINT_8" not in done.stdout
