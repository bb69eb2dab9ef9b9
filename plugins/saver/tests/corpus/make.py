"""Write traces for the corpus, in the format of this version.

    python plugins/saver/tests/corpus/make.py

writes a folder named after the version, `1.0`, which must not exist: traces of older versions are
never written again.
"""

from __future__ import annotations

from contextlib import chdir, suppress
from pathlib import Path
from shutil import copytree

import msgspec
import numpy as np

import dovetail as dt
from dovetail.errors import DovetailError
from dovetail.ir import (
    AxisScaleOffset,
    Blob,
    Block,
    BlockwiseExpansion,
    DType,
    Scalar,
    ScaleOffset,
    Tensor,
    TensorKind,
)
from dovetail.runtime import API, Backend, Context, Graph
from dovetail.runtime.api_table import REQUIRED
from dovetail_saver.trace.header import MINOR, VERSION

FOLDER = Path(__file__).parent
INPUT = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def relu(context: Context, name: str) -> Graph:
    """Return a finalized graph of one Relu."""
    graph = context.create_graph(name)
    x = graph.create_tensor("x", DType.FLOAT_32, (2, 3), TensorKind.APP_WRITE)
    y = graph.create_tensor("y", DType.FLOAT_32, (2, 3), TensorKind.APP_READ)
    graph.add_node("relu", "qti.aisw", "Relu", [x], [y])
    graph.finalize()
    return graph


def executions() -> None:
    """Make calls of several contexts: sync and async, in arrays and in memory, right and wrong."""
    with Backend.create("cpu") as backend:
        first, second = backend.create_context(), backend.create_context()
        one, other = relu(first, "one"), relu(second, "other")
        one.execute({"x": INPUT})
        other.execute_async({"x": -INPUT}, {"y": np.zeros((2, 3), np.float32)}).wait()
        given, taken = INPUT.copy(), np.zeros((2, 3), np.float32)
        x = second.register_memory(given, DType.FLOAT_32)
        y = second.register_memory(taken, DType.FLOAT_32)
        for i in range(3):
            given[...] = INPUT * i
            other.execute({"x": x}, {"y": y})
        x.deregister()
        for wrong in (
            lambda: one.execute({"z": INPUT}),
            lambda: one.execute({"x": INPUT.astype(np.float64).tolist()}),
            lambda: other.execute({"x": x}),
            lambda: first.create_graph("one"),
            lambda: first.retrieve_graph("two"),
        ):
            with suppress(DovetailError):
                wrong()
        first.free()
        with suppress(DovetailError):
            one.execute({"x": INPUT})


def graphs(folder: str) -> None:
    """Compose graphs of everything that a tensor or node can have, on the Saver."""
    with Backend.create("saver", {"output": folder}) as backend:
        context = backend.create_context(config={"context_priority": "high"})
        graph = context.create_graph("net", {"graph_priority": "low"})
        kinds, fixed = TensorKind, DType.SFIXED_POINT_8
        x = graph.create_tensor(
            "x",
            DType.UFIXED_POINT_8,
            (1, 8, 8, 4),
            kinds.APP_WRITE,
            ScaleOffset(0.5, -128),
            source="image",
            source_perm=(0, 3, 1, 2),
            dynamic=(False, True, True, False),
        )
        weights = np.arange(3 * 3 * 4 * 2, dtype=np.int8).reshape(3, 3, 4, 2)
        data = Blob(weights)
        scales = np.array([0.5, 0.25], np.float32)
        per_axis = AxisScaleOffset(3, scales, np.zeros(2, np.int32))
        w = graph.create_tensor("w", fixed, weights.shape, kinds.STATIC, per_axis, data)
        blocks = Block((1, 1, 2, 1), np.full((3, 3, 2, 2), 0.25, np.float32))
        graph.create_tensor("b", fixed, weights.shape, kinds.STATIC, blocks, data)
        refined = BlockwiseExpansion(3, scales, np.ones((2, 9), np.uint8))
        graph.create_tensor("e", fixed, weights.shape, kinds.STATIC, refined, data)
        y = graph.create_tensor(
            "y", DType.UFIXED_POINT_8, (1, 8, 8, 2), kinds.APP_READ, ScaleOffset(1.0, 0)
        )
        params = {
            "stride": Tensor(
                "stride", DType.UINT_32, (2,), kinds.STATIC, data=Blob(np.array([1, 1], np.uint32))
            ),
            "note": Scalar(DType.STRING, "not installed"),
            "gain": Scalar(DType.FLOAT_32, 1.5),
        }
        graph.add_node("conv", "not.installed", "Conv", [x, w, None], [y], params)
        graph.finalize()
        graph.execute({"x": np.zeros((1, 8, 8, 4), np.uint8)})


def without_defaults(trace: str, folder: str) -> None:
    """Write a trace like one from before the arguments that have defaults were added."""
    copytree(trace, folder)
    lines = []
    for line in Path(trace, "calls.jsonl").read_bytes().splitlines():
        data = msgspec.json.decode(line)
        if data["record"] == "call":
            args, given = API[data["function"]].args, data["arguments"]
            for name, value in args.items():
                usual = (None, [], *([value.default] if isinstance(value.default, int) else []))
                is_optional = value.nullable or value.default is not REQUIRED
                if is_optional and given.get(name) in usual:
                    given.pop(name, None)
        lines.append(msgspec.json.encode(data) + b"\n")
    Path(folder, "calls.jsonl").write_bytes(b"".join(lines))


def main() -> None:
    folder = FOLDER / f"{VERSION}.{MINOR}"
    folder.mkdir()
    with chdir(folder):  # a trace has the Saver's options, and so its folder
        for policy in ("all", "outputs-hash"):
            with dt.record(f"executions-{policy}", payloads=policy):
                executions()
        graphs("graphs")
        without_defaults("executions-all", "executions-without-defaults")


if __name__ == "__main__":
    main()
