"""The passes of a conversion: those of the pipeline, changed as the user asks."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from dovetail.errors import ConfigError, PluginError, Problem, suggest_name
from dovetail.ir import Pass
from dovetail.plugins import leave_out, load_all
from dovetail.plugins import load as load_plugin
from dovetail.typed import parse_value

PIPELINE = "convert.default"
_GROUP = "dovetail.passes"
# Fields of a pass that say what it is and where it runs; all others are its options.
_NO_OPTIONS = ("name", "phase", "after", "on_request")
_CHOICE = re.compile(r"([+-]?)([^{}\s+-][^{}\s]*)\s*(?:\{(.*)\})?", re.DOTALL)


class Pipeline(Pass, Protocol):
    """A named list of passes that third-party passes can join."""

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The passes in order."""

    def expanded(
        self, extra: Iterable[Any], leave_out: Callable[[Any, PluginError], None]
    ) -> Pipeline:
        """Return the pipeline with `extra` passes inserted where they ask to be.

        `leave_out` receives each pass that asks for an impossible position, with the reason.
        """


@dataclass(frozen=True, slots=True)
class _Choice:
    """One item of the text that changes the passes."""

    text: str
    name: str
    removed: bool
    options: Mapping[str, str]


def pipeline_passes(choices: str = "", *, only_chosen: bool = False) -> tuple[Pass, ...]:
    """Return the passes of the conversion in order, third-party passes included.

    A broken third-party pass is left out with a warning, and so is one that asks for an impossible
    position. Passes with `on_request = True` run only if they are chosen.

    Args:
        choices: Changes, separated by commas: `-NAME` removes a pass, `+NAME` adds an installed
            one, `+NAME{option=value,...}` or `NAME{...}` sets options of one.
        only_chosen: Whether no other passes run than those that are added or set.

    Raises:
        ConfigError: The choices are not well formed, or name unknown passes or options, or have
            wrong values, or remove a pass where only chosen ones run; lists all (USAGE).
        PluginError: The standard op set is not installed.
    """
    if only_chosen and not choices:
        return ()
    pipeline = cast("Pipeline", load_plugin(_GROUP, PIPELINE))
    others = [each for name, each in load_all(_GROUP).items() if name != PIPELINE]
    return _chosen(pipeline, others, choices, only_chosen=only_chosen)


def configured_pass(name: str, values: Mapping[str, Any]) -> Pass:
    """Return an installed pass with the given options.

    Args:
        name: Its name.
        values: Its options, in types that `msgspec` converts to those of the fields.

    Raises:
        PluginError: No such pass is installed.
        ConfigError: An option is unknown or has a wrong value (USAGE).
    """
    step = cast("Pass", load_plugin(_GROUP, name))
    problems: list[Problem] = []
    made = _with_values(step, values, f"pass '{name}'", problems)
    if problems:
        raise ConfigError("invalid options of a pass", code="USAGE", problems=problems)
    return made


def pass_options(step: Pass) -> dict[str, Any]:
    """Return the options of a pass and their values."""
    return {name: getattr(step, name) for name in _option_types(step)}


def _chosen(
    pipeline: Pipeline, others: Sequence[Any], text: str, *, only_chosen: bool
) -> tuple[Pass, ...]:
    problems: list[Problem] = []
    choices = list(_parsed(text, problems))
    known: dict[str, Any] = {step.name: step for step in (*pipeline.passes, *others)}
    changed: dict[str, Pass] = {}
    removed = set()
    for choice in choices:
        step = known.get(choice.name)
        if step is None:
            hint = suggest_name(choice.name, known)
            problems.append(Problem(f"pass '{choice.name}' not found", choice.text, hint))
        elif choice.name in changed or choice.name in removed:
            problems.append(Problem(f"pass '{choice.name}' is given twice", choice.text))
        elif choice.removed and only_chosen:
            hint = "omit it, or --no-simplification (`optimize=False`)"
            problems.append(
                Problem("a pass is removed, but only added ones run", choice.text, hint)
            )
        elif choice.removed:
            removed.add(choice.name)
        else:
            changed[choice.name] = _with_values(step, choice.options, choice.text, problems)
    if problems:
        raise ConfigError("invalid passes", code="USAGE", where="--passes", problems=problems)
    joining = [p for p in others if p.name in changed or not getattr(p, "on_request", False)]

    def report(each: Pass, fault: PluginError) -> None:
        leave_out(_GROUP, each.name, fault.message)

    # removed passes keep their position until the others have found theirs
    found = pipeline.expanded(joining, report).passes
    if only_chosen:
        removed = {step.name for step in found if step.name not in changed}
    return tuple(changed.get(step.name, step) for step in found if step.name not in removed)


def _parsed(text: str, problems: list[Problem]) -> Iterator[_Choice]:
    for item in _split(text):
        match = _CHOICE.fullmatch(item)
        if match is None:
            hint = "write -NAME, +NAME or +NAME{option=value}, separated by commas"
            problems.append(Problem(f"cannot read '{item}'", hint=hint))
            continue
        sign, name, options = match.groups()
        pairs = [pair.partition("=") for pair in _split(options or "")]
        for key, equals, _ in pairs:
            if not equals:
                problems.append(Problem(f"option '{key}' has no value", item, "write option=value"))
        if sign == "-" and options is not None:
            problems.append(Problem("a pass that is removed has no options", item))
        given = {key.strip(): value.strip() for key, equals, value in pairs if equals}
        if len(given) < sum(bool(equals) for _, equals, _ in pairs):
            problems.append(Problem("an option is given twice", item))
        yield _Choice(item, name, sign == "-", given)


def _split(text: str) -> list[str]:
    """Return the parts between the commas that are not in braces or brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[") - (letter in "}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _with_values(step: Pass, given: Mapping[str, Any], where: str, problems: list[Problem]) -> Pass:
    types = _option_types(step)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in types:
            hint = suggest_name(name, types) if types else "the pass has no options"
            message = f"option '{name}' of pass '{step.name}' not found"
            problems.append(Problem(message, where, hint))
            continue
        try:
            values[name] = parse_value(value, types[name])
        except ConfigError as error:
            problems.append(Problem(f"option '{name}': {error.message}", where, error.hint))
    if not values:
        return step
    try:
        changed: Pass = dataclasses.replace(cast("Any", step), **values)  # with the pass's checks
        return changed
    except ValueError as error:
        problems.append(Problem(str(error), where))
        return step


def _option_types(step: Pass) -> dict[str, Any]:
    kind: Any = type(step)
    if not dataclasses.is_dataclass(kind):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.name: hints[field.name]
        for field in dataclasses.fields(kind)
        if field.init and field.name not in _NO_OPTIONS
    }
