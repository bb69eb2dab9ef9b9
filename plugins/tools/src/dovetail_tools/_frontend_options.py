"""Options of the frontend, from the command line of `dovetail convert`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dovetail.api.conversion import find_frontend
from dovetail.api.plugin_options import assignments, options_from
from dovetail.errors import ConfigError, Problem
from dovetail.ir import Array, Shape
from dovetail.ops.frontend import FrontendOptions
from dovetail_tools._pairs import by_name

# Names of options in `options_type`, where the command spells them otherwise.
_SPELLED = {
    "keep_disconnected": "--keep-disconnected-nodes",
    "out_names": "--out-name",
    "symbols": "--define-symbol",
    "input_dims": "--input-dim",
    "input_values": "--input-value",
    "updateable": "--lora-weight-list",
}


@dataclass(frozen=True, slots=True)
class FrontendTexts:
    """Options of a frontend as the command line has them.

    Attributes:
        dims: Names of inputs, and their shapes; names with several shapes are not options.
        values: Names of inputs, and their values.
        symbols: Names of symbolic dimensions, and their values.
        others: Further options of frontends by name; those that were not given are None or empty.
        texts: Further options as NAME=VALUE.
    """

    dims: Sequence[tuple[str, str]]
    values: Sequence[tuple[str, str]]
    symbols: Sequence[tuple[str, str]]
    others: Mapping[str, Any]
    texts: Sequence[str]


def frontend_options(
    source: Path,
    input_format: str | None,
    texts: FrontendTexts,
    default_shapes: Mapping[str, Shape],
    problems: list[Problem],
) -> tuple[FrontendOptions, dict[str, list[Shape]]]:
    """Return the options of the frontend that reads a model, and the inputs with several shapes.

    Args:
        source: The model.
        input_format: Name of the frontend; None to find it.
        texts: The options.
        default_shapes: Shapes of inputs that the command line does not name.
        problems: Receives every fault.

    Raises:
        FrontendError: No frontend reads the file.
    """
    frontend = find_frontend(source, input_format)
    shapes = {n: [shape] for n, shape in default_shapes.items()} | _shapes(texts.dims, problems)
    known = by_name("--input-value", texts.values, problems)
    values = {n: _array(f"--input-value {n}", text, problems) for n, text in known.items()}
    hint = "for a graph of each shape, repeat --input-dim NAME DIMS"
    symbols = by_name("--define-symbol", texts.symbols, problems, hint)
    numbers = {n: _number(f"--define-symbol {n}", text, problems) for n, text in symbols.items()}
    several = {name: given for name, given in shapes.items() if len(given) > 1}
    single = {name: given[0] for name, given in shapes.items() if len(given) == 1}
    given = {"input_dims": single, "input_values": values, "symbols": numbers, **texts.others}
    given = {name: value for name, value in given.items() if value not in (None, (), {})}
    spelled = {name: _SPELLED.get(name, "--" + name.replace("_", "-")) for name in given}
    for name, value in assignments(texts.texts, "--frontend-option", problems).items():
        spelled[name] = f"--frontend-option {name}"
        if name in given or name in FrontendOptions.__struct_fields__:
            text = "the option has a spelling of its own" if name not in given else "given twice"
            problems.append(Problem(text, spelled[name], "see `dovetail convert --help`"))
        else:
            given[name] = value
    try:
        return options_from(frontend, given, spelled), several
    except ConfigError as error:
        problems += error.problems
        return frontend.options_type(), several


def _shapes(pairs: Iterable[tuple[str, str]], problems: list[Problem]) -> dict[str, list[Shape]]:
    """Return the shapes of inputs in the given order; equal ones only are a single one."""
    found: dict[str, list[Shape]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(_shape(f"--input-dim {name}", text, problems))
    return {name: given if len(set(given)) > 1 else given[:1] for name, given in found.items()}


def _shape(where: str, text: str, problems: list[Problem]) -> Shape:
    before = len(problems)
    shape = tuple(_number(where, size, problems) for size in text.split(",")) if text else ()
    return shape if len(problems) == before else ()


def _array(where: str, text: str, problems: list[Problem]) -> Array:
    """Return a number or an array of numbers that JSON states."""
    try:
        found = np.asarray(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError):  # the latter for rows of several lengths
        found = np.asarray(None)
    if found.dtype.kind not in "iufb":
        problems.append(Problem(f"expected a number or an array of numbers, got '{text}'", where))
        return np.zeros((), np.int64)
    return found


def _number(where: str, text: str, problems: list[Problem]) -> int:
    try:
        return int(text)
    except ValueError:
        problems.append(Problem(f"expected an integer, got '{text}'", where))
        return 0
