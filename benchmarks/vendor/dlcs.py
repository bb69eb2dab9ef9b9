"""DLC files of the vendor's library, read and run on our backends; runs in a process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import dovetail
from benchmarks.engines import Array
from benchmarks.quantization.rounds import sqnr_db
from dovetail_qnn import QnnCppOptions
from dovetail_qnn.dlc import DlcExporter, DlcFrontend


def compare_dlc(*, folder: str, path: str, kind: str, backend: str) -> dict[str, Any]:
    """Run a DLC, and the network of ours that the vendor converted to it.

    Args:
        folder: Of the files that `prepare` wrote.
        path: The DLC.
        kind: `quantized` or `float`, the network.
        backend: Ours.

    Returns:
        Number of nodes, size, time of reading, whether an exported file is the same again, the
        share of equal elements of the outputs, and their SQNR, the network's being the signal.
    """
    source, file = Path(folder), Path(path)
    start = time.perf_counter()
    (graph,) = DlcFrontend().read(file)
    read_ms = (time.perf_counter() - start) * 1e3
    exported = [file.with_name(name) for name in ("first.exported", "second.exported")]
    DlcExporter().export(graph, exported[0], QnnCppOptions())
    (again,) = DlcFrontend().read(exported[0])
    DlcExporter().export(again, exported[1], QnnCppOptions())
    with np.load(source / "images.npz") as arrays:
        (images,) = arrays.values()
    theirs = _run(str(file), images, backend)
    ours = _run(str(source / f"{kind}.dvt"), images, backend)
    return {
        "nodes": len(graph.nodes),
        "mb": file.stat().st_size / 1e6,
        "read_ms": read_ms,
        "is_exact": exported[0].read_bytes() == exported[1].read_bytes(),
        "equal": float((ours == theirs).mean()),
        "sqnr_db": min(sqnr_db([(ours, theirs)]), 200.0),  # equal outputs have no noise
    }


def _run(model: str, images: Array, backend: str) -> Array:
    """Return all outputs of all images, each flat, since layouts of interfaces are the model's."""
    with dovetail.Session(model, backend=backend) as session:
        return np.stack(
            [
                np.concatenate([values.reshape(-1) for values in session.run(image).values()])
                for image in images
            ]
        )
