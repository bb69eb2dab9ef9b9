"""Values of command-line options with a syntax of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dovetail.cli.op_package_option import split_list
from dovetail_tools._errors import usage

SKIPPED = "__"


def parse_input_lists(text: str) -> tuple[Path | None, ...]:
    """Return the input lists of `--input-list`; None skips a graph.

    Raises:
        ConfigError: An item is empty, or all graphs are skipped.
    """
    lists = [None if n == SKIPPED else Path(n) for n in split_list(text, "--input-list")]
    if not any(lists):
        raise usage("all graphs are skipped", where=f"--input-list {text}")
    return tuple(lists)


def parse_set_outputs(text: str | None) -> dict[str, tuple[str, ...]]:
    """Return the tensors of `graph0:tensor0,tensor1;graph1:tensor2` by graph.

    Raises:
        ConfigError: The text does not have this form.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text else ():
        graph, colon, names = part.strip().partition(":")
        if not graph or not colon or not names or graph in found:
            raise usage(
                f"invalid selection '{part}'",
                where="--set-output-tensors",
                hint="expected graph0:tensor0,tensor1;graph1:tensor2, with each graph once",
            )
        found[graph] = split_list(names, "--set-output-tensors")
    return found


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
        graph, colon, rest = part.strip().partition(":")  # names of inputs may have colons, too
        is_named = bool(colon) and graph in graphs
        for name in split_list(rest if is_named else part, "--native-input-tensor-names"):
            having = [g for g, inputs in graphs.items() if name in inputs]
            within = [graph] if is_named else having
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
