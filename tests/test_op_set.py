"""docs/op_set.md lists what is there; the table itself is measured, by tools/op_set.py."""

import re
import sys
from pathlib import Path

from dovetail.plugins import names
from dovetail_opset import PACKAGE

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import op_set  # noqa: E402 - a script, which lies in no dist

DOCUMENT = (ROOT / "docs" / "op_set.md").read_text("utf-8")


def test_every_op_is_listed_once_or_open() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE)
    assert sorted(listed) == sorted([*PACKAGE.schemas, *op_set.OPEN])
    assert f"{len(PACKAGE.schemas)} of 159 ops" in DOCUMENT


def test_the_columns_are_the_installed_plugins() -> None:
    (head,) = set(re.findall(r"^\| op \| from .*$", DOCUMENT, re.MULTILINE))
    frontends = [
        f"from {name}" for name in names("dovetail.frontends") if name not in op_set.NAME_OPS
    ]
    backends = [f"{name} runs" for name in op_set.computing_backends()]
    assert head.strip("| ").split(" | ") == ["op", *frontends, *backends]


def test_cpu_runs_every_op_in_some_type() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|", DOCUMENT, re.MULTILINE)
    assert {op for op, types in rows if types != "-"} == set(PACKAGE.schemas) - {"If"}


def test_what_the_frontend_makes_is_read_off_its_graphs() -> None:
    made = op_set.onnx_operators(lambda name: name in ("Relu", "Gemm", "LeakyRelu"))
    assert made["Relu"] == {"Relu"}
    assert made["Prelu"] == {"LeakyRelu"}
    assert "Gemm" in made["FullyConnected"]
