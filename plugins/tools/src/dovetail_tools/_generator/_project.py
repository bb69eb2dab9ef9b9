"""All files of a generated dist."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_tools._generator._cases import cases_module
from dovetail_tools._generator._names import Names
from dovetail_tools._generator._ops import ops_module
from dovetail_tools._generator._plugins import importers_module, kernels_module, kernels_name
from dovetail_tools._generator._readme import readme
from dovetail_tools._generator._templates import PYPROJECT, TESTS
from dovetail_tools._generator._text import docstring, literal
from dovetail_tools.op_definitions import Definitions


def files_of(definitions: Definitions, names: Names, backends: Sequence[str]) -> dict[str, str]:
    """Return the files of a dist by their paths in it.

    Args:
        definitions: Valid definitions of the ops.
        names: Names of the dist.
        backends: Backends to write kernels for; at least one.
    """
    source = f"src/{names.module}"
    modules = {
        f"{source}/__init__.py": _init(names),
        f"{source}/ops.py": ops_module(definitions, names),
        f"{source}/kernels.py": kernels_module(definitions, names, backends),
        "tests/cases.py": cases_module(definitions, names),
    }
    if definitions.domain:
        modules[f"{source}/importers.py"] = importers_module(definitions, names)
    found = {path: "\n".join(lines) + "\n" for path, lines in modules.items()}
    plugins = _plugins(definitions, names, backends)
    return found | {
        f"{source}/py.typed": "",
        "tests/test_ops.py": _tests(names, backends),
        "pyproject.toml": _pyproject(definitions, names, plugins),
        "README.md": readme(definitions, names, plugins),
    }


def _init(names: Names) -> list[str]:
    head = docstring(f"The op package `{names.package}` for Dovetail.", (), "")
    return [*head, "", f"from {names.module}.ops import PACKAGE", "", '__all__ = ["PACKAGE"]']


def _tests(names: Names, backends: Sequence[str]) -> str:
    own = [f"from {names.module}.ops import PACKAGE", "from cases import CASES, UNWRITTEN"]
    listed = ", ".join(map(literal, backends))
    return _filled(TESTS, names, backends=listed, own="\n".join(sorted(own)))


def _plugins(
    definitions: Definitions, names: Names, backends: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return groups, names and values of the dist's entry points."""
    found = [("dovetail.op_packages", names.package, f"{names.module}.ops:PACKAGE")]
    for backend in backends:
        value = f"{names.module}.kernels:{kernels_name(backend)}"
        found.append(("dovetail.kernels", f"{backend}:{names.package}", value))
    if definitions.domain:
        value = f"{names.module}.importers:IMPORTERS"
        found.append(("dovetail.importers", f"onnx:{definitions.domain}", value))
    return found


def _pyproject(
    definitions: Definitions, names: Names, plugins: Sequence[tuple[str, str, str]]
) -> str:
    tables: dict[str, list[str]] = {}
    for group, name, value in plugins:
        tables.setdefault(group, []).append(f'"{name}" = "{value}"')
    points = [
        "\n".join([f'[project.entry-points."{group}"]', *lines]) for group, lines in tables.items()
    ]
    frontend = '    "dovetail-onnx>=0.1,<0.2",\n' if definitions.domain else ""
    return _filled(
        PYPROJECT,
        names,
        version=definitions.version,
        points="\n\n".join(points),
        frontend=frontend,
    )


def _filled(template: str, names: Names, **values: str) -> str:
    """Return a template with each `@name@` replaced; no value has foreign text."""
    known = {"package": names.package, "dist": names.dist, "module": names.module, **values}
    for name, value in known.items():
        template = template.replace(f"@{name}@", value)
    return template
