"""The package imports its families when they are asked for."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from dovetail.errors import PluginError
from dovetail.ir import Spec
from dovetail.ops import In, Op
from dovetail_opset import PACKAGE, ops
from dovetail_opset._package import FamilyPackage
from dovetail_opset.families import FAMILIES


class Same(Op):
    """Its input."""

    inputs = (In("in[0]"),)

    def infer(self, x: Spec, out: Spec | None) -> Spec:
        """Return the input's spec."""
        return x

    def reference(self, x: object) -> object:
        """Return the input."""
        return x


def loaded_by(expression: str) -> set[str]:
    """Return the families that are imported once an expression was computed in a new process."""
    program = (
        "import sys\n"
        "from dovetail_opset import PACKAGE\n"
        f"{expression}\n"
        "print(*(name for name in sys.modules if name.startswith('dovetail_opset.ops.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return {name.rpartition(".")[2] for name in done.stdout.split()}


def test_the_families_are_the_modules() -> None:
    assert list(FAMILIES) == sorted(m.name for m in pkgutil.iter_modules(ops.__path__))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_the_ops_that_are_listed_for_it(family: str) -> None:
    module = importlib.import_module(f"{ops.__name__}.{family}")
    defined = [n for n, s in PACKAGE.schemas.items() if s.op.__module__ == module.__name__]
    assert defined == list(FAMILIES[family])


def test_names_import_nothing() -> None:
    found = (
        "assert len(PACKAGE.schemas) == len(list(PACKAGE.schemas)) and 'Relu' in PACKAGE.schemas"
    )
    assert loaded_by(found) == set()
    assert loaded_by("assert 'Nothing' not in PACKAGE.schemas") == set()


def test_an_op_imports_its_family() -> None:
    assert loaded_by("assert PACKAGE.schemas['Softmax'].name == 'Softmax'") == {"softmax"}
    assert loaded_by("assert len(PACKAGE.schemas.values()) == len(PACKAGE.schemas)") == set()
    assert loaded_by("list(PACKAGE.schemas.values())") == set(FAMILIES)


def test_there_is_no_other_op() -> None:
    with pytest.raises(KeyError):
        PACKAGE.schemas["Nothing"]
    assert PACKAGE.schemas.get("Nothing") is None


def test_an_op_that_is_not_listed_is_refused() -> None:
    package = FamilyPackage("some.ops", "1.0", {"Same": __name__, "Other": "elsewhere"})
    for name in ("Missing", "Other"):
        with pytest.raises(PluginError, match=f"op '{name}' is not listed"):
            package.op(name)(Same)
    assert package.op("Same")(Same) is Same
    assert package.schemas["Same"].full_name == "some.ops::Same"
    with pytest.raises(PluginError, match="duplicate op 'Same'"):
        package.op("Same")(Same)
