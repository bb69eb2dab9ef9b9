"""Importers of another domain, found by their entry point alone."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from onnx import helper

from dovetail import plugins
from dovetail.errors import UnsupportedOpError

MODULE = '''
from dovetail_onnx import Importers

TABLE = Importers("org.toys")

@TABLE.importer("Wobble", versions=(2,))
def wobble(op):
    """x times a factor."""
    import numpy as np
    x = op.tensor(0)
    factor = op.static("factor", np.asarray(op.attr.number("depth", 1.0)), x.dtype)
    return op.emit("ElementWiseMultiply", [x, factor])
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a dist that brings importers, as a module and its metadata on sys.path."""

    def install(source: str, value: str = "toy_importers:TABLE") -> None:
        (tmp_path / "toy_importers.py").write_text(source)
        info = tmp_path / "toy_importers-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-importers\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dovetail.importers]\nonnx:org.toys = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        plugins.refresh()

    yield install
    sys.modules.pop("toy_importers", None)
    monkeypatch.undo()
    plugins.refresh()


@pytest.fixture
def wobbling(model):
    def make(version: int):
        node = helper.make_node("Wobble", ["x"], ["y"], name="w", domain="org.toys", depth=3.0)
        made = model([node], {"x": np.ones(2, np.float32)}, ["y"])
        made.opset_import.append(helper.make_opsetid("org.toys", version))
        return made

    return make


@pytest.mark.parametrize("version", [2, 5])
def test_they_are_found_and_used(read, wobbling, installed, version) -> None:
    installed(MODULE)
    (node,) = read(wobbling(version)).nodes
    assert (node.op_type, node.sources) == ("ElementWiseMultiply", ("w",))
    assert node.inputs[1].values() == 3.0


def test_versions_before_the_first_are_refused(read, wobbling, installed) -> None:
    installed(MODULE)
    with pytest.raises(
        UnsupportedOpError,
        match=r"unsupported version 1 of org\.toys:Wobble; the oldest supported one is 2",
    ) as caught:
        read(wobbling(1))
    assert caught.value.problems[0].hint == "import version 2 or later of 'org.toys' in the model"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('out of order')", "out of order"),
        ("TABLE = 3", "missing 'domain'"),
    ],
)
def test_broken_ones_say_why(read, wobbling, installed, source, message) -> None:
    installed(source)
    with pytest.raises(UnsupportedOpError, match=message) as caught:
        read(wobbling(2))
    assert caught.value.problems[0].where == "org.toys:Wobble node 'w'"
