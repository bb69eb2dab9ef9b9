"""The engines that are compared, with one interface.

Each process uses one of them, since two thread pools in one process slow each other.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Outputs = dict[str, Array]


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Write arrays to an `.npz` file of exactly this name."""
    with Path(path).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


class Engine(Protocol):
    """A model, loaded and ready.

    Attributes:
        package: The engine's import name.
    """

    package: ClassVar[str]

    def __init__(self, path: str, threads: int) -> None: ...

    @property
    def version(self) -> str:
        """The engine's version, and that of the library that computes."""

    @property
    def precision(self) -> str:
        """The type in which it computes."""

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Run once, with the call that users write."""


def our_config(threads: int, **options: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the config of a session on the backend `cpu` with a number of threads."""
    return {"backend": {"cpu": {"num_threads": threads, **options}}}


class Dovetail:
    """Dovetail on the backend `cpu`."""

    package: ClassVar[str] = "dovetail"
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, path: str, threads: int) -> None:
        self._module = importlib.import_module(self.package)
        self._session = self._module.Session(path, config=our_config(threads, **self.options))

    @property
    def version(self) -> str:
        """Dovetail's version, and that of the engine."""
        return f"{self._module.__version__}, {self._session.backend.plugin.platform().notes[0]}"

    @property
    def precision(self) -> str:
        """The types of the graph's float tensors, in which the kernels compute."""
        (graph,) = self._session.graphs.values()
        names = {t.dtype.name for t in graph.ir.tensors.values() if "INT" not in t.dtype.name}
        return " ".join(sorted(names)).lower().replace("_", "")

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Run once."""
        found: Outputs = self._session.run(inputs)
        return found


class DovetailNumpy(Dovetail):
    """Dovetail on NumPy's kernels alone, as on platforms without oneDNN."""

    options: ClassVar[Mapping[str, str]] = {"engine": "numpy"}

    @property
    def version(self) -> str:
        """Dovetail's version and NumPy's."""
        return f"{self._module.__version__}, engine numpy {np.__version__}"


class DovetailBfloat16(Dovetail):
    """Dovetail, which may round the factors of products if the processor supports bfloat16."""

    options: ClassVar[Mapping[str, str]] = {"precision": "bf16"}

    @property
    def precision(self) -> str:
        """The session's option; other values, such as sums, are float32."""
        return {"bf16": "bfloat16"}[self._session.backend.options.precision.value]


class OnnxRuntime:
    """ONNX Runtime's CPU provider with its default optimizations."""

    package: ClassVar[str] = "onnxruntime"

    def __init__(self, path: str, threads: int) -> None:
        self._module = importlib.import_module(self.package)
        options = self._module.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # the light networks have unused initializers
        providers = ["CPUExecutionProvider"]
        self._session = self._module.InferenceSession(path, options, providers=providers)
        self._names = [output.name for output in self._session.get_outputs()]

    @property
    def version(self) -> str:
        """Its version."""
        return str(self._module.__version__)

    @property
    def precision(self) -> str:
        """The types of its inputs and outputs; it computes in the model's types."""
        ends = [*self._session.get_inputs(), *self._session.get_outputs()]
        names = {end.type.removeprefix("tensor(").removesuffix(")") for end in ends}
        return " ".join(sorted(names)).replace("float", "float32")

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Run once."""
        return dict(zip(self._names, self._session.run(None, dict(inputs)), strict=True))


class OpenVino:
    """OpenVINO's CPU plugin, with hints for low latency and for the type."""

    package: ClassVar[str] = "openvino"
    hint: ClassVar[str] = "f32"

    def __init__(self, path: str, threads: int) -> None:
        self._module = importlib.import_module(self.package)
        core = self._module.Core()
        settings = {
            "INFERENCE_PRECISION_HINT": self.hint,
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
        }
        self._compiled = core.compile_model(core.read_model(path), "CPU", settings)

    @property
    def version(self) -> str:
        """Its version, without the build."""
        return str(self._module.get_version()).split("-")[0]

    @property
    def precision(self) -> str:
        """The type in its hint, if its steps use that type."""
        hint = str(self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string())
        steps = self._compiled.get_runtime_model().get_ops()
        used = {str(step.get_rt_info()["runtimePrecision"].value) for step in steps}
        lower = used & {"bf16", "f16"}
        if hint == "f32" and lower:
            return f"the hint is f32, but {' '.join(sorted(lower))} used"
        return {"f32": "float32", "bf16": "bfloat16"}.get(hint, hint)

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Run once; the inputs are not copied."""
        found = self._compiled(dict(inputs))
        return {port.get_any_name(): np.asarray(found[port]) for port in self._compiled.outputs}


class OpenVinoBfloat16(OpenVino):
    """OpenVINO in bfloat16, its default where the processor supports it."""

    hint: ClassVar[str] = "bf16"


ENGINES: Mapping[str, type[Engine]] = {
    "dovetail": Dovetail,
    "dovetail-bf16": DovetailBfloat16,
    "dovetail-numpy": DovetailNumpy,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "openvino-bf16": OpenVinoBfloat16,
}
# The type in which each must compute.
PRECISIONS = {name: "bfloat16" if name.endswith("bf16") else "float32" for name in ENGINES}


def compared() -> list[str]:
    """Return the engines that are measured by default: those that can compute on this processor."""
    supported = {"float32"}
    if importlib.import_module("dovetail_onednn._library").library().has_bfloat16:
        supported.add("bfloat16")
    return [n for n in ENGINES if n != "dovetail-numpy" and PRECISIONS[n] in supported]


def run_once(*, engine: str, model: str, inputs: str, output: str) -> None:
    """Run a network once and write the outputs."""
    write_arrays(output, ENGINES[engine](model, 1).run(dict(np.load(inputs))))
