"""The names in a generated dist, all derived from one, and the names that are rejected."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution

from dovetail.errors import Problem
from dovetail.plugins import list_plugins

# Longer names do not fit the formatted lines of the templates.
LONGEST = 30
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*")
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+")
# Modules that generated files import, and names of generated modules.
_TAKEN = frozenset({"cases", "dovetail", "test", "tests"})


@dataclass(frozen=True, slots=True)
class Names:
    """Names derived from that of a plugin.

    Attributes:
        name: Name of the plugin, as given.
        words: The name in capitalized words, for classes: `my-npu` becomes `MyNpu`.
        module: Name of the Python package: `my_npu`.
        dist: Name of the dist and of its folder: `my-npu`.
    """

    name: str
    words: str
    module: str
    dist: str

    @classmethod
    def of(cls, name: str) -> Names:
        """Return the names derived from a valid name (`form_faults`)."""
        words = _WORD.findall(name)
        module = "_".join(word.lower() for word in words)
        capitalized = "".join(word[0].upper() + word[1:] for word in words)
        return cls(name, capitalized, module, module.replace("_", "-"))


def form_faults(name: str) -> list[Problem]:
    """Return why a text is not a valid plugin name; empty if it is."""
    if not _NAME.fullmatch(name) or len(Names.of(name).module) > LONGEST:
        hint = f"up to {LONGEST} letters and digits in parts joined by -, _ or ., a letter first"
        return [Problem(f"invalid plugin name {name!r}", hint=hint)]
    module = Names.of(name).module
    if module.startswith("dovetail_"):
        return [Problem("names dovetail-... are reserved for Dovetail's own dists")]
    if keyword.iskeyword(module) or module in _TAKEN | sys.stdlib_module_names:
        return [Problem(f"the module '{module}' would hide Python's or Dovetail's own")]
    return []


def claim_faults(names: Names, points: list[tuple[str, str]]) -> Iterator[Problem]:
    """Yield the installed plugins, modules and dists that have a name; imports nothing.

    Args:
        names: Names of the plugin.
        points: Groups and names of its entry points.
    """
    for group, name in points:
        for plugin in list_plugins(group):
            if plugin.name == name:
                kind = group.removeprefix("dovetail.")
                yield Problem(
                    f"'{name}' among the {kind} is claimed by {plugin.dist} {plugin.version}"
                )
    try:
        found = distribution(names.dist)
    except PackageNotFoundError:
        if importlib.util.find_spec(names.module) is not None:
            yield Problem(f"module '{names.module}' is installed, and the new one would hide it")
    else:
        yield Problem(f"dist '{names.dist}' {found.version} is installed")
