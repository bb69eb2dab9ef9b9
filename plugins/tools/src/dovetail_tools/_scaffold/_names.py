"""The names of a generated dist, all made of one; and which names it refuses."""

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

# More does not fit the lines of the templates as a formatter leaves them.
LONGEST = 30
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[._-][A-Za-z0-9]+)*")
_WORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+")
# What generated files import, or lies beside them.
_TAKEN = frozenset({"cases", "dovetail", "test", "tests"})


@dataclass(frozen=True, slots=True)
class Names:
    """Names made of a plugin's.

    Attributes:
        name: Of the plugin, as given.
        words: The same in capitalized words, for classes: `my-npu` becomes `MyNpu`.
        module: Of the Python package: `my_npu`.
        dist: Of the dist, and of its folder: `my-npu`.
    """

    name: str
    words: str
    module: str
    dist: str

    @classmethod
    def of(cls, name: str) -> Names:
        """Return the names; see `form_faults` for what is not one."""
        words = _WORD.findall(name)
        module = "_".join(word.lower() for word in words)
        capitalized = "".join(word[0].upper() + word[1:] for word in words)
        return cls(name, capitalized, module, module.replace("_", "-"))


def form_faults(name: str) -> list[Problem]:
    """Return why a text cannot be a plugin's name; nothing if it can."""
    if not _NAME.fullmatch(name) or len(Names.of(name).module) > LONGEST:
        hint = f"up to {LONGEST} letters and digits in parts joined by -, _ or ., a letter first"
        return [Problem(f"{name!r} cannot be a plugin's name", hint=hint)]
    module = Names.of(name).module
    if module.startswith("dovetail_"):
        return [Problem("dists that are named dovetail-... are Dovetail's own")]
    if keyword.iskeyword(module) or module in _TAKEN | sys.stdlib_module_names:
        return [Problem(f"the module '{module}' would hide Python's or Dovetail's own")]
    return []


def claim_faults(names: Names, points: list[tuple[str, str]]) -> Iterator[Problem]:
    """Return who has a name already, of all that is installed here; imports nothing.

    Args:
        names: Of the plugin.
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
            yield Problem(f"a module '{names.module}' is installed: this one would hide it")
    else:
        yield Problem(f"a dist '{names.dist}' is installed, version {found.version}")
