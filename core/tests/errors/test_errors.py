"""The error tree: what an error says and carries; suggestions."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import errors
from dovetail.errors import (
    CATALOGUE,
    BackendError,
    ConfigError,
    DovetailError,
    ExitCode,
    Problem,
    listed,
    nearest,
    suggest_name,
)

# class -> its own code and the exit status of a command that ends with it
CLASSES = {
    "DovetailError": ("DOVETAIL_ERROR", ExitCode.BACKEND),
    "ConfigError": ("CONFIG_INVALID", ExitCode.USAGE),
    "PluginError": ("PLUGIN_BROKEN", ExitCode.PLUGIN),
    "GraphError": ("GRAPH_INVALID", ExitCode.BAD_MODEL),
    "OpError": ("OP_INVALID", ExitCode.BAD_MODEL),
    "UnsupportedOpError": ("OP_UNSUPPORTED", ExitCode.UNSUPPORTED_OP),
    "FrontendError": ("MODEL_INVALID", ExitCode.BAD_MODEL),
    "QuantizationError": ("ENCODING_INVALID", ExitCode.BAD_MODEL),
    "BackendError": ("BACKEND_FAILED", ExitCode.BACKEND),
    "ContainerError": ("CONTAINER_DAMAGED", ExitCode.BAD_MODEL),
    "TraceError": ("TRACE_INVALID", ExitCode.BAD_MODEL),
}


def test_exit_codes_are_the_documented_ones() -> None:
    assert sorted(int(c) for c in ExitCode) == [0, 1, 2, 3, 4, 5, 6, 7, 70]


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_its_code(name: str) -> None:
    cls = getattr(errors, name)
    error = cls("it failed")
    assert (error.code, error.exit_code) == CLASSES[name]
    assert error.number is None
    assert isinstance(error, DovetailError)
    assert str(error) == "it failed"


def test_every_class_is_tested() -> None:
    exported = {n for n in errors.__all__ if n.endswith("Error")}
    assert exported == set(CLASSES)


def test_a_runtime_error_has_qnns_number() -> None:
    error = BackendError("no", code="GRAPH_ERROR_FINALIZE_FAILED")
    assert error.number == 6022
    assert error.entry is CATALOGUE["GRAPH_ERROR_FINALIZE_FAILED"]


@pytest.mark.parametrize(
    ("where", "problems", "hint", "wanted"),
    [
        ("", (), "", "it failed"),
        ("graph 'g'", (), "", "graph 'g': it failed"),
        ("", (), "try again", "it failed\nhint: try again"),
        (
            "f.toml",
            (
                Problem("unknown key", "$.a", "did you mean 'b'?"),
                Problem("bare"),
                Problem("placed", "$.c"),
            ),
            "see the docs",
            "f.toml: it failed\n"
            "  - $.a: unknown key (did you mean 'b'?)\n"
            "  - bare\n"
            "  - $.c: placed\n"
            "hint: see the docs",
        ),
    ],
)
def test_what_an_error_says(
    where: str, problems: tuple[Problem, ...], hint: str, wanted: str
) -> None:
    error = DovetailError("it failed", where=where, problems=iter(problems), hint=hint)
    assert str(error) == wanted
    assert error.problems == problems


def test_a_copy_says_the_same() -> None:
    """Errors cross process borders by the same means."""
    error = ConfigError("no", code="USAGE", where="w", hint="h", problems=[Problem("p")])
    twin = copy.copy(error)
    assert type(twin) is ConfigError
    assert (str(twin), twin.code, twin.exit_code) == (str(error), "USAGE", ExitCode.USAGE)


@pytest.mark.parametrize(
    ("name", "valid", "wanted"),
    [
        ("Conv2D", ["Conv2d", "DepthWiseConv2d"], "Conv2d"),
        ("ouput", ["input", "output"], "output"),
        ("cpu", ["CPU"], "CPU"),
        ("CPU", ["cpu", "gpu"], "cpu"),
        ("zebra", ["input", "output"], None),
        ("x", [], None),
    ],
)
def test_the_nearest_name(name: str, valid: list[str], wanted: str | None) -> None:
    assert nearest(name, valid) == wanted


def test_a_hint_for_an_unknown_name() -> None:
    assert suggest_name("ouput", iter(["input", "output"])) == "did you mean 'output'?"
    assert suggest_name("zebra", ["b", "a", "b"]) == "valid names: a, b"
    assert suggest_name("zebra", []) == "no valid names exist"


@pytest.mark.parametrize("count", [12, 13, 40])
def test_a_long_list_is_cut_and_says_so(count: int) -> None:
    hint = suggest_name("?", [f"name{i:02}" for i in range(count)])
    assert hint.count("name") == 12 + 1  # "valid names" is one
    assert hint.endswith(f" and {count - 12} more") == (count > 12)


@given(valid=st.lists(st.text(min_size=1), min_size=1, unique_by=str.casefold), data=st.data())
def test_a_valid_name_is_nearest_to_itself(valid: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(valid))
    assert nearest(name, valid) == name


def test_lists_in_messages() -> None:
    assert listed([], 2) == ""
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_an_error_as_one_of_several_faults() -> None:
    error = ConfigError("unsupported x", where="file", hint="use y")
    assert error.as_problem() == Problem("unsupported x", "file", "use y")
    assert error.as_problem("option 'x'") == Problem("unsupported x", "option 'x'", "use y")
    assert error.as_problems("") == (Problem("unsupported x", "", "use y"),)
    listed = ConfigError("invalid", where="file", problems=[Problem("a", "b"), Problem("c")])
    assert listed.as_problems("d") == (Problem("a", "b"), Problem("c"))
