"""The engines that are compared, with one interface.

Each process uses one of them, since two thread pools in one process slow each other.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.machine import has_exact_products

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
        model: The model that it loads, see `model_files.Files`.
    """

    package: ClassVar[str]
    model: ClassVar[str]

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
    model: ClassVar[str] = "dvt"
    backend: ClassVar[str] = "cpu"
    options: ClassVar[Mapping[str, str]] = {}

    def __init__(self, path: str, threads: int) -> None:
        self._module = importlib.import_module(self.package)
        config = {"backend": self._options(threads)}
        self._session = self._module.Session(path, backend=self.backend, config=config)

    def _options(self, threads: int) -> dict[str, dict[str, int | str]]:
        """Return the options of each backend."""
        members = self.backend.rpartition(":")[2].split(",")
        return {name: {"num_threads": threads, **self.options} for name in members}

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


class DovetailGpu(Dovetail):
    """Dovetail on the first OpenCL device, whose driver chooses the number of threads."""

    backend: ClassVar[str] = "gpu"

    def _options(self, threads: int) -> dict[str, dict[str, int | str]]:
        return {}


class DovetailInt8(Dovetail):
    """Dovetail on a network that its quantizer quantized, on the backend `cpu`."""

    model: ClassVar[str] = "int8"

    @property
    def precision(self) -> str:
        """The width of most intermediate tensors."""
        (graph,) = self._session.graphs.values()
        written = [t.dtype for node in graph.ir.nodes for t in node.outputs]
        (most, _), *_ = Counter(t.bits if t.is_fixed_point else 0 for t in written).most_common()
        return f"int{most}" if most else "float32"


class HtpInt8(DovetailInt8):
    """The same on the backend `htp`; `cpu` runs the nodes that it does not take."""

    backend: ClassVar[str] = "hetero:htp,cpu"

    @property
    def version(self) -> str:
        """Dovetail's version, and how much of the network runs on `htp`."""
        (graph,) = self._session.graphs.values()
        share, *_ = graph.placement.shares
        of_all = f"{share.nodes} of {len(graph.ir.nodes)} nodes of {graph.ir.name}"
        return f"{self._module.__version__}, {of_all} on htp"


class HtpInt16(HtpInt8):
    """The same with 16-bit activations."""

    model: ClassVar[str] = "int16"


class OnnxRuntime:
    """ONNX Runtime's CPU provider with its default optimizations."""

    package: ClassVar[str] = "onnxruntime"
    model: ClassVar[str] = "onnx"
    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, path: str, threads: int) -> None:
        self._module = importlib.import_module(self.package)
        options = self._module.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3  # the light networks have unused initializers
        for key, value in self.settings.items():
            options.add_session_config_entry(key, value)
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


class OnnxRuntimeInt8(OnnxRuntime):
    """ONNX Runtime on a network that its own quantizer quantized.

    Without VNNI its default kernels saturate, and their results are wrong; the setting chooses the
    exact ones.
    """

    model: ClassVar[str] = "qdq"
    settings: ClassVar[Mapping[str, str]] = (
        {} if has_exact_products() else {"session.x64quantprecision": "1"}
    )

    @property
    def version(self) -> str:
        """Its version, and its settings."""
        return ", ".join([super().version, *(f"{k}={v}" for k, v in self.settings.items())])

    @property
    def precision(self) -> str:
        """The model's type; what it fuses is up to it."""
        return "int8"


class DovetailDynamic(Dovetail):
    """Dovetail on a network whose activations are quantized in each run."""

    model: ClassVar[str] = "dynamic_dvt"

    @property
    def precision(self) -> str:
        """The type of the weights; which products are those of bytes is up to the engine."""
        return "int8"


class OnnxRuntimeDynamic(OnnxRuntimeInt8):
    """ONNX Runtime on the same network, which its own tools quantized."""

    model: ClassVar[str] = "dynamic"


class OpenVino:
    """OpenVINO's CPU plugin, with hints for low latency and for the type."""

    package: ClassVar[str] = "openvino"
    model: ClassVar[str] = "onnx"
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
        lower = self._used() & {"bf16", "f16"}
        if hint == "f32" and lower:
            return f"the hint is f32, but {' '.join(sorted(lower))} used"
        return {"f32": "float32", "bf16": "bfloat16"}.get(hint, hint)

    def _used(self) -> set[str]:
        """Return the types of its steps."""
        steps = self._compiled.get_runtime_model().get_ops()
        return {str(step.get_rt_info()["runtimePrecision"].value) for step in steps}

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Run once; the inputs are not copied."""
        found = self._compiled(dict(inputs))
        return {port.get_any_name(): np.asarray(found[port]) for port in self._compiled.outputs}


class OpenVinoBfloat16(OpenVino):
    """OpenVINO in bfloat16, its default where the processor supports it."""

    hint: ClassVar[str] = "bf16"


class OpenVinoInt8(OpenVino):
    """OpenVINO on the network that ONNX Runtime's quantizer quantized."""

    model: ClassVar[str] = "qdq"

    @property
    def precision(self) -> str:
        """8 bits, if some of its steps use them."""
        return "int8" if self._used() & {"i8", "u8"} else super().precision


ENGINES: Mapping[str, type[Engine]] = {
    "dovetail": Dovetail,
    "dovetail-bf16": DovetailBfloat16,
    "dovetail-numpy": DovetailNumpy,
    "dovetail-gpu": DovetailGpu,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "openvino-bf16": OpenVinoBfloat16,
    "dovetail-int8": DovetailInt8,
    "htp-int8": HtpInt8,
    "htp-int16": HtpInt16,
    "onnxruntime-int8": OnnxRuntimeInt8,
    "openvino-int8": OpenVinoInt8,
    "dovetail-dynamic": DovetailDynamic,
    "onnxruntime-dynamic": OnnxRuntimeDynamic,
}
_SUFFIXES = {"bf16": "bfloat16", "int8": "int8", "int16": "int16", "dynamic": "int8"}
# The type in which each must compute.
PRECISIONS = {name: _SUFFIXES.get(name.rpartition("-")[2], "float32") for name in ENGINES}
# Those of dynamically quantized networks, and of other quantized networks.
DYNAMIC = [name for name in ENGINES if name.endswith("-dynamic")]
INTEGER = [n for n, kind in PRECISIONS.items() if kind.startswith("int") and n not in DYNAMIC]


def compared() -> list[str]:
    """Return the engines that are measured by default: those that can compute on this processor."""
    missing = {"dovetail-numpy", "dovetail-gpu"}
    if not importlib.import_module("dovetail_onednn._library").library().has_bfloat16:
        missing |= {name for name, precision in PRECISIONS.items() if precision == "bfloat16"}
    if "htp" not in importlib.import_module("dovetail.plugins").names("dovetail.backends"):
        missing |= {"htp-int8", "htp-int16"}
    return [name for name in ENGINES if name not in missing]


def run_once(*, engine: str, model: str, inputs: str, output: str) -> None:
    """Run a network once and write the outputs."""
    write_arrays(output, ENGINES[engine](model, 1).run(dict(np.load(inputs))))
