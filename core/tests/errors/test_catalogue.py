"""The catalogue of codes: complete, in range, readable, and the only source of codes in use."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail.errors import CATALOGUE, BackendError, Catalogue, DovetailError, Entry, ExitCode
from dovetail.errors._sdk_codes import SDK_CODES

REPOSITORY = Path(__file__).resolve().parents[3]

# Part of the API (prefix of its codes) -> lowest and highest number it may use of its own.
# Source: the ranges that the public API reference documents.
RANGES = {
    "COMMON": (1000, 1999),
    "PROPERTY": (2000, 2999),
    "OP_PACKAGE": (3000, 3999),
    "BACKEND": (4000, 4999),
    "SAVER": (4950, 4998),
    "CONTEXT": (5000, 5999),
    "GRAPH": (6000, 6999),
    "TENSOR": (7000, 7999),
    "MEM": (8000, 8999),
    "SIGNAL": (9000, 9999),
    "ERROR": (10000, 10999),
    "LOG": (11000, 11999),
    "PROFILE": (12000, 12999),
    "HTP_PERF_INFRASTRUCTURE": (13000, 13999),
    "DEVICE": (14000, 14999),
    "GLOBAL_CONFIG": (15000, 15999),
    "SYSTEM_COMMON": (30000, 49999),
    "SYSTEM_CONTEXT": (30000, 49999),
    "SYSTEM_DLC": (30000, 49999),
    "SYSTEM_INTERFACE": (30000, 49999),
    "SYSTEM_PROFILE": (30000, 49999),
    "SYSTEM_TENSOR": (30000, 49999),
    "INTERFACE": (60000, 60999),
}

# Parts repeat these common numbers under names of their own: number -> how such a name ends.
SHARED = {
    1000: r"(NOT_SUPPORTED|UNSUPPORTED|UNSUPPORTED_FEATURE)",
    1002: r"MEM_ALLOC",
    1004: r"(INVALID_ARGUMENT|INVALID_PARAMETER)",
    1006: r"(PLATFORM_NOT_SUPPORTED|UNSUPPORTED_PLATFORM)",
    1100: r"GENERAL",
}

OURS = "ours"  # the codes without a number, as one part
NO_SOURCE = {"build", "dist", "node_modules", "__pycache__"}


def part_of(entry: Entry) -> str:
    if entry.number is None:
        return OURS
    parts = [part for part in RANGES if entry.name.startswith(f"{part}_")]
    assert parts, f"{entry.name} belongs to no part of the API"
    return max(parts, key=len)


def by_part() -> dict[str, list[Entry]]:
    ordered = sorted(CATALOGUE, key=part_of)
    return {part: list(group) for part, group in itertools.groupby(ordered, key=part_of)}


def source_trees(root: Path) -> Iterator[Path]:
    """Return every Python file under a folder named src, outside hidden and built folders."""
    for folder, inner, files in os.walk(root):
        inner[:] = [n for n in inner if n not in NO_SOURCE and not n.startswith((".", "venv"))]
        if "src" in Path(folder).relative_to(root).parts:
            yield from (Path(folder, name) for name in files if name.endswith(".py"))


def literals(node: ast.expr | None) -> Iterator[str]:
    """Return the strings that an expression may come out as."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from literals(value)


def codes_in(source: str) -> Iterator[tuple[int, str]]:
    """Return (line, code) for each `code=...` argument and each `default_code = ...`."""
    if "code" not in source:
        return  # most files, and parsing takes the time
    for node in ast.walk(ast.parse(source)):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.keyword) and node.arg == "code":
            values = [node.value]
        elif isinstance(node, ast.Assign):
            named = any(isinstance(t, ast.Name) and t.id == "default_code" for t in node.targets)
            values = [node.value] if named else []
        elif isinstance(node, ast.AnnAssign):
            named = isinstance(node.target, ast.Name) and node.target.id == "default_code"
            values = [node.value] if named else []
        elif isinstance(node, ast.arguments):
            positional = (*node.posonlyargs, *node.args)
            given = positional[len(positional) - len(node.defaults) :]
            values = [v for a, v in zip(given, node.defaults, strict=True) if a.arg == "code"]
            pairs = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            values += [v for a, v in pairs if a.arg == "code"]
        for value in values:
            for code in literals(value):
                yield (value.lineno if value is not None else 0), code


def test_names_are_unique_and_well_formed() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(names) == len(set(names))
    assert [n for n in names if not re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|USAGE|BUG", n)] == []


def test_a_second_entry_of_one_name_is_refused() -> None:
    entry = Entry("GRAPH_INVALID", 3, "A meaning.", "A remedy.")
    catalogue = Catalogue(lambda: [entry])
    with pytest.raises(ValueError, match="GRAPH_INVALID"):
        catalogue.add(entry)


def test_every_part_of_the_api_has_codes() -> None:
    assert set(by_part()) == {*RANGES, OURS}


@pytest.mark.parametrize("part", RANGES)
def test_numbers_lie_in_the_range_of_their_part(part: str) -> None:
    low, high = RANGES[part]
    strays = [
        f"{entry.name} = {entry.number}"
        for entry in by_part()[part]
        if not low <= (entry.number or 0) <= high and entry.number not in SHARED
    ]
    assert strays == []


def test_backend_numbers_stay_out_of_the_range_lent_to_the_saver() -> None:
    low, high = RANGES["SAVER"]
    assert [e.name for e in by_part()["BACKEND"] if low <= (e.number or 0) <= high] == []


@pytest.mark.parametrize("number", SHARED)
def test_a_shared_number_means_the_same_in_every_part(number: int) -> None:
    names = [entry.name for entry in CATALOGUE.find(str(number))]
    assert len(names) > 1
    assert [n for n in names if not re.search(rf"_{SHARED[number]}$", n)] == []


@pytest.mark.parametrize("part", RANGES)
def test_no_number_appears_twice_in_one_part(part: str) -> None:
    numbers = [entry.number for entry in by_part()[part]]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("entry", list(CATALOGUE), ids=lambda entry: entry.name)
def test_meaning_and_remedy_are_sentences(entry: Entry) -> None:
    for text in (entry.meaning, entry.remedy):
        assert "?" not in text
        assert re.match(r"[A-Z`]", text), "starts like no sentence"
        assert text.endswith(".")
        assert len(text.split()) >= 4
        assert "  " not in text
    # `explain` prints the meaning on one line, so it is one sentence.
    assert re.search(r"[.!]\s", entry.meaning) is None
    assert entry.meaning != entry.remedy


@pytest.mark.parametrize("part", [*RANGES, OURS])
def test_codes_of_one_part_are_told_apart(part: str) -> None:
    entries = by_part()[part]
    assert len({entry.meaning for entry in entries}) == len(entries)
    # Codes that nothing here raises have the remedy of their family.
    raised = [entry for entry in entries if entry not in SDK_CODES]
    assert len({entry.remedy for entry in raised}) == len(raised)


def test_exit_codes_are_failures_that_commands_know() -> None:
    known = set(ExitCode) - {ExitCode.OK}
    assert [(e.name, e.exit_code) for e in CATALOGUE if e.exit_code not in known] == []


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("COMMON_ERROR_MEM_ALLOC", ExitCode.BACKEND),
        ("COMMON_ERROR_INCOMPATIBLE_BINARIES", ExitCode.INCOMPATIBLE),
        ("PROPERTY_ERROR_UNKNOWN_KEY", ExitCode.USAGE),
        ("OP_PACKAGE_ERROR_VALIDATION_FAILURE", ExitCode.UNSUPPORTED_OP),
        ("BACKEND_ERROR_OP_PACKAGE_NOT_FOUND", ExitCode.UNSUPPORTED_OP),
        ("BACKEND_ERROR_OP_PACKAGE_DUPLICATE", ExitCode.PLUGIN),
        ("BACKEND_ERROR_OP_PACKAGE_UNSUPPORTED_VERSION", ExitCode.INCOMPATIBLE),
        ("CONTEXT_ERROR_CREATE_FROM_BINARY", ExitCode.INCOMPATIBLE),
        ("GRAPH_ERROR_UNCONNECTED_NODE", ExitCode.BAD_MODEL),
        ("DEVICE_ERROR_INVALID_CONFIG", ExitCode.USAGE),
    ],
)
def test_an_error_exits_with_what_its_cause_calls_for(name: str, exit_code: ExitCode) -> None:
    assert BackendError("refused", code=name).exit_code is exit_code


def test_find_by_a_number_that_several_parts_share() -> None:
    found = {entry.name for entry in CATALOGUE.find("1002")}
    parts = ("COMMON", "BACKEND", "CONTEXT", "GRAPH", "SIGNAL", "LOG", "PROFILE", "DEVICE")
    assert found == {f"{part}_ERROR_MEM_ALLOC" for part in parts}


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [
        ("0xC26", "OP_PACKAGE_ERROR_VALIDATION_FAILURE", 3110),
        ("3110", "OP_PACKAGE_ERROR_VALIDATION_FAILURE", 3110),
        ("0x138D", "CONTEXT_ERROR_CREATE_FROM_BINARY", 5005),
        ("0x1786", "GRAPH_ERROR_FINALIZE_FAILED", 6022),
        # A handle carries more above its low 16 bits, which alone are the code.
        ("0x7FFF1786", "GRAPH_ERROR_FINALIZE_FAILED", 6022),
        ("QNN_GRAPH_ERROR_INVALID_HANDLE", "GRAPH_ERROR_INVALID_HANDLE", 6001),
        (" graph_error_invalid_handle ", "GRAPH_ERROR_INVALID_HANDLE", 6001),
        ("QNN_ERROR_INVALID_ERROR_HANDLE", "ERROR_INVALID_ERROR_HANDLE", 10001),
        ("GRAPH_INVALID", "GRAPH_INVALID", None),
    ],
)
def test_find_gives_the_one_entry_meant(text: str, name: str, number: int | None) -> None:
    assert [(entry.name, entry.number) for entry in CATALOGUE.find(text)] == [(name, number)]


@pytest.mark.parametrize("text", ["", "0", "65535", "NO_SUCH_CODE", "QNN_"])
def test_find_gives_nothing_for_what_is_not_a_code(text: str) -> None:
    assert CATALOGUE.find(text) == ()


def test_an_error_with_an_unknown_code_cannot_be_made() -> None:
    with pytest.raises(KeyError, match="NO_SUCH_CODE"):
        DovetailError("something", code="NO_SUCH_CODE")


def test_the_search_for_codes_sees_every_way_of_giving_one() -> None:
    text = """
class A(DovetailError):
    default_code = "ONE"
class B(DovetailError):
    default_code: ClassVar[str] = "TWO"
def fail(message, code="THREE", *, other="not a code"):
    raise A(message, code="FOUR" if message else "FIVE")
def refuse(message, *, code="SIX"):
    raise B(message, code=code or "SEVEN", where="not a code")
exit(code=1)
"""
    found = [code for _, code in codes_in(text)]
    assert sorted(found) == sorted(["ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN"])


def test_every_code_used_in_the_sources_is_in_the_catalogue() -> None:
    used = [
        (f"{path.relative_to(REPOSITORY)}:{line}", code)
        for path in source_trees(REPOSITORY)
        for line, code in codes_in(path.read_text(encoding="utf-8"))
    ]
    # The error tree's own defaults must be among them, or the search looked in the wrong place.
    assert {"DOVETAIL_ERROR", "GRAPH_INVALID", "TRACE_INVALID"} <= {code for _, code in used}
    assert [(place, code) for place, code in used if code not in CATALOGUE] == []
    # What is raised has a meaning and a remedy of its own, not those of its family.
    of_the_sdk = {entry.name for entry in SDK_CODES}
    assert [(place, code) for place, code in used if code in of_the_sdk] == []
