"""Rendering of templates to the files of a dist.

A template is a file below `templates/KIND` or `templates/common`, named like the file to write,
with `.template` appended and `module` for the package's name. In it, `{{name}}`, `{{words}}`,
`{{module}}` and `{{dist}}` are the plugin's names; `common` has a few more fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable

from dovetail import __version__
from dovetail_tools._scaffold._kinds import KINDS, Kind, PluginKind
from dovetail_tools._scaffold._names import Names

_FIELD = re.compile(r"\{\{(\w+)\}\}")
_SUFFIX = ".template"


def project_files(kind: PluginKind, names: Names) -> dict[str, str]:
    """Return the texts of a dist's files by their paths in it, with forward slashes."""
    templates = files(__name__.rpartition(".")[0]) / "templates"
    values = _values(KINDS[kind], names)
    found = {}
    for folder in ("common", kind.value):
        for path, text in _texts(templates / folder):
            path = path.replace("module", names.module).removesuffix(_SUFFIX)
            found[path] = _FIELD.sub(lambda field: values[field[1]], text)
    return dict(sorted(found.items()))


def entry_points(kind: Kind, names: Names) -> list[tuple[str, str, str]]:
    """Return groups, names and values of a dist's entry points."""
    return [(p.group, _named(p.name, names), _named(p.value, names)) for p in kind.entry_points]


def _texts(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _texts(entry, f"{path}/")
        elif path.endswith(_SUFFIX):
            yield path, entry.read_text("utf-8")


def _values(kind: Kind, names: Names) -> Mapping[str, str]:
    major, minor = (int(part) for part in __version__.split(".")[:2])
    versions = f">={major}.{minor},<{major}.{minor + 1}"
    tested_with = [f"{dist}{versions}" for dist in ("dovetail-core[testing]", *kind.tested_with)]
    return {
        "name": names.name,
        "words": names.words,
        "module": names.module,
        "dist": names.dist,
        "description": _named(kind.description, names),
        "core": f"dovetail-core{versions}",
        "tested_with": "\n".join(f'    "{requirement}",' for requirement in tested_with),
        "entry_points": "\n\n".join(
            f'[project.entry-points."{group}"]\n"{name}" = "{value}"'
            for group, name, value in entry_points(kind, names)
        ),
    }


def _named(text: str, names: Names) -> str:
    return text.format(name=names.name, module=names.module, Words=names.words)
