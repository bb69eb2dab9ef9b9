"""Every command and every piece of Python in the documents runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import forked
import numpy as np
import onnxruntime
import pytest
from opencl_driver import require_opencl

from dovetail.errors import PluginError
from dovetail.plugins import GROUPS
from dovetail_gpu.driver import devices

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    "README.md",
    *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")),
    "examples/contexts/README.md",
    "examples/sample_app/README.md",
]
BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
# `make test` runs this test, demos have tests of their own, and the smoke test of wheels installs.
ELSEWHERE = ("make ", "python -m pip ", "python examples/contexts/demo.py")
# All of its cases run in a test of conformance.
KIT = "pytest -q -p dovetail.testing.plugin --pyargs dovetail.testing.suite --backend cpu "
# Later commands read its files, which the demo's own test has, too.
DEMO = "python examples/digits/demo.py --output-dir out"
# Its commands go through a shell, as a reader's do; those of the others are forked.
IN_A_SHELL = "README.md"
NEEDS_OPENCL = "docs/gpu.md"
# Where there is no OpenCL device it says so, and its exit code is 6.
DOCTOR = "dovetail doctor"

PIECES = """
import json, signal, sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    signal.alarm(120)
    exec(compile(json.loads(line), "<document>", "exec"), names)
    print("\\nran", flush=True)
"""
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
# To files of ours: the path and the heading.
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)")
# The sections that describe a contract; the reference of the others is their docstrings.
CONTRACTS = {
    "backends": ("plugins.md", "A backend"),
    "frontends": ("plugins.md", "A frontend"),
    "inspectors": ("plugins.md", "An inspector"),
    "exporters": ("plugins.md", "An exporter"),
    "architecture_rules": ("plugins.md", "An architecture rule"),
    "verifiers": ("plugins.md", "A verifier"),
    "range_estimators": ("plugins.md", "A range estimator"),
    "quantization_algorithms": ("quantization.md", "An algorithm of your own"),
}
# As in an activated environment: documents name `python`, which a machine may lack.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


class Interpreter:
    """Runs the pieces of Python of one document: later ones build on earlier ones."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PIECES],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, where: TracebackType | None
    ) -> None:
        told, _ = self._process.communicate(timeout=60)
        assert kind is not None or self._process.returncode == 0, told  # its end may fail, too

    def run(self, text: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        told = ""
        for line in self._process.stdout:
            if line == "ran\n":
                return
            told += line
        pytest.fail(f"{text}\n{told}")


def lacks_opencl() -> bool:
    """Return whether there is no usable OpenCL device."""
    try:
        return not devices()
    except PluginError:
        return True


def blocks_of(document: str) -> list[tuple[str, str]]:
    """Return kind and text of each block; one that is indented goes on with the block before it."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.finditer((ROOT / document).read_text("utf-8")):
        kind, text = block["kind"], block["text"]
        if kind == "python" and text.startswith(" "):
            before, start = found.pop()
            assert before == kind, f"{document}: an indented block follows none of Python"
            text = start + text
        found.append((kind, text))
    return found


def run_in_a_copy(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return forked.run(line, folder, PATH=PATH)


def run_in_a_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line,
        shell=True,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "DOVETAIL_PLUGINS"} | {"PATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the demo of the digits prints, and the folder in which it ran."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(ROOT / "examples", folder / "examples")
    done = forked.run(DEMO, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, folder


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_and_python_run(
    document: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if document == NEEDS_OPENCL:
        require_opencl()
    shutil.copytree(
        ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("output")
    )
    run = run_in_a_shell if document == IN_A_SHELL else run_in_a_copy
    with Interpreter(tmp_path) as interpreter:
        for kind, text in blocks_of(document):
            if kind == "python":
                interpreter.run(text)
                continue
            lines = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
            if lines[0].startswith(ELSEWHERE):
                continue  # what follows in the block is its output
            for line in lines:
                if line == DEMO:
                    _, folder = request.getfixturevalue("demo")
                    shutil.copytree(folder / "out", tmp_path / "out")
                    continue
                line += " -k Relu" if line.startswith(KIT) else ""
                done = run(line, tmp_path)
                code = 6 if line == DOCTOR and lacks_opencl() else 0
                assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"


def anchors_of(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", document.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md")]
    wrong = []
    for page in pages:
        for target, anchor in LINK.findall(page.read_text("utf-8")):
            document = (page.parent / target).resolve() if target else page
            if not document.exists() or (anchor and anchor not in anchors_of(document)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert not wrong


@pytest.mark.parametrize("group", CONTRACTS)
def test_the_section_of_a_contract_names_all_members(group: str) -> None:
    document, title = CONTRACTS[group]
    _, _, after = (ROOT / "docs" / document).read_text().partition(f"\n## {title}\n")
    code = " ".join(CODE.findall(after.partition("\n## ")[0]))
    members = {m.partition("(")[0] for m in GROUPS[f"dovetail.{group}"].members} - {"__init__"}
    assert not {name for name in members if not re.search(rf"\b{name}\b", code)}


def test_the_demo_reaches_its_accuracy_and_says_where_things_are(demo: tuple[str, Path]) -> None:
    printed, folder = demo
    found = re.search(r"top-1 accuracy +([\d.]+)%", printed)
    assert found is not None, printed
    assert float(found[1]) >= 97
    quantized = re.search(r"8-bit accuracy +([\d.]+)%", printed)
    assert quantized is not None, printed
    # half a point is what 8 bits may cost
    assert float(quantized[1]) >= float(found[1]) - 0.5
    agreement = re.search(r"agreement +([\d.]+)%", printed)
    assert agreement is not None, printed
    assert float(agreement[1]) >= 99
    # both backends compute on integers by one definition
    replay = "on htp: 360 of 360 outputs equal; on cpu: 360 of 360 outputs equal"
    assert re.search(f"replay +{replay}", printed)
    assert len(list(folder.glob("out/results/Result_*/scores.raw"))) == 360
    assert "time per image" in printed
    assert "What to try next" in printed


def test_the_demo_of_contexts_shares_weights(tmp_path: Path) -> None:
    demo = ROOT / "examples" / "contexts" / "demo.py"
    done = forked.run(["python", str(demo), "--output-dir", str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    sizes = [(tmp_path / f"{name}.bin").stat().st_size for name in ("encoder_32", "encoder_128")]
    assert (tmp_path / "encoder.bin").stat().st_size < 1.03 * max(sizes)
    found = [
        np.fromfile(tmp_path / "results" / f"encoder_{n}" / "Result_0" / "scores.raw", "<f4")
        for n in (32, 128)
    ]
    assert [scores.shape for scores in found] == [(10,), (10,)]
    source = onnxruntime.InferenceSession(tmp_path / "encoder.onnx")
    for length, scores in zip((32, 128), found, strict=True):
        tokens = np.fromfile(tmp_path / f"tokens_{length}.raw", "<f4").reshape(1, length, -1)
        (wanted,) = source.run(None, {"tokens": tokens})
        # two layers of sums in another order
        np.testing.assert_allclose(scores, wanted[0], rtol=1e-3, atol=1e-4)
