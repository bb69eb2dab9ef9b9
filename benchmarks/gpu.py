"""Measure the backend `gpu` on a network: latency against peers, share of the peak, preparation.

    python -m benchmarks.gpu MODEL.dvt [--onnx MODEL.onnx] [--torch NAME] [--device NAME]
        [--rounds N] [--json]

Each measurement is a process of its own; they alternate, and medians are printed. Peers are the
backend `cpu`, and engines that use a GPU where they are installed: onnxruntime-gpu with `--onnx`,
and PyTorch with `--torch`, which names the network in torchvision; its weights are random. All
inputs begin and all results end in the host's memory. `prepare` is measured with an empty folder of
programs, and again in another process with a full one. The peak is that of multiplications and
additions in registers, measured by a kernel that does nothing else.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gauges import Effort, quartiles, times_ms

_PEAK = """
#if WIDTH == 1
#define V float
#else
#define JOINED(name, width) name##width
#define VECTOR(width) JOINED(float, width)
#define V VECTOR(WIDTH)
#endif
__kernel void peak(__global float *y, float a, float b) {
  V v[8];
  for (int i = 0; i < 8; i++) v[i] = (V)(get_global_id(0) + i);
  for (int k = 0; k < LOOPS; k++)
    #pragma unroll
    for (int i = 0; i < 8; i++) v[i] = v[i] * a + b;
  V sum = (V)(0.0f);
  for (int i = 0; i < 8; i++) sum += v[i];
  for (int i = 0; i < WIDTH; i++) y[get_global_id(0) * WIDTH + i] = ((float *)&sum)[i];
}
"""
_CHAINS = 8
_SECOND_S = 1.0  # the limit for a second preparation of ResNet-50


def main() -> None:
    """Measure and print."""
    options = _options()
    if options.role:
        print(json.dumps(_ROLES[options.role](options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        found = _measured(options)
    print(json.dumps(found, indent=1) if options.json else _table(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description=_first_line())
    parser.add_argument("model", type=Path, help="a model with one graph")
    parser.add_argument("--onnx", type=Path, help="the same model for the peers")
    parser.add_argument("--torch", help="the same network in torchvision, such as resnet50")
    parser.add_argument("--device", help="number or part of the name of an OpenCL device")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--role", choices=_ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="fp32", help=argparse.SUPPRESS)
    return parser.parse_args()


def _first_line() -> str:
    return (__doc__ or "").splitlines()[0]


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the roles measure, in turns."""
    first = _in_process("gpu", options)
    found: dict[str, Any] = {
        "device": first["device"],
        "work": first["work"],
        "first": {k: first[k] for k in ("prepare_ms", "compiled", "measured")},
        "peak_gflops": _in_process("peak", options)["gflops"],
    }
    samples: dict[str, list[dict[str, Any]]] = {}
    for _ in range(options.rounds):
        for name, role, precision in _turns(options):
            taken = _in_process(role, options, precision)
            samples.setdefault(name, []).append(taken)
    second = samples["gpu fp32"]
    found["second"] = {
        "prepare_ms": statistics.median(each["prepare_ms"] for each in second),
        "compiled": max(each["compiled"] for each in second),
        "measured": max(each["measured"] for each in second),
    }
    found["median_ms"] = {
        name: statistics.median(each["median_ms"] for each in taken)
        for name, taken in samples.items()
    }
    return found


def _turns(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return name, role and precision of each measurement of a round."""
    turns = [("cpu", "cpu", "fp32"), ("gpu fp32", "gpu", "fp32"), ("gpu fp16", "gpu", "fp16")]
    if options.onnx and _has_cuda():
        turns.append(("onnxruntime-gpu", "onnxruntime", "fp32"))
    if options.torch:
        turns += [("torch fp32", "torch", "fp32"), ("torch fp16", "torch", "fp16")]
    return turns


def _in_process(role: str, options: argparse.Namespace, precision: str = "fp32") -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gpu", str(options.model), "--role", role]
    command += ["--folder", str(options.folder), "--precision", precision]
    for name in ("onnx", "torch", "device"):
        if getattr(options, name) is not None:
            command += [f"--{name}", str(getattr(options, name))]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"POCL_CACHE_DIR": str(options.folder)}  # it keeps compiled kernels, too
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _on_gpu(options: argparse.Namespace) -> dict[str, Any]:
    import dovetail
    from dovetail.ops import check_ops
    from dovetail.plugins.ops import installed_ops

    (name,) = dovetail.load(options.model).graphs
    config = {
        "backend": {"gpu": {"kernel_repo_path": str(options.folder), "device": options.device}},
        "graph": [{"graph_name": name, "precision_mode": options.precision}],
    }
    session, prepare_ms = _session(options.model, "gpu", config)
    opencl = session.backend.plugin.opencl
    (graph,) = session.graphs.values()
    work = sum(view.work for view in check_ops(graph.ir, installed_ops()).nodes)
    feeds = _inputs(session)
    return {
        "device": str(opencl.device),
        "work": work,
        "prepare_ms": prepare_ms,
        "compiled": opencl.programs.compiled,
        "measured": opencl.tuning.measured,
        "median_ms": _latency(lambda: session.run(feeds)),
    }


def _on_cpu(options: argparse.Namespace) -> dict[str, Any]:
    session, prepare_ms = _session(options.model, "cpu", {})
    feeds = _inputs(session)
    return {"prepare_ms": prepare_ms, "median_ms": _latency(lambda: session.run(feeds))}


def _on_onnxruntime(options: argparse.Namespace) -> dict[str, Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(options.onnx, providers=["CUDAExecutionProvider"])
    feeds = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs()}
    return {"median_ms": _latency(lambda: session.run(None, feeds))}


def _on_torch(options: argparse.Namespace) -> dict[str, Any]:
    import torch
    from torchvision.models import get_model

    import dovetail

    torch.backends.cudnn.benchmark = True  # it chooses by measurement, as `gpu` does
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    dtype = torch.float16 if options.precision == "fp16" else torch.float32
    network = get_model(options.torch, weights=None).eval().to("cuda", dtype)
    (graph,) = dovetail.load(options.model).graphs.values()
    (image,) = graph.inputs
    array = torch.from_numpy(np.random.default_rng(0).random(image.shape, np.float32))

    def run() -> object:
        return network(array.to("cuda", dtype)).float().cpu()

    with torch.inference_mode():
        return {"median_ms": _latency(run)}


def _peak(options: argparse.Namespace) -> dict[str, Any]:
    import pyopencl as cl

    from dovetail_gpu.driver import choose_device

    device = choose_device(options.device)
    width, items, loops = (
        (device.vector_width, device.units, 1 << 20)
        if device.is_cpu
        else (1, device.units << 11, 4096)
    )
    context = cl.Context([device.handle])
    queue = cl.CommandQueue(context)
    flags = ["-cl-mad-enable", f"-DWIDTH={width}", f"-DLOOPS={loops}"]
    kernel = cl.Program(context, _PEAK).build(flags).peak
    result = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, items * width * 4)
    kernel.set_args(result, np.float32(0.5), np.float32(1))
    group = (1,) if device.is_cpu else (256,)

    def run() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, (items,), group)
        queue.finish()

    run()
    flops = 2 * width * items * _CHAINS * loops
    return {"gflops": flops / min(times_ms(run, Effort(0.2, 20, 2.0))) / 1e6}


def _session(model: Path, backend: str, config: Mapping[str, Any]) -> tuple[Any, float]:
    import dovetail

    start = time.perf_counter()
    session = dovetail.Session(model, backend=backend, config=config)
    return session, (time.perf_counter() - start) * 1e3


def _inputs(session: Any) -> dict[str, Any]:
    (graph,) = session.graphs.values()
    random = np.random.default_rng(0)
    return {t.name: random.random(t.shape, np.float32) for t in graph.inputs}


def _latency(run: Callable[[], object]) -> float:
    return quartiles(times_ms(run, Effort()))[1]


def _has_cuda() -> bool:
    if importlib.util.find_spec("onnxruntime") is None:
        return False
    import onnxruntime

    return "CUDAExecutionProvider" in onnxruntime.get_available_providers()


def _table(found: Mapping[str, Any]) -> str:
    times, peak = found["median_ms"], found["peak_gflops"]
    lines = [f"device    {found['device']}", f"peak      {peak:.0f} GFLOP/s"]
    for name, median in times.items():
        rate = 2 * found["work"] / median / 1e6
        share = f"{rate / peak:6.1%} of the peak" if name.startswith("gpu") else ""
        ratio = f"{median / times['gpu fp32']:5.2f} times gpu fp32"
        lines.append(f"{name:16} {median:9.3f} ms  {ratio}  {rate:6.0f} GFLOP/s  {share}")
    for turn in ("first", "second"):
        facts = found[turn]
        lines.append(
            f"{turn} preparation: {facts['prepare_ms'] / 1e3:.2f} s, {facts['compiled']} programs "
            f"compiled, {facts['measured']} choices measured"
        )
    lines.append(f"limit of a second preparation of ResNet-50: {_SECOND_S:.0f} s")
    return "\n".join(lines)


_ROLES: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "gpu": _on_gpu,
    "cpu": _on_cpu,
    "onnxruntime": _on_onnxruntime,
    "torch": _on_torch,
    "peak": _peak,
}


if __name__ == "__main__":
    main()
