"""Task that converts a model and has ONNX Runtime load and optimize it, in turns."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

OURS, PEER = "dovetail", "onnxruntime"


def measure(*, model: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return wall time and user time of the processor in ms of each round, by name.

    The first round, which loads libraries and plugins, is not counted.
    """
    import onnxruntime

    import dovetail

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    tasks: dict[str, Callable[[], object]] = {
        OURS: lambda: dovetail.convert(model),
        PEER: lambda: onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        ),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
    for turn in range(rounds + 1):
        for name, task in tasks.items():
            start, user = time.perf_counter(), _user_s()
            result = task()
            taken = (time.perf_counter() - start) * 1e3, (_user_s() - user) * 1e3
            del result
            if turn:
                found[name].append(taken)
    return found


def _user_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
