"""Requirements on core: what is judged without `packaging` is judged as it would."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement

from dovetail.plugins._compatibility import core_fault

numbers = st.integers(0, 3).map(str)
releases = st.lists(numbers, min_size=1, max_size=3).map(".".join)
suffixes = st.sampled_from(["", "", "", "rc1", ".dev2", ".post1", "+here", ".*", "x", "."])
signs = st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "~=", "=", "><"])
spaces = st.sampled_from(["", "", " "])
bounds = st.tuples(spaces, signs, spaces, releases, suffixes, spaces).map("".join)
names = st.sampled_from(
    [
        "dovetail-core",
        "Dovetail_Core",
        "dovetail-core[testing]",
        "dovetail-core[]",
        "dovetail-cores",
    ]
)
markers = st.sampled_from(
    [
        "",
        "",
        "; extra == 'all'",
        ';extra=="all"',
        "; extra == 'all\"",
        "; python_version > '3'",
        ";",
    ]
)
requirements = st.tuples(names, st.lists(bounds, max_size=3).map(",".join), markers).map("".join)


@given(
    text=requirements,
    core=st.tuples(releases, suffixes.filter(lambda s: s.isalnum())).map("".join) | releases,
)
@example(text="dovetail-core>=0.1,<0.2", core="0.1.0")
@example(text="dovetail-core<0.1.0", core="0.1")
@example(text="dovetail-core<1", core="1rc1")
def test_a_requirement_is_met_where_packaging_says_so(text: str, core: str) -> None:
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        assert "invalid requirement" in core_fault([text], core)
        return
    applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    is_met = requirement.specifier.contains(core, prereleases=True)
    is_core = requirement.name.casefold().replace("_", "-") == "dovetail-core"
    assert (core_fault([text], core) == "") == (is_met or not applies or not is_core)


def test_every_requirement_is_judged() -> None:
    met, unmet = "dovetail-core>=0.1", "dovetail-core<0.1"
    assert core_fault([met], "0.1.0") == ""
    assert core_fault([met, "numpy", unmet], "0.1.0") == (
        "requires dovetail-core<0.1, but dovetail-core 0.1.0 is installed"
    )
    assert core_fault([met, unmet], "") == ""  # core is not installed


@pytest.mark.parametrize(
    ("requirement", "is_plain"),
    [
        ("dovetail-core<0.2,>=0.1", True),
        ("dovetail-core[testing]<0.2,>=0.1; extra == 'testing'", True),
        ("dovetail-core~=0.1", False),
    ],
)
def test_a_plain_requirement_is_judged_without_the_parser(requirement: str, is_plain: bool) -> None:
    program = (
        "import sys\n"
        "from dovetail.plugins._compatibility import core_fault\n"
        f"print(core_fault([{requirement!r}], '0.1.0'), 'packaging' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == f" {not is_plain}\n"
