"""Run an ONNX file on the vendor's HTP simulator: a script for the vendor's own environment.

    python simulator.py request.json
    python simulator.py --probe         prints versions; fails if the simulator is not installed

It imports nothing of ours: the environment has `onnxruntime-qnn`, ONNX Runtime and NumPy only. The
last line of its output is the result in JSON. Nothing may run on another provider: a network with
an operator that the vendor does not support fails.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import onnxruntime_qnn

PROVIDER = "QNNExecutionProvider"


def find_devices() -> tuple[Path, list[Any]]:
    """Register the vendor's provider; return its library and its devices, of which one is enough.

    Raises:
        RuntimeError: The provider cannot run on this machine.
    """
    library = Path(onnxruntime_qnn.get_library_path())
    onnxruntime.register_execution_provider_library(PROVIDER, str(library))
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]
    if not devices:
        raise RuntimeError(f"{PROVIDER} has no device on this machine")
    return library, devices[:1]


def open_session(model: str, *, record: bool = False, dump: str = "") -> Any:
    """Return a session on the simulator alone.

    Args:
        model: An ONNX file.
        record: Whether the vendor's Saver takes the simulator's part: it computes nothing and
            writes its program into `saver_output` in the working directory.
        dump: A folder for the model's DLC; empty for none.
    """
    library, devices = find_devices()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    backend = {"backend_path": str(library.with_name("libQnnHtp.so"))}
    if record:
        backend["qnn_saver_path"] = str(library.with_name("libQnnSaver.so"))
    if dump:
        writer = str(library.with_name("libQnnIr.so"))
        backend |= {"dump_qnn_ir_dlc": "1", "dump_qnn_ir_dlc_dir": dump}
        backend |= {"qnn_ir_backend_path": writer}
    options.add_provider_for_devices(devices, backend)
    return onnxruntime.InferenceSession(model, options)


def run(model: str, inputs: str, outputs: str, *, record: bool = False) -> dict[str, object]:
    """Run all samples, and write all outputs, stacked.

    Args:
        model: An ONNX file.
        inputs: Samples by input name, `.npz`, each with an additional first axis.
        outputs: The file to write, `.npz`; outputs are named by their number.
        record: As for `open_session`; then outputs have no meaning.

    Returns:
        Names of the outputs, the median time of a run and the time to prepare.
    """
    with np.load(inputs) as arrays:
        samples = dict(arrays)
    start = time.perf_counter()
    session = open_session(model, record=record)
    prepared = time.perf_counter()
    found, times = [], []
    for i in range(len(next(iter(samples.values())))):
        given = {name: values[i] for name, values in samples.items()}
        begun = time.perf_counter()
        found.append(session.run(None, given))
        times.append(time.perf_counter() - begun)
    stacked = {str(i): np.stack(each) for i, each in enumerate(zip(*found, strict=True))}
    np.savez(outputs, allow_pickle=False, **stacked)
    return {
        "names": [output.name for output in session.get_outputs()],
        "run_ms": median(times) * 1e3,
        "prepare_ms": (prepared - start) * 1e3,
    }


def dump_dlc(model: str, folder: str) -> dict[str, object]:
    """Write a model's DLC, without running it; return its path.

    Raises:
        RuntimeError: There is not exactly one DLC: the model has several parts, or none.
    """
    open_session(model, dump=folder)
    files = sorted(str(path) for path in Path(folder).glob("*.dlc"))
    if len(files) != 1:
        raise RuntimeError(f"{len(files)} DLC files of {model}")
    return {"path": files[0]}


if __name__ == "__main__":
    if sys.argv[1:] == ["--probe"]:
        find_devices()
        found = {name: version(name) for name in ("onnxruntime-qnn", "onnxruntime")}
        print(json.dumps(found), flush=True)
        sys.exit()
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    task = dump_dlc if "folder" in request else run
    print(json.dumps(task(**request)), flush=True)
