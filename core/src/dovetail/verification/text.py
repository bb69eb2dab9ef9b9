"""The text form of a verifier with parameters, for command lines.

`RtolAtol`, or `RtolAtol,rtolmargin=0.01,atolmargin=1e-3`. As in the SDK, `RtolAtol,rtolmargin,0.01`
is accepted, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dovetail.errors import ConfigError, Problem

_WORDS: Mapping[str, bool] = {"true": True, "false": False}


def parse_verifier(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a verifier from its text form.

    Values are booleans, numbers or, if they are neither, texts. Names are not checked.

    Raises:
        ConfigError: The text is not of this form; all faults are named.
    """
    name, *rest = [part.strip() for part in text.split(",")]
    problems = [] if name else [Problem("missing name of the verifier")]
    params: dict[str, Any] = {}
    for key, value in _pairs(rest, problems):
        if not key:
            problems.append(Problem(f"missing name of the parameter before '={value}'"))
        elif key in params:
            problems.append(Problem(f"duplicate parameter '{key}'"))
        else:
            params[key] = _value(value)
    if problems:
        raise ConfigError(
            f"cannot read the verifier '{text}'",
            problems=problems,
            hint="write NAME or NAME,PARAMETER=VALUE,...",
        )
    return name, params


def verifier_text(name: str, params: Mapping[str, Any]) -> str:
    """Return the text form of a verifier, which `parse_verifier` reads."""
    return ",".join([name, *(f"{key}={_text(value)}" for key, value in params.items())])


def _pairs(parts: list[str], problems: list[Problem]) -> list[tuple[str, str]]:
    """Return names and values from `NAME=VALUE`, or from NAME and VALUE in turn."""
    found, waiting = [], list(reversed(parts))
    while waiting:
        part = waiting.pop()
        key, equals, value = part.partition("=")
        if not equals and waiting and "=" not in waiting[-1]:
            value = waiting.pop()
        elif not value:
            problems.append(Problem(f"missing value of '{key}'" if key else "empty parameter"))
            continue
        found.append((key.strip(), value.strip()))
    return found


def _value(text: str) -> bool | int | float | str:
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
