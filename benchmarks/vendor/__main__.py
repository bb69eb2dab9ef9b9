"""Compare our integer definitions with the vendor's HTP simulator, and our speed with its own.

    make vendor-test
    python -m benchmarks.vendor --python PATH --networks digits,unet

The simulator is part of the package `onnxruntime-qnn`, which only this comparison uses, in an
environment of its own. Exit status: 0 if all targets are met, 1 if not, 77 if the simulator cannot
run here, so that nothing was compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import tables
from benchmarks.__main__ import count, names, tell
from benchmarks.machine import machine
from benchmarks.process import ROOT, TIMEOUT_S, ProcessFailedError, ask
from benchmarks.quantization.rounds import sqnr_db
from benchmarks.vendor import dlc_summary, summary, trace_summary
from benchmarks.vendor.dlc_summary import DlcResult
from benchmarks.vendor.subjects import SUBJECTS
from benchmarks.vendor.summary import NetworkResult, NodeResult
from benchmarks.vendor.trace_summary import TraceResult

SIMULATOR = Path(__file__).with_name("simulator.py")
SKIPPED = 77


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print and return the exit status."""
    options = _options(arguments)
    versions, why = probe(options.python)
    if why:
        print(f"SKIPPED, nothing was compared: {why}")
        return SKIPPED
    nodes: dict[str, list[NodeResult]] = {}
    networks: dict[str, NetworkResult] = {}
    traces: dict[str, TraceResult] = {}
    traced: dict[str, list[NodeResult]] = {}
    dlcs: dict[str, DlcResult] = {}
    faults: list[str] = []
    for name in options.networks:
        tell(name)
        try:
            with tempfile.TemporaryDirectory() as folder:
                run = _Run(name, Path(folder), options)
                nodes[name] = run.nodes()
                networks[name] = run.network()
                traced[name] = run.traced_nodes()
                traces[name] = run.trace()
                dlcs[name] = run.dlc()
        except ProcessFailedError as error:
            faults.append(f"{name}: {error}")
    unit = 1 << (options.act_bitwidth - 8)
    rows = summary.op_rows(nodes)
    wanted = summary.targets(rows, networks, sum(map(bool, nodes.values())), unit)
    traced_rows = summary.op_rows(traced)
    wanted += trace_summary.targets(traced_rows, traces, unit)
    wanted += dlc_summary.targets(dlcs)
    faults += summary.gaps(nodes)
    about = {**machine(), **versions, "backend": options.backend}
    about["bits of activations"] = str(options.act_bitwidth)
    blocks = ["\n".join(f"{key}: {value}" for key, value in about.items())]
    blocks += [
        summary.op_table(rows, unit),
        summary.network_table(networks),
        "programs of the vendor's Saver\n" + trace_summary.trace_table(traces),
        "DLC files of the vendor's library\n" + dlc_summary.dlc_table(dlcs),
        f"their nodes: {trace_summary.hidden(traced)}\n{summary.op_table(traced_rows, unit)}",
        tables.targets(wanted),
    ]
    blocks += ["\n".join(f"FAULT: {fault}" for fault in faults)] if faults else []
    print("\n\n".join(blocks))
    return 0 if not faults and all(target.is_met for target in wanted) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.vendor", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=ROOT / ".venv-vendor" / "bin" / "python",
        help="interpreter of the environment with onnxruntime-qnn",
    )
    parser.add_argument("--networks", type=names(SUBJECTS), default=list(SUBJECTS), metavar="A,B")
    parser.add_argument("--backend", default="htp", help="ours for whole runs (default: htp)")
    parser.add_argument("--act-bitwidth", type=int, choices=(8, 16), default=8)
    parser.add_argument("--threads", type=count, default=2, help="our threads")
    options = parser.parse_args(arguments)
    options.python = options.python.absolute()  # a link that its environment is found by
    return options


def probe(python: Path) -> tuple[dict[str, str], str]:
    """Return the versions of the simulator's packages, and why it cannot run; empty if it can."""
    if not python.exists():
        return {}, f"{python} does not exist; `make vendor-test` creates it"
    done = subprocess.run(
        [python, SIMULATOR, "--probe"], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return {}, f"onnxruntime-qnn cannot run with {python}: {last}"
    return json.loads(done.stdout.splitlines()[-1]), ""


class _Run:
    """The files and results of one network."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        self.name, self.folder, self.options = name, folder, options
        self._ask("prepare", network=name, act_bitwidth=options.act_bitwidth)

    def nodes(self) -> list[NodeResult]:
        """Compare each node; empty for a network of which only whole runs are compared."""
        if not SUBJECTS[self.name].nodes:
            return []
        ran = self._simulate("exposed.onnx", "few.npz", "inner.npz")
        outputs = str(self.folder / "inner.npz")
        return _nodes(self._ask("compare_nodes", outputs=outputs, names=ran["names"]))

    def traced_nodes(self) -> list[NodeResult]:
        """Compare each node of the vendor's program; empty as `nodes`."""
        if not SUBJECTS[self.name].nodes:
            return []
        ran = self._simulate("exposed.onnx", "few.npz", "recorded.npz", record="exposed")
        program = self._program("exposed")
        given = {"folder": program, "backend": "cpu", "outputs": str(self.folder / "x.npz")}
        ask("vendor.traces:replay_program", given, threads=self.options.threads)
        outputs = str(self.folder / "inner.npz")
        asked = {"trace": f"{program}/cpu", "outputs": outputs, "names": ran["names"]}
        return _nodes(ask("vendor.traces:compare_nodes", asked, threads=self.options.threads))

    def trace(self) -> TraceResult:
        """Record the network without additional outputs, and replay it on our backends."""
        ran = self._simulate("plain.onnx", "images.npz", "recorded.npz", record="plain")
        program = self._program("plain")
        exact, theirs = self._arrays("exact.npz"), self._arrays("theirs.npz")
        far = {name: theirs[str(i)] for i, name in enumerate(ran["names"])}
        found: dict[str, Any] = {}
        near: dict[str, dict[str, np.ndarray]] = {}
        for backend in ("htp", "cpu"):
            given = {"folder": program, "backend": backend}
            given["outputs"] = str(self.folder / f"replayed_{backend}.npz")
            found[backend] = ask(
                "vendor.traces:replay_program", given, threads=self.options.threads
            )
            if rejected := found[backend]["rejected"]:
                raise ProcessFailedError(f"replay on {backend}: {rejected[0]}")
            near[backend] = self._arrays(f"replayed_{backend}.npz")

        def against_exact(outputs: Mapping[str, np.ndarray]) -> float:
            return sqnr_db([(exact[n], outputs[n]) for n in exact])

        about = found["htp"]
        return TraceResult(
            calls=about["calls"],
            nodes=about["nodes"],
            left_out=about["left_out"],
            c_mb=about["c_mb"],
            params_mb=about["params_mb"],
            import_ms=about["import_ms"],
            is_exact=all(each["is_exact"] for each in found.values()),
            executions=next(len(values) for values in near["htp"].values()),
            htp_db=against_exact(near["htp"]),
            cpu_db=against_exact(near["cpu"]),
            theirs_db=against_exact(far),
        )

    def dlc(self) -> DlcResult:
        """Compare the vendor's DLCs of the quantized and of the float network with ours."""
        found: dict[tuple[str, str], Any] = {}
        for kind, model, backends in (
            ("quantized", "plain.onnx", ("htp", "cpu")),
            ("float", "float.onnx", ("cpu",)),
        ):
            folder = self.folder / f"dlc_{kind}"
            folder.mkdir()
            asked = {"model": str(self.folder / model), "folder": str(folder)}
            path = self._request(model, asked, folder)["path"]
            for backend in backends:
                given = {"folder": str(self.folder), "path": path, "kind": kind}
                found[kind, backend] = ask(
                    "vendor.dlcs:compare_dlc",
                    {**given, "backend": backend},
                    threads=self.options.threads,
                )
        quantized = found["quantized", "htp"]
        return DlcResult(
            nodes=quantized["nodes"],
            mb=quantized["mb"],
            read_ms=quantized["read_ms"],
            is_exact=all(each["is_exact"] for each in found.values()),
            htp_equal=quantized["equal"],
            cpu_equal=found["quantized", "cpu"]["equal"],
            float_db=found["float", "cpu"]["sqnr_db"],
        )

    def _program(self, record: str) -> str:
        return str(self.folder / record / "saver_output")

    def network(self) -> NetworkResult:
        """Compare whole runs."""
        theirs = self._simulate("plain.onnx", "images.npz", "theirs.npz")
        ours = self._run_ours("quantized.dvt", self.options.backend, "ours.npz")
        self._run_ours("float.dvt", "cpu", "exact.npz")
        exact, near, far = (self._arrays(f"{n}.npz") for n in ("exact", "ours", "theirs"))
        far = {name: far[str(i)] for i, name in enumerate(theirs["names"])}
        tops = {k: next(iter(a.values())) for k, a in (("ours", near), ("theirs", far))}
        best = {k: a.reshape(len(a), -1).argmax(axis=1) for k, a in tops.items()}
        labels = self._arrays("labels.npz").get("labels") if self._has("labels.npz") else None
        return NetworkResult(
            ours_db=sqnr_db([(exact[n], near[n]) for n in exact]),
            theirs_db=sqnr_db([(exact[n], far[n]) for n in exact]),
            ours_right=None if labels is None else int((best["ours"] == labels).sum()),
            theirs_right=None if labels is None else int((best["theirs"] == labels).sum()),
            same_top=int((best["ours"] == best["theirs"]).sum()),
            images=len(best["ours"]),
            ours_ms=ours["run_ms"],
            theirs_ms=theirs["run_ms"],
        )

    def _run_ours(self, model: str, backend: str, outputs: str) -> Any:
        asked = {"model": model, "images": "images.npz", "outputs": outputs}
        paths = {key: str(self.folder / name) for key, name in asked.items()}
        threads = self.options.threads
        given = {**paths, "backend": backend, "threads": threads}
        return ask("vendor.ours:run_all", given, threads=threads)

    def _ask(self, task: str, **asked: Any) -> Any:
        given = {"folder": str(self.folder), **asked}
        return ask(f"vendor.ours:{task}", given, threads=self.options.threads)

    def _simulate(self, model: str, inputs: str, outputs: str, record: str = "") -> Any:
        """Run a model on the simulator, in a scratch folder, since libraries may write files.

        Args:
            model, inputs, outputs: Names of files.
            record: The folder for the program that the vendor's Saver writes instead of running.
        """
        files = {"model": model, "inputs": inputs, "outputs": outputs}
        asked = {key: str(self.folder / name) for key, name in files.items()}
        (self.folder / record).mkdir(exist_ok=True)
        return self._request(model, {**asked, "record": bool(record)}, self.folder / record)

    def _request(self, model: str, asked: Mapping[str, Any], folder: Path) -> Any:
        """Ask the simulator's script, which runs in a folder."""
        request = self.folder / "request.json"
        request.write_text(json.dumps(asked), encoding="utf-8")
        try:
            done = subprocess.run(
                [self.options.python, SIMULATOR, request],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ProcessFailedError(f"{model}: not finished after {TIMEOUT_S} s") from error
        if done.returncode != 0:
            what = f"the simulator failed on {model}, exit status {done.returncode}"
            raise ProcessFailedError(f"{what}\n{done.stderr.strip()}")
        return json.loads(done.stdout.splitlines()[-1])

    def _arrays(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self.folder / name) as arrays:
            return dict(arrays)

    def _has(self, name: str) -> bool:
        return (self.folder / name).exists()


def _nodes(found: list[dict[str, Any]]) -> list[NodeResult]:
    return [
        NodeResult(**{**e, "types": tuple(e["types"]), "counts": tuple(e["counts"])}) for e in found
    ]


if __name__ == "__main__":
    sys.exit(main())
