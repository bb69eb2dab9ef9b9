"""Values of command-line options with a syntax of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from dovetail.cli.op_package_option import split_list
from dovetail.errors import ConfigError
from dovetail_tools._errors import usage

SKIPPED = "__"
_SET_OUTPUTS = "--set-output-tensors"


def parse_input_lists(text: str) -> tuple[Path | None, ...]:
    """Return the input lists of `--input-list`; None skips a graph.

    Raises:
        ConfigError: An item is empty, or all graphs are skipped.
    """
    lists = [None if n == SKIPPED else Path(n) for n in split_list(text, "--input-list")]
    if not any(lists):
        raise usage("all graphs are skipped", where=f"--input-list {text}")
    return tuple(lists)


def is_same(path: Path, other: Path) -> bool:
    """Return whether both paths are of one existing file."""
    return os.path.exists(path) and os.path.exists(other) and path.samefile(other)


def parse_set_outputs(text: str | None) -> tuple[str, ...]:
    """Return the selections of `graph0:tensor0,tensor1;graph1:tensor2`, to be read for graphs.

    Raises:
        ConfigError: The text does not have this form.
    """
    parts = tuple(part.strip() for part in text.split(";")) if text else ()
    for part in parts:
        graph, colon, names = part.partition(":")
        if not graph or not colon or not names:
            raise _invalid_selection(part)
        split_list(names, _SET_OUTPUTS)
    return parts


def selected_by_graph(parts: Iterable[str], graphs: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the tensors that selections name, by graph; of unknown graphs, too.

    Args:
        parts: The selections. Names of graphs and tensors may have colons.
        graphs: The graphs.

    Raises:
        ConfigError: Two selections are for one graph.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in parts:
        known = [name for name in graphs if part.startswith(f"{name}:")]
        graph = max(known, key=len, default=part.partition(":")[0])
        names = part[len(graph) + 1 :]
        if not names or graph in found:
            raise _invalid_selection(part)
        found[graph] = split_list(names, _SET_OUTPUTS)
    return found


def _invalid_selection(part: str) -> ConfigError:
    return usage(
        f"invalid selection '{part}'",
        where=_SET_OUTPUTS,
        hint="expected graph0:tensor0,tensor1;graph1:tensor2, with each graph once",
    )


def parse_native_names(
    text: str | None, graphs: Mapping[str, Mapping[str, str]]
) -> set[tuple[str | None, str]]:
    """Return the pairs of graph and input of `name,name` or `graph0:name,name;graph1:name`.

    A name without a graph is paired with each graph that has such an input, or else with None.

    Args:
        text: The text; None for none.
        graphs: The inputs of each graph, by their accepted spellings.

    Raises:
        ConfigError: An item is empty.
    """
    found: set[tuple[str | None, str]] = set()
    for part in text.split(";") if text is not None else ():
        part = part.strip()  # names of graphs and of inputs may have colons
        graph = max((g for g in graphs if part.startswith(f"{g}:")), key=len, default=None)
        rest = part if graph is None else part[len(graph) + 1 :]
        for name in split_list(rest, "--native-input-tensor-names"):
            having = [g for g, inputs in graphs.items() if name in inputs]
            within = having if graph is None else [graph]
            found |= {(each, graphs[each].get(name, name)) for each in within}
            found |= set() if within else {(None, name)}
    return found


def parse_platform_options(text: str | None) -> dict[str, object]:
    """Return the options of `key0:value0;key1:value1`.

    A value in the form of a number, `true` or `false` is one; any other is text.

    Raises:
        ConfigError: The text does not have this form.
    """
    found: dict[str, object] = {}
    for part in text.split(";") if text is not None else ():
        key, colon, value = (piece.strip() for piece in part.partition(":"))
        if not key or not colon or not value or key in found:
            raise usage(
                f"invalid option '{part}'",
                where="--platform-options",
                hint="expected key0:value0;key1:value1, with each key once",
            )
        found[key] = _scalar(value)
    return found


def _scalar(text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float) else text
