"""Macros of templates that are joined to one program."""

import re

import pytest

from dovetail_gpu.programs import Source

# the templates that are joined with others, and these
_JOINED = {
    "groups": ("lstm", "norm", "reduce", "search", "softmax"),
    "product_head": ("product", "product_local"),
    "box": ("copy", "transpose", "transpose_local", "indexing", "counted"),
}


def macros(text: str) -> list[str]:
    """The macros that a program defines whatever its other macros are."""
    found, depth = [], 0
    for line in text.splitlines():
        word, *rest = re.findall(r"^#\s*(\w+)|(?<=define )(\w+)", line) or [("", "")]
        depth += word[0] in ("if", "ifdef", "ifndef")
        depth -= word[0] == "endif"
        if word[0] == "define" and depth == 0:
            found.append(rest[0][1])
    return found


@pytest.mark.parametrize(
    "names", [(first, other) for first, others in _JOINED.items() for other in others]
)
def test_templates_define_no_macro_twice(names: tuple[str, str]) -> None:
    """Compilers would take the last one for both, and warn."""
    found = macros(Source.of(names).text)
    assert found
    assert len(found) == len(set(found))
