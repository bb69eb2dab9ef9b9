"""Our dists as users have them: installed from wheels, not imported from the working tree."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from benchmarks.process import ROOT

_PLACES = ("core", "plugins/*", "plugins/*/*")


def installed_python(folder: Path) -> str:
    """Create an environment with wheels of all our dists, and return its interpreter.

    Other packages are those of this environment, at a path of their own.

    Args:
        folder: An empty folder.
    """
    dists = [path for place in _PLACES for path in ROOT.glob(f"{place}/pyproject.toml")]
    sources = sorted(str(path.parent) for path in dists)
    wheels, environment = folder / "wheels", folder / "environment"
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), *sources)
    venv.create(environment, with_pip=False, symlinks=True)
    python = str(environment / "bin" / "python")
    files = map(str, sorted(wheels.glob("*.whl")))
    _pip("--python", python, "install", "--no-deps", "--no-index", *files)
    paths = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=paths))
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=ROOT)
