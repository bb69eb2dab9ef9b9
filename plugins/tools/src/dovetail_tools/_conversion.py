"""The work of `dovetail convert`, after its options are read."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.api import Model
from dovetail.api import convert as convert_model
from dovetail.api.conversion import find_frontend
from dovetail.api.quantization import write_encodings
from dovetail.cli.op_packages import add_op_packages, load_op_packages
from dovetail.cli.output import current_output
from dovetail.cli.quantization_run import quantized, report_table, show_advice, show_notes
from dovetail.errors import ConfigError, Problem
from dovetail.files import check_suffix, unwritable, with_suffix
from dovetail.ir import Shape, Tensor
from dovetail.ops import OpRegistry
from dovetail.ops.frontend import FrontendOptions
from dovetail.plugins.ops import installed_ops
from dovetail_tools._errors import usage
from dovetail_tools.op_definitions import load_definitions

SUFFIX = ".dvt"


@dataclass(frozen=True, slots=True)
class Quantizing:
    """The command line's options of quantization.

    Attributes:
        input_list: Path of an input list.
        given: The quantizer's options that were given.
        native: Whether raw inputs have values of the inputs' types.
        dump: Whether encodings are written next to the .dvt.
        show: Whether the report is printed.
    """

    input_list: str | None
    given: Mapping[str, Any]
    native: bool = False
    dump: bool = False
    show: bool = False

    @property
    def wanted(self) -> bool:
        """True if the model is quantized."""
        half = self.given.get("float_bitwidth") == 16
        return self.input_list is not None or "float_fallback" in self.given or half

    def check(self) -> None:
        """Raise if the quantizer's options are given, but the model is not quantized.

        Raises:
            ConfigError: Names all these options.
        """
        names = ["--" + name.replace("_", "-") for name in self.given]
        names += ["--use-native-input-files"] * self.native
        names += ["--dump-encoding-json"] * self.dump + ["--report"] * self.show
        if self.wanted or not names:
            return
        raise usage(
            f"no effect of {', '.join(names)}: the model is not quantized",
            where="dovetail convert",
            hint="give --input-list, --float-fallback or --float-bitwidth 16",
        )


def frontend_options(
    dims: Iterable[tuple[str, str]],
    symbols: Iterable[tuple[str, str]],
    batch: int | None,
    out_names: Sequence[str],
    dropout: str,
) -> FrontendOptions:
    """Return the frontend's options of the command line.

    Raises:
        ConfigError: Values are not numbers, or names are repeated; lists every fault.
    """
    problems: list[Problem] = []
    shapes = _named("--input-dim", dims, problems)
    values = _named("--define-symbol", symbols, problems)
    parsed = {n: _shape(f"--input-dim {n}", text, problems) for n, text in shapes.items()}
    numbers = {n: _number(f"--define-symbol {n}", text, problems) for n, text in values.items()}
    if dropout not in ("on", "off"):
        problems.append(Problem(f"unsupported value '{dropout}'; expected on or off", "--dropout"))
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return FrontendOptions(
        input_dims=parsed,
        symbols=numbers,
        batch=batch,
        out_names=tuple(out_names),
        dropout="off" if dropout == "off" else "on",
    )


def ops_with(references: tuple[str, ...], configs: Sequence[Path]) -> OpRegistry:
    """Return the installed ops and those of the command line.

    Args:
        references: Op packages that are not installed, as given to `--op-packages`.
        configs: XML files of op definitions.

    Raises:
        ConfigError: A reference or a file is invalid; lists every fault.
        PluginError: A package cannot be loaded, or two have one name.
    """
    ops = installed_ops()
    add_op_packages(ops, (*load_op_packages(references), *load_definitions(configs)))
    return ops


def convert_file(
    source: Path,
    output: Path | None,
    options: FrontendOptions,
    graph_name: str | None,
    ops: OpRegistry,
    quantizing: Quantizing,
    input_format: str | None = None,
    *,
    optimize: bool,
) -> None:
    """Convert a model file and print a line about the result.

    Args:
        source: The model.
        output: Path of the .dvt; None for that of the model with another suffix.
        options: Options of the frontend.
        graph_name: Name of the graph; None for the file's name without suffix.
        ops: Finds ops.
        quantizing: Whether and how it is quantized.
        input_format: Name of the frontend; None to find it.
        optimize: Whether the passes run.

    Raises:
        DovetailError: The model cannot be converted or the .dvt not written; no file remains.
    """
    start = time.perf_counter()
    find_frontend(source, input_format)  # report an unreadable file first
    target = _target(source, output)
    quantizing.check()
    model = convert_model(
        source, options, name=graph_name, optimize=optimize, ops=ops, input_format=input_format
    )
    if not quantizing.wanted:
        model.save(target)
        _report(source, target, model, time.perf_counter() - start)
        return
    made = quantized(model, quantizing.input_list, quantizing.given, ops, native=quantizing.native)
    made.model.save(target)
    dumped = write_encodings(made.model, target) if quantizing.dump else ()
    show_notes(made.report)
    more = {"encodings": [str(path) for path in dumped], "report": made.report.to_builtins()}
    text = report_table(made.report) if quantizing.show else None
    _report(source, target, made.model, time.perf_counter() - start, more, text)
    show_advice(made.report)


def _target(source: Path, output: Path | None) -> Path:
    target = output or with_suffix(source, SUFFIX) or source
    check_suffix(target, SUFFIX, f"a converted model is a {SUFFIX} file", "--output-path")
    # reported now instead of after a long conversion
    if not target.parent.is_dir():
        code = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
        raise unwritable(target, OSError(code, os.strerror(code)))
    if target.is_dir():
        raise unwritable(target, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    return target


def _report(
    source: Path,
    target: Path,
    model: Model,
    seconds: float,
    more: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> None:
    """Report the result: in a message, and as data with --json or if there is a text."""
    nodes = [node for graph in model.graphs.values() for node in graph.nodes]
    sources = {name for node in nodes for name in node.sources}
    weights = _weight_bytes(model)
    output = current_output()
    output.message(
        f"{source} -> {target}: {len(sources)} nodes in, {len(nodes)} nodes out, "
        f"{weights / 1e6:.2f} MB of weights, {seconds:.2f} s"
    )
    if output.json or text is not None:
        data = {
            "source": str(source),
            "model": str(target),
            "graphs": list(model.graphs),
            "source_nodes": len(sources),
            "nodes": len(nodes),
            "weight_bytes": weights,
            "file_bytes": target.stat().st_size,
            "seconds": seconds,
        }
        output.data(data | dict(more or {}), text or "")


def _weight_bytes(model: Model) -> int:
    """Return the number of bytes of static data; shared data count once."""
    static = [t for graph in model.graphs.values() for t in graph.tensors.values()]
    static += [
        param
        for graph in model.graphs.values()
        for node in graph.nodes
        for param in node.params.values()
        if isinstance(param, Tensor)
    ]
    return sum(b.nbytes for b in {t.data.hash: t.data for t in static if t.data}.values())


def _named(
    option: str, pairs: Iterable[tuple[str, str]], problems: list[Problem]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in pairs:
        if found.setdefault(name, text) != text:
            problems.append(
                Problem(f"contradictory values {found[name]} and {text}", f"{option} {name}")
            )
    return found


def _shape(where: str, text: str, problems: list[Problem]) -> Shape:
    before = len(problems)
    shape = tuple(_number(where, size, problems) for size in text.split(",")) if text else ()
    return shape if len(problems) == before else ()


def _number(where: str, text: str, problems: list[Problem]) -> int:
    try:
        return int(text)
    except ValueError:
        problems.append(Problem(f"expected an integer, got '{text}'", where))
        return 0
