"""Print the time and the peak memory of converting a model with 3 GB of external data.

    python -m benchmarks.large_model [--layers N] [--width N]

The weights are zeros, sparse on disk. Peak memory includes pages of mapped files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Converts a model, saves it if there is a second path, and prints the peak memory in KiB. That of
# `getrusage` would include the process that started this one.
_PROCESS = """
import sys
import dovetail as dt
model = dt.convert(sys.argv[1])
if len(sys.argv) > 2:
    model.save(sys.argv[2])
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=8192)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = write_large(Path(folder), options.layers, options.width)
        largest = options.width**2 * 4 / 1e6
        print(f"weights    {options.layers * largest:8.0f} MB, the largest {largest:.0f} MB")
        for what, target in (("convert", None), ("and save", Path(folder) / "large.dvt")):
            start = time.perf_counter()
            peak = peak_bytes(source, target)
            taken = time.perf_counter() - start
            print(f"{what:10} {peak / 1e6:8.0f} MB at most, {taken:.1f} s")


def peak_bytes(source: Path, target: Path | None = None) -> int:
    """Return the peak memory of a process that converts a model, and saves it if asked; Linux."""
    paths = [str(path) for path in (source, target) if path is not None]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROCESS, *paths],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(done.stdout) * 1024


def write_large(folder: Path, layers: int, width: int) -> Path:
    """Write an ONNX model of square products with weights of zeros, and return its path.

    Args:
        folder: The folder of the model and its data.
        layers: Number of products.
        width: Rows and columns of each weight, float32.
    """
    # imported here: it is not needed to measure
    import onnx
    from onnx import TensorProto, helper

    nbytes = width * width * 4
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(nbytes * layers)
    nodes, weights = [], []
    for i in range(layers):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[width, width])
        weight.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("offset", i * nbytes), ("length", nbytes)):
            entry = weight.external_data.add()
            entry.key, entry.value = key, str(value)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"product{i}"))
    ends = [helper.make_tensor_value_info(f"x{i}", 1, [1, width]) for i in (0, layers)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path = folder / "large.onnx"
    onnx.save(model, path)
    return path


if __name__ == "__main__":
    main()
