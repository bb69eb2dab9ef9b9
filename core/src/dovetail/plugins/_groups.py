"""The entry-point groups: every kind of named plugin that a dist can provide, with its contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dovetail.plugins._contracts import (
    Contract,
    exporter_faults,
    frontend_faults,
    hook_faults,
    kernel_faults,
    model_faults,
    pass_faults,
    verifier_faults,
)

PREFIX = "dovetail."
COMMANDS = "dovetail.commands"
COMMAND_HELP = "dovetail.command_help"

# Group -> contract of what its entry points load. A test compares members with the protocols.
GROUPS: Mapping[str, Contract] = MappingProxyType(
    {
        "dovetail.op_packages": Contract(
            "an OpPackage", type="dovetail.ops.registry.OpPackage", named=("name",)
        ),
        "dovetail.backends": Contract(
            "a Backend class",
            is_class=True,
            members=(
                "name",
                "configs",
                "__init__(ops, options)",
                "capabilities()",
                "platform()",
                "validate(node, device, config)",
                "open_context(device, config, weights)",
                "fingerprint(device)",
                "close()",
            ),
            named=("name",),
        ),
        "dovetail.kernels": Contract(
            "a KernelRegistry",
            type="dovetail.runtime.plan.kernels.KernelRegistry",
            named=("backend", ""),
            check=kernel_faults,
        ),
        "dovetail.frontends": Contract(
            "a Frontend class",
            is_class=True,
            members=(
                "name",
                "suffixes",
                "options_type",
                "__init__()",
                "recognises(path)",
                "read(path, options, ops)",
                "dry_run(path, options, ops)",
            ),
            named=("name",),
            check=frontend_faults,
        ),
        # The frontend that reads importers checks their type; core only knows whose they are.
        "dovetail.importers": Contract(
            "importers of an operator domain", members=("domain",), named=("", "domain")
        ),
        "dovetail.exporters": Contract(
            "an Exporter class",
            is_class=True,
            members=(
                "name",
                "suffix",
                "options_type",
                "__init__()",
                "files(path)",
                "export(graph, path, options)",
            ),
            named=("name",),
            check=exporter_faults,
        ),
        "dovetail.inspectors": Contract(
            "an Inspector class",
            is_class=True,
            members=("name", "__init__()", "recognises(path)", "summary(path)"),
            named=("name",),
        ),
        # The exporter that uses op exporters checks their type; core only knows whose they are.
        "dovetail.op_exporters": Contract(
            "exporters of an op package's ops", members=("package",), named=("", "package")
        ),
        "dovetail.architecture_rules": Contract(
            "an ArchitectureRule class",
            is_class=True,
            members=("name", "change", "__init__()", "issues(graph)"),
            named=("name",),
        ),
        "dovetail.passes": Contract(
            "a graph pass", members=("name", "run(graph)"), named=("name",), check=pass_faults
        ),
        "dovetail.range_estimators": Contract(
            "a RangeEstimator class",
            is_class=True,
            members=("__init__()", "observe(batch)", "range()"),
        ),
        "dovetail.quantizers": Contract(
            "a Quantizer class",
            is_class=True,
            members=(
                "__init__()",
                "quantize(model, calibration, options, ops)",
                "configured(options)",
                "state_encodings(model, options, ops)",
                "write_encodings(model, model_path)",
                "read_encodings(path, graph, ops)",
                "encoding_for(tensor, values)",
                "save_encodings(graph, encodings, path, ops)",
            ),
        ),
        "dovetail.quantization_algorithms": Contract(
            "a QuantizationAlgorithm class",
            is_class=True,
            members=(
                "name",
                "__init__()",
                "observe(graph, ops)",
                "rewrite(work)",
                "choose(work)",
                "refine(work)",
            ),
            named=("name",),
        ),
        "dovetail.verifiers": Contract(
            "a Verifier class",
            is_class=True,
            members=("__init__()", "update", "finish()"),
            check=verifier_faults,
        ),
        "dovetail.hooks": Contract(
            "a module or object with hooks, or a function that returns one", check=hook_faults
        ),
        "dovetail.recorders": Contract(
            "a Recorder class", is_class=True, members=("__init__(folder, payloads)", "close()")
        ),
        "dovetail.models": Contract("the path of a model", check=model_faults),
        "dovetail.commands": Contract("a typer app", type="typer.main.Typer"),
        "dovetail.command_help": Contract("nothing: the value is a command's line of help"),
    }
)
