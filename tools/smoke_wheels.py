"""Build the wheels of all dists and test them in three clean environments.

1. core alone: the package imports, the command lists its own commands and no plugin;
2. core + opset + cpu, with the oneDNN library layer: the op package and the backend are found;
3. everything, with the umbrella: a trained model is converted and run, with the right results.

Run it with the workspace's Python (`make wheels`).
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from smoke_environment import Environment, SmokeError, run_pip
from workspace import ROOT, find_dists

UMBRELLA = "dovetail-nn"
CORE_COMMANDS = ("doctor", "explain", "inspect", "plugins")

# The dists that provide plugins, which `dovetail plugins` must list exactly if installed.
PLUGIN_DISTS = (
    "dovetail-cpu",
    "dovetail-htp",
    "dovetail-onnx",
    "dovetail-opset",
    "dovetail-qnn",
    "dovetail-quantizers",
    "dovetail-tools",
    "dovetail-verifiers",
)

DIGITS = ROOT / "examples" / "digits"
IMAGES = 10

PRINT_OUR_DISTS = """
from importlib.metadata import distributions
names = {d.name for d in distributions()}
print(*sorted(n for n in names if n.startswith("dovetail")))
"""


def build_wheels(target: Path) -> dict[str, Path]:
    """Build all wheels into `target` and return them by dist name.

    Raises:
        SmokeError: A build failed, or the wheels built are not those of the dists.
    """
    folders = [f"./{dist.folder}" for dist in find_dists()] + ["."]
    run_pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), *folders)
    wheels = {p.name.split("-")[0].replace("_", "-"): p for p in sorted(target.glob("*.whl"))}
    expected = {dist.name for dist in find_dists()} | {UMBRELLA}
    if set(wheels) != expected:
        raise SmokeError(f"wheels built: {sorted(wheels)}; dists: {sorted(expected)}")
    return wheels


def check_packages(env: Environment) -> None:
    """Check that exactly the chosen dists are installed, importable from there and typed."""
    found = env.run("python", "-c", PRINT_OUR_DISTS).split()
    env.demand(found == sorted(env.dists), f"holds {found}, should hold {sorted(env.dists)}")
    for package in (p for d in find_dists() if d.name in env.dists for p in d.packages):
        line = f"import {package}; print({package}.__file__)"
        init = Path(env.run("python", "-W", "error", "-c", line).strip())
        env.demand(init.is_relative_to(env.folder), f"{package} comes from outside: {init}")
        env.demand((init.parent / "py.typed").is_file(), f"{package}'s wheel lacks py.typed")


def check_commands(env: Environment) -> None:
    """Check that the shell lists the installed commands, and `plugins` the installed plugins."""
    text = env.run("dovetail", "--help")
    commands = {c: True for c in CORE_COMMANDS}
    commands |= {c: "dovetail-tools" in env.dists for c in ("convert", "net-run")}
    commands |= {"quantize": "dovetail-quantizers" in env.dists}
    # A command is the first word of a line; its name may also occur in a help text.
    listed = {line.split()[0] for line in text.splitlines() if line.strip()}
    for command, expected in commands.items():
        env.demand((command in listed) == expected, f"{command} in `dovetail --help`:\n{text}")
    text = env.run("dovetail", "plugins")
    for dist in PLUGIN_DISTS:
        env.demand((dist in text) == (dist in env.dists), f"{dist} in `dovetail plugins`:\n{text}")


def check_digits(env: Environment) -> None:
    """Convert the digits model and run ten held-out images, each of which must be classified right.

    onnxruntime classifies these ten right, so a wrong result is our fault.
    """
    heldout = np.load(DIGITS / "heldout.npz")
    lines = []
    for i, image in enumerate(heldout["images"][:IMAGES]):
        (image.astype("<f4") / 16).tofile(env.folder / f"image{i}.raw")
        lines.append(f"image:=image{i}.raw\n")
    (env.folder / "images.txt").write_text("".join(lines), "utf-8")
    shape = ("--input-dim", "image", "1,1,8,8")
    network = str(DIGITS / "digits.onnx")
    env.run("dovetail", "convert", "--input-network", network, *shape, "--output-path", "d.dvt")
    files = ("--input-list", "images.txt", "--output-dir", "out")
    # the names of QNN's tools: the same command
    env.run("qnn-net-run", "--model", "d.dvt", "--backend", "libQnnCpu.so", *files)
    env.run("dovetail", "net-run", "--model", "d.dvt", "--backend", "cpu", *files)
    results = [env.folder / "out" / f"Result_{i}" / "scores.raw" for i in range(IMAGES)]
    found = [int(np.fromfile(path, "<f4").argmax()) for path in results]
    labels = heldout["labels"][:IMAGES].tolist()
    env.demand(found == labels, f"digits {labels} were classified as {found}")


def check(env: Environment, wheels: dict[str, Path]) -> str:
    env.create(wheels)
    check_packages(env)
    check_commands(env)
    if UMBRELLA in env.dists:
        check_digits(env)
    return f"{env.name}: ok"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dovetail-wheels-") as name:
        # Resolved: if the temporary folder is a link, programs inside print the real path.
        base = Path(name).resolve()
        wheels = build_wheels(base / "wheels")
        print(f"{len(wheels)} wheels built", flush=True)
        envs = [
            Environment("core", base / "core", ("dovetail-core",)),
            Environment(
                "core + opset + cpu",
                base / "cpu",
                (
                    "dovetail-core",
                    "dovetail-opset",
                    "dovetail-numpy",
                    "dovetail-onednn",
                    "dovetail-cpu",
                ),
            ),
            Environment("everything", base / "everything", tuple(wheels)),
        ]
        # Half of the time to install is spent waiting for the index and the disk: run all at once.
        with ThreadPoolExecutor(len(envs)) as pool:
            for line in pool.map(lambda env: check(env, wheels), envs):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except SmokeError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
