"""Options of the frontend, from the command line of `dovetail convert`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dovetail.api.conversion import find_frontend
from dovetail.api.frontend_options import options_from
from dovetail.errors import ConfigError, Problem
from dovetail.ir import Shape
from dovetail.ops.frontend import FrontendOptions

# Names of options in `options_type`, where the command spells them otherwise.
_SPELLED = {
    "out_names": "--out-name",
    "symbols": "--define-symbol",
    "input_dims": "--input-dim",
    "updateable": "--lora-weight-list",
}


def frontend_options(
    source: Path,
    input_format: str | None,
    *,
    dims: Iterable[tuple[str, str]],
    symbols: Iterable[tuple[str, str]],
    others: Mapping[str, Any],
    texts: Iterable[str],
) -> tuple[FrontendOptions, dict[str, list[Shape]]]:
    """Return the options of the frontend that reads a model, and the inputs with several shapes.

    Args:
        source: The model.
        input_format: Name of the frontend; None to find it.
        dims: Names of inputs, and their shapes; names with several shapes are not options.
        symbols: Names of symbolic dimensions, and their values.
        others: Further options of frontends by name; those that were not given are None or empty.
        texts: Further options as NAME=VALUE.

    Raises:
        ConfigError: Values are not numbers, names are repeated, or the frontend lacks an option;
            lists every fault.
        FrontendError: No frontend reads the file.
    """
    frontend = find_frontend(source, input_format)
    problems: list[Problem] = []
    shapes = _shapes(dims, problems)
    values = _named("--define-symbol", symbols, problems)
    several = {name: given for name, given in shapes.items() if len(given) > 1}
    single = {name: given[0] for name, given in shapes.items() if len(given) == 1}
    numbers = {n: _number(f"--define-symbol {n}", text, problems) for n, text in values.items()}
    given = {"input_dims": single, "symbols": numbers, **others}
    given = {name: value for name, value in given.items() if value not in (None, (), {})}
    spelled = {name: _SPELLED.get(name, "--" + name.replace("_", "-")) for name in given}
    for name, value in _assignments(texts, problems):
        spelled[name] = f"--frontend-option {name}"
        if name in given or name in FrontendOptions.__struct_fields__:
            text = "the option has a spelling of its own" if name not in given else "given twice"
            problems.append(Problem(text, spelled[name], "see `dovetail convert --help`"))
        else:
            given[name] = value
    try:
        options = options_from(frontend, given, spelled)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return options, several


def _assignments(texts: Iterable[str], problems: list[Problem]) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, value = text.partition("=")
        if equals and name:
            yield name.replace("-", "_"), value
        else:
            problems.append(Problem(f"expected NAME=VALUE, got '{text}'", "--frontend-option"))


def _shapes(pairs: Iterable[tuple[str, str]], problems: list[Problem]) -> dict[str, list[Shape]]:
    """Return the shapes of inputs in the given order; equal ones only are a single one."""
    found: dict[str, list[Shape]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(_shape(f"--input-dim {name}", text, problems))
    return {name: given if len(set(given)) > 1 else given[:1] for name, given in found.items()}


def _named(
    option: str, pairs: Iterable[tuple[str, str]], problems: list[Problem]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in pairs:
        if found.setdefault(name, text) != text:
            problems.append(
                Problem(f"contradictory values {found[name]} and {text}", f"{option} {name}")
            )
    return found


def _shape(where: str, text: str, problems: list[Problem]) -> Shape:
    before = len(problems)
    shape = tuple(_number(where, size, problems) for size in text.split(",")) if text else ()
    return shape if len(problems) == before else ()


def _number(where: str, text: str, problems: list[Problem]) -> int:
    try:
        return int(text)
    except ValueError:
        problems.append(Problem(f"expected an integer, got '{text}'", where))
        return 0
