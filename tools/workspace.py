"""The workspace: its dists and the packages below their `src` folders.

Everything that must name all dists (the wheel smoke test, the size report, the architecture tests)
uses this module, so that a new dist is found without registration.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Where a dist's folder may be, as in the Makefile.
PLACES = ("core", "plugins/*", "plugins/*/*")


@dataclass(frozen=True, slots=True)
class Dist:
    """One installable part of the workspace.

    Attributes:
        folder: Its path relative to the workspace, with forward slashes.
        name: Its dist name; an empty string if it has no pyproject.toml.
        packages: The import names below its `src`, sorted.
    """

    folder: str
    name: str
    packages: tuple[str, ...]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file as plain dicts and lists."""
    return tomllib.loads(path.read_text("utf-8"))


def find_packages(source: Path) -> tuple[str, ...]:
    """List the import names in one `src` folder: packages with Python files, and modules."""
    folders = (p.name for p in source.glob("*/") if any(p.rglob("*.py")))
    modules = (p.stem for p in source.glob("*.py"))
    return tuple(sorted({*folders, *modules}))


def find_dists(root: Path = ROOT) -> list[Dist]:
    """Find every folder that is a dist or looks like one: it has a pyproject.toml or a `src`."""
    dists = []
    for folder in sorted(p for place in PLACES for p in root.glob(place) if p.is_dir()):
        project = folder / "pyproject.toml"
        if not project.exists() and not (folder / "src").is_dir():
            continue
        name = str(read_toml(project)["project"]["name"]) if project.exists() else ""
        packages = find_packages(folder / "src")
        dists.append(Dist(folder.relative_to(root).as_posix(), name, packages))
    return dists
