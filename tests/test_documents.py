"""Every command and every piece of Python in the documents runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))]
BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# `make test` is what runs this test; `make demo` has a test of its own, in the repository.
ELSEWHERE = ("make test", "make demo")


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {k: v for k, v in os.environ.items() if k != "DOVETAIL_PLUGINS"} | {"PATH": path}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_and_python_run(document: str, tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("output")
    )
    program = ""
    for block in BLOCK.finditer((ROOT / document).read_text("utf-8")):
        if block["kind"] == "python":
            program += block["text"]  # later pieces build on earlier ones
            command = [sys.executable, "-W", "error", "-c", program]
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            continue
        lines = [line[2:] for line in block["text"].splitlines() if line.startswith("$ ")]
        if lines[0] in ELSEWHERE:
            continue  # what follows in the block is its output
        for line in lines:
            done = subprocess.run(
                line,
                shell=True,
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_the_demo_reaches_its_accuracy_and_says_where_things_are(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "digits" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(demo), "--output-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"top-1 accuracy +([\d.]+)%", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) >= 97
    quantized = re.search(r"8-bit accuracy +([\d.]+)%", done.stdout)
    assert quantized is not None, done.stdout
    # half a point is what 8 bits may cost
    assert float(quantized[1]) >= float(found[1]) - 0.5
    assert len(list(tmp_path.glob("results/Result_*/scores.raw"))) == 360
    assert "time per image" in done.stdout
    assert "What to try next" in done.stdout
