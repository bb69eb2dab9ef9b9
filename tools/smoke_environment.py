"""Clean virtual environments for the wheel smoke test.

A clean environment is a new venv with our wheels and the dependencies that pip resolves, nothing
from the workspace. The wheels are given to pip as files, so that no dist of ours can come from an
index; their dependencies come from the index that pip is configured for.
"""

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from workspace import ROOT


class SmokeError(Exception):
    """A wheel or an environment is wrong; the message says which and how."""


def run_pip(*arguments: str) -> None:
    """Run the workspace's own pip.

    Raises:
        SmokeError: It failed; the message has its output to stderr.
    """
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SmokeError(f"pip exited {done.returncode}: {' '.join(arguments)}\n{done.stderr}")


@dataclass(frozen=True, slots=True)
class Environment:
    """A venv for some of our dists, in `folder` / `venv`; its programs run in `folder`."""

    name: str
    folder: Path
    dists: tuple[str, ...]

    @property
    def bin(self) -> Path:
        return self.folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    def create(self, wheels: dict[str, Path]) -> None:
        """Create the venv, without pip in it, and install the wheels from outside.

        Raises:
            SmokeError: Pip could not install them.
        """
        self.folder.mkdir()
        venv.create(self.folder / "venv", with_pip=False, symlinks=os.name != "nt")
        files = (str(wheels[name]) for name in self.dists)
        run_pip("--python", str(self.bin / "python"), "install", "--no-compile", *files)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the venv and return its standard output.

        Raises:
            SmokeError: It exited with a status other than 0.
        """
        # No variable may lead Python or our plugin registry out of the venv.
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DOVETAIL"))}
        clean["PYTHONNOUSERSITE"] = "1"
        done = subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.folder,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            shown = " ".join([program, *arguments])
            raise SmokeError(
                f"{self.name}: `{shown}` exited {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def demand(self, condition: bool, problem: str) -> None:
        """Raise a SmokeError that names this environment unless `condition` holds."""
        if not condition:
            raise SmokeError(f"{self.name}: {problem}")
