"""Open the files that we write in Netron, and compare what its page shows with the graphs.

    make netron-test
    python tools/check_netron.py --python PATH [--chromium NAME] [--only NAME]

Netron comes from an environment of its own, Chromium from the system. Both run on this machine, and
the browser reaches nothing else. Exit status: 0 if every page shows its graph, and damage and what
Netron does not support are noticed; 1 if not; 77 if Netron or Chromium is missing, so that nothing
was compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from netron_check.chromium import BrowserError, Page, find_chromium, open_page
from netron_check.damage import damaged, is_damageable
from netron_check.expected import dlc_facts, json_facts, onnx_facts
from netron_check.facts import Facts, differences, shown_facts
from netron_check.handmade import unsupported
from netron_check.subjects import subjects
from netron_check.viewer import prepare, show, version

from dovetail.api.exporting import find_exporter
from dovetail.ir import Graph

ROOT = Path(__file__).parents[1]
SKIPPED = 77
MOST_FAULTS = 10
# The exporter of each format, and the end of its files' names.
FORMATS = {"json": ("qnn-json", "_net.json"), "dlc": ("dlc", ".dlc"), "onnx": ("onnx-qdq", ".onnx")}
LINE = "{:<26} {:<6} {:>6} {:>7} {:>6}  {}"


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one file.

    Attributes:
        name, format: Of the graph and of the file.
        nodes, facts: Numbers of nodes of the graph, and of facts that are compared.
        ms: Time of opening and reading the page.
        noticed: What must be noticed; empty if the page must show the graph.
        faults: What is not as it must be.
    """

    name: str
    format: str
    nodes: int
    facts: int
    ms: float
    noticed: str
    faults: tuple[str, ...]

    def __str__(self) -> str:
        outcome = f"{len(self.faults)} FAULTS" if self.faults else self.noticed or "shown"
        line = LINE.format(
            self.name, self.format, self.nodes, self.facts, f"{self.ms:.0f}", outcome
        )
        return "\n".join((line, *(f"    {fault}" for fault in self.faults[:MOST_FAULTS])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, open and compare files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", type=Path, default=ROOT / ".venv-netron" / "bin" / "python")
    parser.add_argument("--chromium", default="", help="the browser; by default the one found")
    parser.add_argument("--only", default="", help="part of the names of graphs")
    options = parser.parse_args(arguments)
    python, chromium = options.python.absolute(), find_chromium(options.chromium)
    netron = version(python)
    if not netron or chromium is None:
        needs = [] if netron else [f"{python} has no Netron; `make netron-test` installs it"]
        needs += [] if chromium else ["no Chromium; on Debian, `apt-get install chromium`"]
        print(f"SKIPPED, nothing was compared: {'; '.join(needs)}")
        return SKIPPED
    results = []
    try:
        with tempfile.TemporaryDirectory() as folder, open_page(chromium) as page:
            prepare(page)
            print(f"Netron {netron}, {page.call('Browser.getVersion')['product']}\n")
            print(LINE.format("graph", "file", "nodes", "facts", "ms", "result"), flush=True)
            for result in _Check(page, python, Path(folder)).results(options.only):
                print(result, flush=True)
                results.append(result)
    except BrowserError as error:
        print(f"FAULT: {error}")
        return 1
    bad = sum(bool(result.faults) for result in results)
    shown = sum(not result.noticed for result in results)
    facts = sum(result.facts for result in results)
    print(
        f"\n{shown} files to be shown, {len(results) - shown} to be noticed, {facts} facts; ",
        end="",
    )
    print("all as expected" if results and not bad else f"{bad} files are NOT as expected")
    return 0 if results and not bad else 1


class _Check:
    """The check of all files.

    Args:
        page: The browser's page.
        python: Interpreter of the environment with Netron.
        folder: For the files.
    """

    def __init__(self, page: Page, python: Path, folder: Path) -> None:
        self._page, self._python, self._folder = page, python, folder

    def results(self, only: str) -> Iterator[Result]:
        """Yield the result for each file whose name contains a text."""
        undamaged = {*FORMATS}
        for subject in subjects(self._folder):
            for format_ in subject.formats if only in subject.name else ():
                path = self._write(subject.graph, format_)
                expected = _facts(subject.graph, format_, path)
                yield self._compare(subject.name, subject.graph, format_, path, expected)
                if format_ in undamaged and is_damageable(subject.graph):
                    undamaged.remove(format_)
                    if format_ == "json":  # Netron finds the JSON of the weights, too
                        weights = path.with_name("net.bin")
                        yield self._compare(subject.name, subject.graph, "bin", weights, expected)
                    yield from self._damage(subject.name, subject.graph, format_, path, expected)
        for name, graph, format_, message in unsupported():
            if only in name:
                path = self._write(graph, format_)
                expected = {"message": message}
                yield self._compare(name, graph, format_, path, expected, "rejected")

    def _write(self, graph: Graph, format_: str) -> Path:
        name, ending = FORMATS[format_]
        exporter = find_exporter(name)
        path = self._folder / f"net{ending}"
        exporter.export(graph, path, exporter.options_type())
        return path

    def _compare(
        self,
        name: str,
        graph: Graph,
        format_: str,
        path: Path,
        expected: Facts,
        noticed: str = "",
    ) -> Result:
        shown, ms = self._shown(path)
        if format_ == "onnx":
            shown = {key: value for key, value in shown.items() if key in {*expected, "message"}}
        faults = tuple(sorted(differences(expected, shown)))
        return Result(name, format_, len(graph.nodes), len(expected), ms, noticed, faults)

    def _damage(
        self, name: str, graph: Graph, format_: str, path: Path, expected: Facts
    ) -> Iterator[Result]:
        """Damage a file; damage that makes no difference is a fault."""
        for what, is_rejected in damaged(path, format_):
            shown, ms = self._shown(path)
            found = [key for key in expected if shown.get(key) != expected[key]]
            is_noticed = "message" in shown if is_rejected else bool(found)
            noticed = f"noticed: damaged {what}"
            faults = () if is_noticed else (f"damaged {what} is not noticed",)
            yield Result(name, format_, len(graph.nodes), len(expected), ms, noticed, faults)

    def _shown(self, path: Path) -> tuple[Facts, float]:
        start = time.perf_counter()
        facts = shown_facts(show(self._page, self._python, path))
        return facts, (time.perf_counter() - start) * 1e3


def _facts(graph: Graph, format_: str, path: Path) -> Facts:
    if format_ == "onnx":
        return onnx_facts(path)
    return json_facts(graph) if format_ == "json" else dlc_facts(graph)


if __name__ == "__main__":
    sys.exit(main())
