"""Report the sizes of the workspace's Python files; never fails a build.

Prints lines of code per dist, and every file of more than 400 lines, longest first: a reader of
such a file asks why it is so long; tables and declarations may justify it.
"""

import sys
from collections import Counter
from pathlib import Path

from workspace import ROOT, find_dists

LONG = 400
OTHERS = ("tests", "tools", "examples", "benchmarks")


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def measure(root: Path = ROOT) -> dict[Path, int]:
    """Count the lines of each Python file of the workspace, by its path relative to `root`."""
    folders = [dist.folder for dist in find_dists(root)] + list(OTHERS)
    files = {p for folder in folders for p in (root / folder).rglob("*.py")}
    return {p.relative_to(root): count_lines(p) for p in sorted(files)}


def report(sizes: dict[Path, int], folders: list[str]) -> list[str]:
    """Create the report's lines: a table of folders, then the long files."""
    source, tests, files = Counter[str](), Counter[str](), Counter[str]()
    for path, lines in sizes.items():
        # The longest folder wins: plugins/frontends/onnx is a dist, plugins is none.
        fitting = [f for f in folders if path.is_relative_to(f)]
        folder = max(fitting, key=len)
        files[folder] += 1
        (tests if "tests" in path.parts else source)[folder] += lines
    rows = [f"{'folder':<28}{'files':>7}{'code':>8}{'tests':>8}"]
    rows += [
        f"{folder:<28}{files[folder]:>7}{source[folder]:>8}{tests[folder]:>8}"
        for folder in folders
        if files[folder]
    ]
    rows.append(f"{'total':<28}{files.total():>7}{source.total():>8}{tests.total():>8}")
    long = sorted(((n, p) for p, n in sizes.items() if n > LONG), reverse=True)
    rows.append(f"files over {LONG} lines: {len(long) or 'none'}")
    rows += [f"  {lines:>6}  {path.as_posix()}" for lines, path in long]
    return rows


def main() -> int:
    folders = [dist.folder for dist in find_dists()] + list(OTHERS)
    print("\n".join(report(measure(), folders)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
