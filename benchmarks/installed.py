"""Our dists as users have them: installed from wheels, not imported from the working tree."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.process import ROOT

_PLACES = ("core", "plugins/*", "plugins/*/*")


def installed_python(folder: Path, *others: str) -> str:
    """Create an environment with wheels of all our dists, and return its interpreter.

    What they require comes from the index, in the versions of this environment where it has them.

    Args:
        folder: An empty folder.
        others: Names of other dists to install.
    """
    dists = [path for place in _PLACES for path in ROOT.glob(f"{place}/pyproject.toml")]
    sources = sorted(str(path.parent) for path in dists)
    wheels, environment = folder / "wheels", folder / "environment"
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), *sources)
    venv.create(environment, with_pip=False, symlinks=True)
    python = str(environment / "bin" / "python")
    constraints = folder / "constraints.txt"
    installed = ((d.metadata["Name"], d.version) for d in distributions())
    constraints.write_text("".join(f"{n}=={v}\n" for n, v in installed if not _is_ours(n)))
    files = map(str, sorted(wheels.glob("*.whl")))
    _pip("--python", python, "install", "--constraint", str(constraints), *files, *others)
    return python


def _is_ours(name: str) -> bool:
    return name.startswith("dovetail")


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=ROOT)
