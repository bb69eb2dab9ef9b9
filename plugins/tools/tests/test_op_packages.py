"""`--op-packages`: the forms in which an op package is named, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dovetail.cli.op_packages import load_op_packages
from dovetail.errors import ConfigError, DovetailError, PluginError

SOURCE = '''
from dovetail.ops import In, Op, OpPackage

MINE = OpPackage("{name}", "1.0")


@MINE.op("Same")
class Same(Op):
    """x."""

    inputs = (In("x"),)

    def infer(self, x, y):
        return x

    def reference(self, x):
        return x
'''


@pytest.fixture
def module(folder: Path) -> Iterator[Callable[..., Path]]:
    """Write a Python file with an op package; what tests import of them is forgotten."""
    before = set(sys.modules)

    def write(path: str, name: str = "mine", more: str = "") -> Path:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SOURCE.format(name=name) + more)
        return file

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(*texts: str, backend: str | None = None) -> list[str]:
    return [package.name for package in load_op_packages(texts, backend and [backend])]


@pytest.mark.parametrize(
    "text",
    [
        "op_tools_mine",
        "op_tools_mine:MINE",
        "op_tools_mine:MINE:cpu",
        "op_tools_mine.py",
        "./op_tools_mine.py:MINE",
        "op_tools_mine.py:MINE:CPU",
        "op_tools_folder.inner",
        "op_tools_folder/inner.py",
        "op_tools_folder",
        "op_tools_folder/",
        "op_tools_folder:PACKAGE",
    ],
)
def test_every_form_finds_it(module: Any, text: str) -> None:
    module("op_tools_mine.py")
    module("op_tools_folder/inner.py")
    Path("op_tools_folder/__init__.py").write_text(
        "from op_tools_folder.inner import MINE as PACKAGE\n"
    )
    assert names(text, backend="cpu") == ["mine"]


def test_one_place_is_one_package(module: Any) -> None:
    module("op_tools_mine.py")
    one, two = load_op_packages(("op_tools_mine.py", "./op_tools_mine.py:MINE"))
    assert one is two


def test_two_names_of_one_object_are_one(module: Any) -> None:
    module("op_tools_mine.py", more="\nALSO = MINE\n")
    assert names("op_tools_mine.py") == ["mine"]


def test_those_for_another_backend_are_left_out(module: Any) -> None:
    module("op_tools_mine.py")
    module("op_tools_yours.py", "yours")
    texts = ("op_tools_mine.py:MINE:htp", "op_tools_yours.py:MINE:cpu")
    assert names(*texts, backend="cpu") == ["yours"]
    assert names(*texts) == ["mine", "yours"]


def test_what_lies_beside_a_file_can_be_imported_and_hides_nothing(module: Any) -> None:
    module("deep/op_tools_mine.py", more="\nimport op_tools_beside, json\njson.dumps({})\n")
    Path("deep/op_tools_beside.py").write_text("")
    Path("deep/json.py").write_text("raise RuntimeError")
    path = list(sys.path)
    assert names("deep/op_tools_mine.py") == ["mine"]
    assert sys.path == path


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("", ConfigError, "invalid reference"),
        (":MINE", ConfigError, "invalid reference"),
        ("op_tools_mine.py:", ConfigError, "invalid reference"),
        ("op_tools_mine.py:MINE:cpu:more", ConfigError, "invalid reference"),
        ("libMine.so:MINE", ConfigError, "compiled op package"),
        ("op_tools_none.py", PluginError, "FileNotFoundError"),
        ("op_tools_none", PluginError, "No module named 'op_tools_none'"),
        ("op_tools_mine.py:OTHER", PluginError, "has no attribute 'OTHER'"),
        ("op_tools_mine.py:Same", PluginError, "expected an OpPackage, got a type"),
        ("op_tools_empty.py", PluginError, "the module has no OpPackage"),
        ("op_tools_two.py", PluginError, "the module has several op packages: MINE, TWO"),
        ("op_tools_broken.py", PluginError, "ZeroDivisionError: division by zero"),
        ("op_tools_text.txt", PluginError, "cannot be loaded"),
    ],
)
def test_what_names_none_is_refused(
    module: Any, text: str, kind: type[DovetailError], said: str
) -> None:
    module("op_tools_mine.py")
    module("op_tools_two.py", more='\nTWO = OpPackage("two")\n')
    Path("op_tools_empty.py").write_text("")
    Path("op_tools_broken.py").write_text("1 / 0")
    Path("op_tools_text.txt").write_text("no Python")
    with pytest.raises(kind, match=said):
        load_op_packages((text,))


def test_a_file_that_failed_is_read_again(module: Any) -> None:
    Path("op_tools_mine.py").write_text("1 / 0")
    with pytest.raises(PluginError):
        load_op_packages(("op_tools_mine.py",))
    module("op_tools_mine.py")
    assert names("op_tools_mine.py") == ["mine"]


def test_on_the_command_line(run: Any, two_steps: str, raw: Any, listing: Any) -> None:
    raw("x.raw", [0.0] * 6)
    arguments = ("net-run", "--model", two_steps, "--input-list", listing("x.raw"))
    done = run(*arguments, "--op-packages", "nowhere.py:A")
    assert done.code == 6
    assert "--op-packages nowhere.py:A" in done.err
    done = run(*arguments, "--op_packages", "libQnnMine.so:A:CPU")
    assert done.code == 2
    assert "op-package-generator" in done.err
