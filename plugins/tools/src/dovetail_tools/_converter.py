"""All options of a converter's command line, read together: every fault is reported at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dovetail.api.pipeline import configured_pass
from dovetail.cli.output import current_output
from dovetail.errors import ConfigError, Problem
from dovetail.files import atomic_write
from dovetail.ir import Graph, Pass, Shape
from dovetail.ops.frontend import FrontendOptions
from dovetail_tools._artefact import read_artefact
from dovetail_tools._conversion import Conversion
from dovetail_tools._frontend_options import FrontendTexts, frontend_options
from dovetail_tools._graph_options import OP_STYLES, changed_passes
from dovetail_tools._interface import (
    InterfaceOptions,
    InterfaceRequest,
    custom_io_template,
    io_config_template,
    read_interface,
)
from dovetail_tools._option_values import is_same
from dovetail_tools._quantization import QuantizationRequest

T = TypeVar("T")
_TEMPLATES: Mapping[str, Callable[[Graph], str]] = {
    "dump_custom_io_config_template": custom_io_template,
    "dump_io_config_template": io_config_template,
}


@dataclass(frozen=True, slots=True)
class FurtherOptions:
    """The options of groups that several commands take, by name.

    Attributes:
        interface, graph, artefact: The values of each group.
    """

    interface: Mapping[str, Any]
    graph: Mapping[str, Any]
    artefact: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConverterOptions:
    """The result of reading all options.

    Attributes:
        options: Options of the frontend.
        shapes: Inputs with several shapes.
        interface: What is said about inputs and outputs.
        graph: Options about nodes.
        artefact: What the file says of itself.
        before, after: Passes that run first, and those of the quantized model.
        templates: Paths of the templates to write, by option.
    """

    options: FrontendOptions
    shapes: Mapping[str, Sequence[Shape]]
    interface: InterfaceRequest
    graph: Mapping[str, Any]
    artefact: Mapping[str, str]
    before: tuple[Pass, ...]
    after: tuple[Pass, ...]
    templates: Mapping[str, Path]

    def passes(self, given: str, *, optimize: bool) -> str:
        """Return the changes of the passes, with those that other options request."""
        return changed_passes(given, self.graph, optimize=optimize)

    def quantization(self, given: QuantizationRequest) -> QuantizationRequest:
        """Return the request for quantization, with the tensors that stay as they are."""
        names = self.interface.unquantized
        if not given.wanted or names == ():
            return given
        own = given.given.get("preserve_io_datatype", ())
        kept = True if names is None or own is True else tuple(dict.fromkeys((*own, *names)))
        return replace(given, given={**given.given, "preserve_io_datatype": kept})

    def write_templates(self, conversion: Conversion) -> None:
        """Write the templates of files with the model's inputs and outputs.

        Raises:
            DovetailError: The model cannot be converted, or a file not written.
        """
        plain = replace(conversion, before=(), passes="", optimize=False)
        (graph, *_) = plain.run().graphs.values()
        for option, path in self.templates.items():
            with atomic_write(path) as file:
                file.write(_TEMPLATES[option](graph).encode())
            current_output().message(f"{path}: the inputs and outputs of {conversion.source}")


def read_options(
    source: Path,
    input_format: str | None,
    texts: FrontendTexts,
    further: FurtherOptions,
    quantization: QuantizationRequest,
) -> ConverterOptions:
    """Return all options in the form that the conversion takes.

    Args:
        source: The model.
        input_format: Name of the frontend that reads it; None to find it.
        texts: Options of the frontend.
        further: Options of inputs, outputs, the graph and the file.
        quantization: Options of the quantizer, which are only checked.

    Raises:
        FrontendError: A file cannot be read, or no frontend reads the model.
        ConfigError: Options are invalid; lists every fault.
    """
    problems: list[Problem] = []
    values = further.interface
    request = _attempt(
        lambda: read_interface(_interface(values), is_quantized=quantization.wanted), problems
    )
    _attempt(quantization.check_values, problems)
    artefact = _attempt(lambda: read_artefact(further.artefact), problems)
    request = request or InterfaceRequest()
    if not texts.others["out_names"]:
        texts = replace(texts, others={**texts.others, "out_names": request.out_names})
    options, shapes = frontend_options(source, input_format, texts, request.shapes, problems)
    templates = {option: values[option] for option in _TEMPLATES if values[option] is not None}
    problems += [
        Problem("the template would overwrite the model", f"--{option.replace('_', '-')}")
        for option, path in templates.items()
        if is_same(path, source)
    ]
    if len(set(templates.values())) < len(templates):
        problems.append(Problem("two templates have the same path"))
    style = further.graph["op_style"]
    if style not in (None, *OP_STYLES):
        expected = " or ".join(OP_STYLES)
        problems.append(Problem(f"unsupported value '{style}'; expected {expected}", "--op-style"))
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    form = request.pass_values(keep_int64=further.graph["keep_int64_inputs"])
    before, after = (
        (configured_pass("interface", each),) if each else ()
        for each in (form, request.values_after_quantization())
    )
    return ConverterOptions(
        options, shapes, request, further.graph, artefact or {}, before, after, templates
    )


def _interface(values: Mapping[str, Any]) -> InterfaceOptions:
    return InterfaceOptions(
        values["custom_io"],
        values["io_config"],
        values["input_layout"],
        values["desired_input_layout"],
        values["input_dtype"],
        values["input_type"],
        values["input_encoding"],
        values["preserve_io"],
        values["legacy_io_layout"],
    )


def _attempt(read: Callable[[], T], problems: list[Problem]) -> T | None:
    """Return what a function reads; None if it finds faults, which are added to the problems."""
    try:
        return read()
    except ConfigError as error:
        problems += error.as_problems()
        return None
