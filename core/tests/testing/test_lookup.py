"""What the kit's options name is found, or it is said what there is."""

from __future__ import annotations

import subprocess
import sys

import pytest
import reference_backend

from dovetail.errors import ConfigError, DovetailError
from dovetail.testing.lookup import find_backend, find_cases, find_object, find_package
from dovetail.testing.ops import HALVE


def test_what_is_there_is_found() -> None:
    assert find_object("dovetail.testing.ops:HALVE") is HALVE
    assert find_backend("cpu") == "cpu"  # its own error says what is installed
    assert find_backend("reference_backend:ReferenceBackend") is reference_backend.ReferenceBackend
    assert find_package("reference_backend:PACKAGE") is reference_backend.PACKAGE
    assert find_cases(["dovetail.testing.ops:HALVE", "dovetail.testing.ops:FAIL"])[:4] == HALVE


@pytest.mark.parametrize(
    ("find", "text", "message"),
    [
        (find_object, "no_such_module:x", "cannot import module"),
        (find_backend, "reference_backend:ReferenceBackened", "did you mean 'ReferenceBackend'?"),
        (find_backend, "reference_backend:PACKAGE", "expected the class of a backend"),
        (find_package, "reference_backend:OPS", "expected an OpPackage, got OpRegistry"),
        (find_package, "no.such.package", "op package 'no.such.package' not found"),
        (lambda text: find_cases([text]), "dovetail.testing.ops:PACKAGE", "expected an OpCase"),
        (lambda text: find_cases([text]), "dovetail.testing.ops:__doc__", "got str"),
        (lambda text: find_cases([text, text]), "dovetail.testing.ops:HALVE", "duplicate case"),
    ],
)
def test_what_is_not_there_is_refused(find: object, text: str, message: str) -> None:
    with pytest.raises(DovetailError) as caught:
        find(text)  # type: ignore[operator]
    assert message in str(caught.value)
    assert isinstance(caught.value, ConfigError) or "op package" in message


def test_the_kit_without_its_plugin_needs_no_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import dovetail.testing"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
