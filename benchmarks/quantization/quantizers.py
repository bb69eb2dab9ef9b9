"""The quantizers that are compared, with one interface; each process uses one of them.

Both have the same settings: 8-bit asymmetric activations with ranges from minimum to maximum, 8-bit
symmetric weights with a scale for each output channel, and 32-bit biases.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from benchmarks.engines import Array, Outputs, write_arrays
from benchmarks.gauges import peak_memory_mb
from benchmarks.preparation import free_inputs


class Quantizer(Protocol):
    """A quantizer and the simulation of its results.

    Attributes:
        package: Its import name.
    """

    package: ClassVar[str]

    def quantize(self, model: str, images: Sequence[Array], target: str) -> None:
        """Calibrate and quantize a model in the quantizer's own format, and write the result."""

    def run(self, model: str, images: Iterable[Array]) -> Iterator[Outputs]:
        """Run a model on each image, node by node."""

    @property
    def version(self) -> str:
        """The quantizer's version."""


class Dovetail:
    """Dovetail's quantizer, simulated on the backend `cpu`."""

    package: ClassVar[str] = "dovetail"
    options: ClassVar[Mapping[str, Any]] = {
        "act_bitwidth": 8,
        "weights_bitwidth": 8,
        "bias_bitwidth": 32,
        "act_quantizer_calibration": "min-max",
        "param_quantizer_calibration": "min-max",
        "param_quantizer_schema": "symmetric",
        "use_per_channel_quantization": True,
        "use_per_row_quantization": True,
    }

    def __init__(self) -> None:
        self._module = importlib.import_module(self.package)

    def quantize(self, model: str, images: Sequence[Array], target: str) -> None:
        """Calibrate, quantize and write a `.dvt`."""
        self._module.quantize(model, images, **self.options).save(target)

    def run(self, model: str, images: Iterable[Array]) -> Iterator[Outputs]:
        """Run each op as simulated: dequantize, compute in float, quantize."""
        with self._module.Session(model, options={"quantized": "simulate"}) as session:
            (graph,) = session.graphs.values()
            name = graph.ir.inputs[0].source
            for image in images:
                yield session.run({name: image})

    @property
    def version(self) -> str:
        """Dovetail's version."""
        return str(self._module.__version__)


class DovetailInt8(Dovetail):
    """The same with types of an HTP; its weights with one scale are asymmetric."""

    options: ClassVar[Mapping[str, Any]] = {
        **Dovetail.options,
        "param_quantizer_schema": "asymmetric",
        "target_backend": "htp",
    }


class DovetailInt16(DovetailInt8):
    """The same with 16-bit activations, also where an HTP has 8 bits only (Lstm)."""

    options: ClassVar[Mapping[str, Any]] = {
        **DovetailInt8.options,
        "act_bitwidth": 16,
        "target_backend": None,
    }


class OnnxRuntime:
    """`onnxruntime.quantization.quantize_static`, in its format QDQ."""

    package: ClassVar[str] = "onnxruntime"

    def __init__(self) -> None:
        self._module = importlib.import_module(self.package)
        self._tools = importlib.import_module("onnxruntime.quantization")

    def quantize(self, model: str, images: Sequence[Array], target: str) -> None:
        """Calibrate, quantize and write an ONNX file."""
        tools = self._tools
        logging.disable(logging.WARNING)  # its tools warn about every tensor that they skip
        tools.quantize_static(
            model,
            target,
            self._reader(model, images),
            quant_format=tools.QuantFormat.QDQ,
            calibrate_method=tools.CalibrationMethod.MinMax,
            per_channel=True,
            activation_type=tools.QuantType.QUInt8,
            weight_type=tools.QuantType.QInt8,
        )

    def run(self, model: str, images: Iterable[Array]) -> Iterator[Outputs]:
        """Run without optimizations, which would replace float kernels by integer ones."""
        session = self._session(model, self._module.GraphOptimizationLevel.ORT_DISABLE_ALL)
        yield from self._runs(session, images)

    def run_float(self, model: str, images: Iterable[Array]) -> Iterator[Outputs]:
        """Run a float model with the default optimizations."""
        session = self._session(model, self._module.GraphOptimizationLevel.ORT_ENABLE_ALL)
        yield from self._runs(session, images)

    @property
    def version(self) -> str:
        """Its version."""
        return str(self._module.__version__)

    def _session(self, model: str, level: Any) -> Any:
        options = self._module.SessionOptions()
        options.log_severity_level = 3  # the light networks have unused initializers
        options.graph_optimization_level = level
        return self._module.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def _runs(self, session: Any, images: Iterable[Array]) -> Iterator[Outputs]:
        (given,) = session.get_inputs()
        names = [output.name for output in session.get_outputs()]
        for image in images:
            yield dict(zip(names, session.run(None, {given.name: image}), strict=True))

    def _reader(self, model: str, images: Sequence[Array]) -> Any:
        onnx = importlib.import_module("onnx")
        (given,) = free_inputs(onnx.load(model, load_external_data=False).graph)
        left = iter(images)

        class Reader(self._tools.CalibrationDataReader):  # type: ignore[misc, name-defined]
            def get_next(self) -> dict[str, Array] | None:
                image = next(left, None)
                return None if image is None else {given.name: np.asarray(image)}

        return Reader()


class OnnxRuntimeDynamic(OnnxRuntime):
    """`onnxruntime.quantization.quantize_dynamic`, which needs no images."""

    def quantize(self, model: str, images: Sequence[Array], target: str) -> None:
        """Quantize the weights of products with one scale each, and write an ONNX file."""
        logging.disable(logging.WARNING)
        self._tools.quantize_dynamic(model, target, weight_type=self._tools.QuantType.QInt8)


QUANTIZERS: Mapping[str, type[Dovetail] | type[OnnxRuntime]] = {
    "dovetail": Dovetail,
    "dovetail-int8": DovetailInt8,
    "dovetail-int16": DovetailInt16,
    "onnxruntime": OnnxRuntime,
    "onnxruntime-dynamic": OnnxRuntimeDynamic,
}


def quantize(*, quantizer: str, model: str, data: str, output: str) -> dict[str, float | str]:
    """Load, calibrate, quantize and write; all of this is timed."""
    with np.load(data) as arrays:
        images = list(arrays["calibration"])
    chosen = QUANTIZERS[quantizer]()
    start = time.perf_counter()
    chosen.quantize(model, images, output)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": peak_memory_mb(), "version": chosen.version}


def run_all(*, quantizer: str, model: str, data: str, output: str) -> dict[str, float]:
    """Run a network on all test images, and write the outputs.

    A quantized network is run with its quantizer's simulation; `float` is one for ONNX Runtime.
    """
    with np.load(data) as arrays:
        images = arrays["test"]
    run = OnnxRuntime().run_float if quantizer == "float" else QUANTIZERS[quantizer]().run
    start = time.perf_counter()
    found = list(run(model, images))
    seconds = time.perf_counter() - start
    write_arrays(output, {name: np.stack([each[name] for each in found]) for name in found[0]})
    return {"seconds": seconds}
