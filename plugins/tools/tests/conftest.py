"""What the tests share: running commands, and small models."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, runner

from dovetail.container import Model, Producer
from dovetail.ir import Array, DType, Encoding, Graph, Tensor, TensorKind
from dovetail.ops import OpRegistry
from dovetail_opset import PACKAGE
from dovetail_opset.build import add

REGISTRY = OpRegistry.of(PACKAGE)
ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `dovetail` in this process."""
    return runner(capsys)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Net:
    """A graph in the making."""

    def __init__(self, name: str = "net") -> None:
        self.graph = Graph(name)

    def input(
        self,
        name: str,
        *shape: int,
        dtype: DType = DType.FLOAT_32,
        encoding: Encoding | None = None,
    ) -> Tensor:
        kind = TensorKind.APP_WRITE
        return self.graph.add_tensor(Tensor(name, dtype, shape, kind, encoding=encoding))

    def static(self, name: str, values: Array) -> Tensor:
        return self.graph.add_tensor(Tensor.static(name, values))

    def node(
        self,
        op_type: str,
        *inputs: Tensor,
        name: str,
        out: Tensor | str | None = None,
        **params: Any,
    ) -> Tensor:
        made = out or Tensor(name, inputs[0].dtype, inputs[0].shape, encoding=inputs[0].encoding)
        return add(
            self.graph, op_type, inputs, name=f"{name}_node", outputs=made, spec=None, **params
        )

    def save(self, *outputs: Tensor, path: str | None = None) -> str:
        for tensor in outputs:
            tensor.kind = TensorKind.APP_READ
        path = path or f"{self.graph.name}.dvt"
        Model.of(self.graph, producer=Producer("tests", "1"), registry=REGISTRY).save(path)
        return path


@pytest.fixture
def new_net() -> type[Net]:
    return Net


@pytest.fixture
def two_steps() -> str:
    """x (2, 3) -> relu -> mid -> neg -> y: y = -max(x, 0), in `net.dvt`."""
    net = Net()
    mid = net.node("Relu", net.input("x", 2, 3), name="mid")
    return net.save(net.node("ElementWiseNeg", mid, name="y"))


@pytest.fixture
def raw() -> Callable[[str, Any], Array]:
    """Write a raw file; return what is in it."""

    def write(path: str, values: Any) -> Array:
        array = np.asarray(values)
        if array.dtype == np.float64:
            array = array.astype("<f4")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        array.tofile(path)
        return array

    return write


@pytest.fixture
def listing() -> Callable[..., str]:
    """Write an input list; return its name."""

    def write(*lines: str, path: str = "list.txt") -> str:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("\n".join(lines) + "\n", "utf-8")
        return path

    return write


@pytest.fixture
def result() -> Callable[..., Array]:
    """Read a raw file of a result."""

    def read(path: str, dtype: Any = "<f4", index: int = 0, folder: str = "output") -> Array:
        return np.fromfile(f"{folder}/Result_{index}/{path}", dtype)

    return read


@pytest.fixture
def entries() -> Callable[[], set[str]]:
    """Name of everything in the working folder."""
    return lambda: {str(p.relative_to(Path.cwd())) for p in Path.cwd().rglob("*")}


@pytest.fixture
def check_types(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Path]], str]:
    """Check the types in folders of code as in the workspace's own; return what mypy says.

    The settings are the same, so that what mypy knows of NumPy and of Dovetail from the last check
    of the workspace holds; it is copied, and without it the check only takes longer.
    """
    pytest.importorskip("mypy")
    cache = tmp_path_factory.mktemp("mypy_cache")
    for path in (ROOT / ".mypy_cache").glob("*/*.db"):
        (cache / path.parent.name).mkdir(exist_ok=True)
        with (
            contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as known,
            contextlib.closing(sqlite3.connect(cache / path.parent.name / path.name)) as copy,
        ):
            known.backup(copy)

    def check(folders: Sequence[Path]) -> str:
        paths = [str(folder) for folder in folders]
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--cache-dir", str(cache), *paths],
            cwd=ROOT,
            env=os.environ | {"MYPYPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.stdout + done.stderr

    return check
