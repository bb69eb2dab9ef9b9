"""Encodings that AIMET chooses (`--use-aimet-quantizer`), with its package `aimet-onnx`.

The float graph is exported to ONNX; AIMET calibrates it on the samples and writes an encodings file
of version 1.0.0, whose entries become encodings of the graph's tensors.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from dovetail.errors import ConfigError, PluginError, QuantizationError
from dovetail.ir import Graph
from dovetail.ops import OpRegistry
from dovetail.ops.exporter import Exporter, ExportOptions
from dovetail.plugins import load as load_plugin
from dovetail.quantization import Calibration, QuantizationOptions
from dovetail_quantizers.calibration.samples import require_repeatable, samples_of
from dovetail_quantizers.files import EncodingsFile, TensorEncoding, read_encodings
from dovetail_quantizers.planning.overrides import Overrides, overrides_of

_WHERE = "use_aimet_quantizer"
_VERSION = "1.0.0"
# Estimators of activations -> AIMET's schemes.
_SCHEMES: Mapping[str | None, str] = {None: "min_max", "min-max": "min_max", "sqnr": "tf_enhanced"}
# The exporter appends it to names that the graph has in another layout.
_NUMBER = re.compile(r"_\d+$")
_FUSED = (("Conv", "Relu"), ("Conv", "Clip"), ("ConvTranspose", "Relu"), ("Add", "Relu"))
_FUSED_PRODUCTS = (("Gemm", "Relu"), ("MatMul", "Add"))


def require_aimet(options: QuantizationOptions) -> None:
    """Raise if options ask for AIMET and it cannot run.

    Raises:
        ConfigError: AIMET is not installed, or it has no counterpart of an option.
    """
    if not options.use_aimet_quantizer:
        return
    _scheme(options)
    _simulation_class()


def with_aimet(
    graph: Graph,
    samples: Calibration | None,
    options: QuantizationOptions,
    ops: OpRegistry,
    given: Overrides,
) -> Overrides:
    """Return given encodings, and those that AIMET chooses if the options ask for it.

    Args:
        graph: A float graph; not changed.
        samples: Samples of its inputs.
        options: Bitwidths, schemes and granularity.
        ops: Finds ops.
        given: Encodings that take precedence.

    Raises:
        QuantizationError: There are no samples that can be read again, or AIMET fails.
        PluginError: No exporter to ONNX is installed.
        UnsupportedOpError: ONNX cannot express some nodes.
    """
    if not options.use_aimet_quantizer:
        return given
    where = f"graph '{graph.name}'"
    samples = require_repeatable(
        samples,
        graph,
        "AIMET calibrates on samples",
        hint="pass a list of samples of the inputs (calibration=..., --input-list)",
    )
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        cast("type[Exporter]", load_plugin("dovetail.exporters", "onnx-qdq"))().export(
            graph, model, ExportOptions()
        )
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(_config(options)))
        try:
            simulation = _simulation_class()(
                importlib.import_module("onnx").load(model),
                param_type=f"int{options.weight_bits}",
                activation_type=f"int{options.activation_bits}",
                quant_scheme=_scheme(options),
                config_file=str(config),
            )
            simulation.compute_encodings(samples_of(graph, samples))
            simulation.export(folder, "made", export_model=False, encoding_version=_VERSION)
        except Exception as error:  # of any kind: AIMET documents none
            raise QuantizationError(f"AIMET failed: {error}", where=where) from error
        file = read_encodings(Path(folder) / "made.encodings")
    found = overrides_of(_in_names_of(file, graph), graph, ops)
    for tensor, decision in found.encodings.items():
        found.encodings[tensor] = dataclasses.replace(decision, why="chosen by AIMET")
    return found.under(given)


def _in_names_of(file: EncodingsFile, graph: Graph) -> EncodingsFile:
    """Return the entries of the graph's own tensors, with the names of these."""
    known = {name for t in graph.tensors.values() for name in (t.name, t.source)}
    entries: dict[str, TensorEncoding] = {}
    for name, entry in file.entries.items():
        own = name if name in known else _NUMBER.sub("", name)
        if own in known:
            entries.setdefault(own, dataclasses.replace(entry, name=own))
    return dataclasses.replace(file, entries=entries)


def _scheme(options: QuantizationOptions) -> str:
    for name in ("act_quantizer_calibration", "param_quantizer_calibration"):
        if getattr(options, name) not in _SCHEMES:
            raise ConfigError(
                f"AIMET has no counterpart of {name} {getattr(options, name)}",
                where=_WHERE,
                hint="use min-max or sqnr",
            )
    return _SCHEMES[options.act_quantizer_calibration]


def _config(options: QuantizationOptions) -> dict[str, Any]:
    """Return AIMET's configuration: what is quantized, and by which schemes."""
    is_per_channel = options.use_per_channel_quantization or options.use_per_row_quantization
    symmetric = is_per_channel or options.param_quantizer_schema == "symmetric"
    return {
        "defaults": {
            "ops": {"is_output_quantized": "True"},
            "params": {"is_quantized": "True", "is_symmetric": str(symmetric)},
            "per_channel_quantization": str(is_per_channel),
        },
        "params": {"bias": {"is_quantized": "False"}},
        "op_type": {},
        "supergroups": [{"op_list": list(each)} for each in (*_FUSED, *_FUSED_PRODUCTS)],
        "model_input": {"is_input_quantized": "True"},
        "model_output": {},
    }


def _simulation_class() -> Any:
    try:
        return importlib.import_module("aimet_onnx.quantsim").QuantizationSimModel
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("aimet_onnx"):
            raise PluginError(
                f"AIMET cannot be imported: {error}", where=_WHERE, hint="reinstall aimet-onnx"
            ) from error
        raise ConfigError(
            "AIMET is not installed",
            where=_WHERE,
            hint="install it with `python -m pip install aimet-onnx`, or leave the option out: "
            "the quantizer here then chooses the encodings",
        ) from error
    except ImportError as error:
        raise PluginError(f"AIMET cannot be imported: {error}", where=_WHERE) from error
