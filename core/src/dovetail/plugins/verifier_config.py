"""Config files of verifiers: which verifier, with which parameters, for which tensors.

The form is that of the SDK's accuracy debugger:

    {"TopK": {"parameters": {"k": 5}, "tensors": [["Reshape_1:0"], ["detection_classes:0"]]}}

Each inner list has the tensors that the verifier reads together. Beyond the SDK's form, an entry
without `tensors` is for all tensors that no entry lists, and a verifier may have a list of entries.
Source: the SDK's reference, qnn-accuracy-debugger, Verifier Config.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.files.config_text import read_json
from dovetail.plugins.verifiers import verifier
from dovetail.typed import convert
from dovetail.verification import ConfiguredVerifier


class _Entry(msgspec.Struct, frozen=True):
    """An entry of the file."""

    parameters: dict[str, Any] = {}
    tensors: list[list[str]] | None = None


@dataclass(frozen=True, slots=True)
class TensorVerifier:
    """A verifier and the tensors that it reads.

    Attributes:
        verifier: The verifier.
        tensors: Their names, in the order that the verifier expects.
    """

    verifier: ConfiguredVerifier
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifierConfig:
    """The content of a config file.

    Attributes:
        listed: Verifiers of the tensors that the file lists.
        default: Verifiers of all other tensors.
        where: Name of the file, for errors.
    """

    listed: tuple[TensorVerifier, ...] = ()
    default: tuple[ConfiguredVerifier, ...] = ()
    where: str = ""

    def for_tensors(
        self, names: Iterable[str], default: Sequence[ConfiguredVerifier] = ()
    ) -> tuple[TensorVerifier, ...]:
        """Return the comparisons to make.

        Args:
            names: Names of all tensors that can be compared.
            default: Verifiers of the tensors that the file does not list, in addition to its own
                default ones.

        Raises:
            ConfigError: The file lists tensors that are not among `names`; all are named.
        """
        known = dict.fromkeys(names)
        listed = dict.fromkeys(name for each in self.listed for name in each.tensors)
        if unknown := [name for name in listed if name not in known]:
            raise ConfigError(
                "unknown tensors",
                where=self.where,
                problems=[Problem(f"'{name}'", hint=suggest_name(name, known)) for name in unknown],
            )
        others = [name for name in known if name not in listed]
        everywhere = (*self.default, *default)
        return (
            *self.listed,
            *(TensorVerifier(each, (name,)) for name in others for each in everywhere),
        )


def read_verifier_config(path: Path) -> VerifierConfig:
    """Return the content of a config file of verifiers.

    Raises:
        ConfigError: It cannot be read, or names unknown verifiers, keys or parameters, or has wrong
            values; all faults are named.
        PluginError: A verifier is broken.
    """
    return verifier_config(read_json(path), where=str(path))


def verifier_config(data: Mapping[str, Any], *, where: str) -> VerifierConfig:
    """Return the typed form of a config of verifiers.

    Args:
        data: Decoded JSON.
        where: Name of the file, for errors.

    Raises:
        ConfigError: As `read_verifier_config`.
        PluginError: A verifier is broken.
    """
    listed: list[TensorVerifier] = []
    default: list[ConfiguredVerifier] = []
    problems: list[Problem] = []
    for name, path, entry in _entries(data, problems):
        try:
            found = verifier(name, entry.parameters, path=f"{path}.parameters")
        except ConfigError as error:
            problems += error.as_problems(error.where.rpartition(": ")[2] or path)
            continue
        if entry.tensors is not None:
            problems += _tensor_faults(found, entry.tensors, f"{path}.tensors")
            listed += (TensorVerifier(found, tuple(each)) for each in entry.tensors)
        elif found.tensors == 1:
            default.append(found)
        else:
            hint = f"list {found.tensors} tensors in each item of 'tensors'"
            problems.append(Problem("the verifier reads several tensors together", path, hint))
    if problems:
        raise ConfigError("invalid config of verifiers", where=where, problems=problems)
    return VerifierConfig(tuple(listed), tuple(default), where)


def _entries(data: Mapping[str, Any], problems: list[Problem]) -> Iterator[tuple[str, str, _Entry]]:
    """Yield the name, path and content of each entry; add the faults of the others."""
    for name, content in data.items():
        several = isinstance(content, list)
        for i, each in enumerate(content if several else [content]):
            path = f"$.{name}[{i}]" if several else f"$.{name}"
            try:
                entry = convert(each, _Entry, where=path, path=path)
            except ConfigError as error:
                problems += error.as_problems(error.where.rpartition(": ")[2] or path)
            else:
                yield name, path, entry


def _tensor_faults(
    found: ConfiguredVerifier, groups: list[list[str]], path: str
) -> Iterator[Problem]:
    seen = set()
    for i, names in enumerate(groups):
        if len(names) != found.tensors:
            yield Problem(
                f"the verifier reads {found.tensors} tensors together, got {len(names)}"
                if found.tensors > 1
                else f"the verifier reads one tensor at a time, got {len(names)}",
                f"{path}[{i}]",
            )
        if tuple(names) in seen:
            yield Problem("duplicate tensors", f"{path}[{i}]")
        seen.add(tuple(names))
