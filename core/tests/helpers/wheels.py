"""A dist in a folder, as pip installs it there; pip itself takes seconds."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

import forked

BUILD = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"


def install(project: Path, site: Path) -> None:
    """Build a dist's wheel by hatchling, as its project file says, and unpacks it in a folder."""
    with tempfile.TemporaryDirectory() as name:
        done = forked.run(["python", "-c", BUILD, name], project)
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = Path(name).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
