"""Which versions are known: all that the installed onnx has, from opset 7 on."""

from __future__ import annotations

import logging

import numpy as np
import onnx.defs
import pytest
from onnx import helper

from dovetail.errors import PluginError, UnsupportedOpError
from dovetail_onnx import Importers
from dovetail_onnx.operators import ONNX
from dovetail_onnx.operators.experimental import EXPERIMENTAL
from dovetail_onnx.operators.microsoft.normalization import OF_ONNX_DOMAIN

N = helper.make_node


def schemas_since(opset: int) -> dict[str, set[int]]:
    """Return, by operator, every schema version that a model of this opset or later can mean."""
    found: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, set()).add(schema.since_version)
    for name, versions in found.items():
        at_start = max((v for v in versions if v <= opset), default=0)
        found[name] = {v for v in versions if v >= at_start}
    return found


@pytest.mark.parametrize("op_type", sorted(ONNX.operators))
def test_an_importer_knows_every_version_from_opset_7_on(op_type) -> None:
    wanted = schemas_since(7).get(op_type, set())
    deprecated = {
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == op_type and s.deprecated
    }
    assert wanted - deprecated <= set(ONNX.versions(op_type))
    # and claims none that exists neither in ONNX nor in ONNX Runtime, nor was experimental
    known = {
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if s.name == op_type and s.domain == ""
    }
    others = {table[op_type] for table in (OF_ONNX_DOMAIN, EXPERIMENTAL) if op_type in table}
    assert set(ONNX.versions(op_type)) <= known | others


def test_older_versions_are_refused_with_what_to_do(model, read) -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(
        UnsupportedOpError, match="unsupported version 1 of Cast; the oldest supported one is 6"
    ) as caught:
        read(model([N("Cast", ["x"], ["y"], name="cast", to="DOUBLE")], {"x": x}, ["y"], opset=5))
    (problem,) = caught.value.problems
    assert problem.where == "Cast node 'cast'"
    assert "onnx.version_converter" in problem.hint


@pytest.mark.parametrize(
    ("domain", "op_type", "hint"),
    [
        ("com.microsoft", "Gelu", "import version 1 or later of 'com.microsoft' in the model"),
        ("", "Relu", "export the model for opset 13 or later"),
    ],
)
def test_version_0_of_a_domain(model, read, domain: str, op_type: str, hint: str) -> None:
    x = np.ones(2, np.float32)
    proto = model([N(op_type, ["x"], ["y"], domain=domain)], {"x": x}, ["y"])
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=17 if domain else 0)
    if domain:
        proto.opset_import.add(domain=domain, version=0)
    with pytest.raises(UnsupportedOpError) as caught:
        read(proto)
    assert caught.value.problems[0].hint == hint


def test_a_newer_opset_is_taken_with_a_warning(model, read, caplog) -> None:
    newer = onnx.defs.onnx_opset_version() + 3
    made = model([N("Relu", ["x"], ["y"])], {"x": np.ones(2, np.float32)}, ["y"], opset=17)
    made.opset_import[0].version = newer
    with caplog.at_level(logging.WARNING, "dovetail.onnx"):
        graph = read(made)
    assert [n.op_type for n in graph.nodes] == ["Relu"]
    assert f"opset {newer}" in caplog.text


def test_one_version_has_one_importer() -> None:
    table = Importers("com.example")
    table.importer("Twice", versions=(1, 2))(lambda op: op.value(0))
    with pytest.raises(PluginError, match="version 2 of 'Twice'"):
        table.importer("Twice", versions=(2, 3))(lambda op: op.value(0))
    assert table.versions("Twice") == (1, 2)
