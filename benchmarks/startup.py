"""Measure `dovetail --help`, as a whole process, and `python -c 'import typer'`.

    python benchmarks/startup.py [--rounds N] [--json]

The two alternate, so that a busy machine slows both; the medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

COMMANDS = {
    "dovetail --help": [str(Path(sys.executable).with_name("dovetail")), "--help"],
    "import typer": [sys.executable, "-c", "import typer"],
    "python": [sys.executable, "-c", "pass"],
}


def once_ms(command: list[str]) -> float:
    """Run a command; return its wall time in milliseconds."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for command in COMMANDS.values():
        once_ms(command)  # warms the file cache and writes the bytecode
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.rounds):
        for name, command in COMMANDS.items():
            times[name].append(once_ms(command))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    ratio = medians["dovetail --help"] / medians["import typer"]
    if options.json:
        print(json.dumps({"median_ms": medians, "ratio": ratio}))
        return
    for name, median in medians.items():
        print(f"{name:16} {median:7.1f} ms")
    print(f"ratio            {ratio:7.2f}   (target: at most 1.8)")


if __name__ == "__main__":
    main()
