"""Verifiers by name and parameters: from command lines or other data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from dovetail.errors import ConfigError, DovetailError, Problem, suggest_name
from dovetail.plugins.registry import load, names
from dovetail.verification import ConfiguredVerifier, Verifier, configure, parse_verifier

_GROUP = "dovetail.verifiers"


def verifier(
    name: str, params: Mapping[str, Any] | None = None, *, where: str = "", path: str = "parameters"
) -> ConfiguredVerifier:
    """Return an installed verifier with parameters.

    Args:
        name: Name of the verifier, in any case.
        params: Values by name; the others have their defaults.
        where: Name of the file that they are from, for errors.
        path: Path of the parameters in that file, for errors.

    Raises:
        ConfigError: Unknown verifier, unknown parameters or wrong values; all are named.
        PluginError: The verifier is broken.
    """
    known = names(_GROUP)
    exact = [each for each in known if each == name]
    found = exact or [each for each in known if each.casefold() == name.casefold()]
    if len(found) != 1:
        raise ConfigError(
            f"unknown verifier '{name}'", where=where, hint=suggest_name(name, found or known)
        )
    loaded = cast("type[Verifier]", load(_GROUP, found[0]))
    return configure(loaded, params, name=found[0], where=where, path=path)


def parse_verifiers(texts: Iterable[str], *, where: str = "") -> tuple[ConfiguredVerifier, ...]:
    """Return verifiers from their text form, such as `RtolAtol,rtolmargin=0.01`.

    Args:
        texts: One text for each verifier; see `dovetail.verification.parse_verifier`.
        where: Name of the option, for errors.

    Raises:
        ConfigError: Texts of another form, unknown verifiers, unknown parameters and wrong values;
            all of them are named.
        PluginError: A verifier is broken.
    """
    found: list[ConfiguredVerifier] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            found.append(verifier(*parse_verifier(text)))
        except ConfigError as error:
            problems += _problems(error, text)
    if problems:
        raise ConfigError("invalid verifiers", where=where, problems=problems)
    return tuple(found)


def _problems(error: DovetailError, where: str) -> list[Problem]:
    """Return the faults of an error, each located by `where`."""
    return [Problem(str(problem), f"'{where}'") for problem in error.as_problems()]
