"""Quantization of a float model with samples of its inputs, by the installed quantizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dovetail.api.loading import load_model
from dovetail.arguments import check_arguments
from dovetail.container import Model
from dovetail.errors import ConfigError, suggest_name
from dovetail.files import PathLike
from dovetail.ops import OpRegistry
from dovetail.plugins import load as load_plugin
from dovetail.plugins.ops import installed_ops

if TYPE_CHECKING:
    from dovetail.quantization import Calibration, QuantizationOptions, Quantized, Quantizer

GROUP = "dovetail.quantizers"
DEFAULT = "default"


@check_arguments
def quantize(
    model: Model | PathLike,
    calibration: Calibration | Mapping[str, Calibration] | None = None,
    *,
    ops: OpRegistry | None = None,
    **options: Any,
) -> Model:
    """Quantize a model.

    Args:
        model: A float `Model`, or a file that can be loaded or converted. It is not changed.
        calibration: Sets of inputs: arrays by input name, or plain arrays for a graph with one
            input; or one array of all samples. For several graphs, a mapping from graph name to
            sets. Optional if nothing is calibrated.
        ops: The ops; by default those of all installed op packages.
        options: Fields of `dovetail.quantization.QuantizationOptions`.

    Returns:
        A new model whose tensors are fixed-point where that is possible.

    Raises:
        ConfigError: Options are wrong; all of them are listed.
        QuantizationError: Samples are missing, or samples or encodings do not match the model.
    """
    return quantize_with_report(model, calibration, ops=ops, **options).model


@check_arguments
def quantize_with_report(
    model: Model | PathLike,
    calibration: Calibration | Mapping[str, Calibration] | None = None,
    *,
    ops: OpRegistry | None = None,
    **options: Any,
) -> Quantized:
    """Quantize a model and report each tensor's decision and its reason; see `quantize`."""
    # imported here for a fast start: most sessions quantize nothing
    from dovetail.quantization import options_from

    registry = installed_ops() if ops is None else ops
    loaded = model if isinstance(model, Model) else load_model(model, registry)
    return run_quantizer(loaded, calibration, options_from(options), registry)


def run_quantizer(
    model: Model,
    calibration: Calibration | Mapping[str, Calibration] | None,
    options: QuantizationOptions,
    ops: OpRegistry,
) -> Quantized:
    """Run the installed quantizer on a model; see `quantize`.

    Raises:
        PluginError: No quantizer is installed, or it is broken.
    """
    return installed_quantizer().quantize(model, _by_graph(model, calibration), options, ops)


def run_stating(
    model: Model, options: QuantizationOptions, ops: OpRegistry
) -> tuple[Model, tuple[str, ...]]:
    """Return a float model that states encodings, and notes; see `Quantizer.state_encodings`.

    Raises:
        DovetailError: The file has faults, or no quantizer is installed.
    """
    return installed_quantizer().state_encodings(model, options, ops)


@check_arguments
def write_encodings(model: Model, model_path: PathLike) -> tuple[Path, ...]:
    """Write the encodings of a quantized model, a file for each graph; return their paths.

    Args:
        model: The quantized model.
        model_path: The model's file; the encodings are written next to it, named after it and the
            graph.

    Raises:
        ContainerError: A file cannot be written.
        PluginError: No quantizer is installed, or it is broken.
    """
    return installed_quantizer().write_encodings(model, Path(model_path))


def installed_quantizer() -> Quantizer:
    """Return the installed quantizer.

    Raises:
        PluginError: None is installed, or it is broken.
    """
    return cast("type[Quantizer]", load_plugin(GROUP, DEFAULT))()


def _by_graph(
    model: Model, calibration: Calibration | Mapping[str, Calibration] | None
) -> dict[str, Calibration]:
    if calibration is None:
        return {}
    if isinstance(calibration, Mapping):
        if unknown := [name for name in calibration if name not in model.graphs]:
            raise ConfigError(
                f"graph '{unknown[0]}' not found in the model",
                where="calibration",
                hint=f"{suggest_name(unknown[0], model.graphs)}; a single set of inputs goes into "
                "a list",
            )
        for name, samples in calibration.items():
            _check_samples(samples, f"calibration of graph '{name}'")
        return dict(calibration)
    _check_samples(calibration, "calibration")
    if len(model.graphs) != 1:
        raise ConfigError(
            f"the model has {len(model.graphs)} graphs, but there are samples for one only",
            where="calibration",
            hint="pass a mapping from graph names to samples",
        )
    (graph,) = model.graphs.values()
    if isinstance(calibration, np.ndarray) and len(graph.inputs) == 1:
        calibration = _split(calibration, graph.inputs[0].shape)
    return {graph.name: calibration}


def _check_samples(samples: object, where: str) -> None:
    """Raise if samples are not iterable, or are text."""
    rank_0 = isinstance(samples, np.ndarray | np.generic) and not samples.ndim
    # an object with items alone, such as a torch data set, is iterated by index
    passes = hasattr(samples, "__iter__") or hasattr(samples, "__getitem__")
    if passes and not rank_0 and not isinstance(samples, str | bytes):
        return
    kind = "an array without dimensions" if rank_0 else f"a {type(samples).__name__}"
    raise ConfigError(
        f"expected a sequence of samples, got {kind}",
        where=where,
        hint="pass a list of inputs: arrays by input name, or plain arrays for a graph with one "
        "input; or one array of all samples",
    )


def _split(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Calibration:
    """Split an array of all samples into samples: each a whole input, or elements of its batch."""
    if shape and shape[0] and array.shape[1:] == shape[1:] and len(array) % shape[0] == 0:
        return [array[i : i + shape[0]] for i in range(0, len(array), shape[0])]
    return list(array)
