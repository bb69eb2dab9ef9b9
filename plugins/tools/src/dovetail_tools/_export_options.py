"""The declaration of options of an exporter, for commands that convert."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dovetail.cli.exporter_options import ExporterOptions, exporter_options
from dovetail_tools._option_groups import OptionGroup

if TYPE_CHECKING:  # the help needs no numpy
    from dovetail.api.exporting import ModelFile

EXPORT = OptionGroup(
    "export",
    {
        "package_name": Annotated[
            str | None,
            typer.Option(
                "-p",
                "--package-name",
                metavar="NAME",
                help="Op package of all nodes in a .cpp, .json or .dlc; by default that of each "
                "node.",
            ),
        ],
        "exclude_named_tensors": Annotated[
            bool,
            typer.Option(
                "--exclude-named-tensors",
                help="Number the tensors in a .cpp, .json or .dlc instead of naming them after the "
                "model's; inputs and outputs keep their names.",
            ),
        ],
        "c_names": Annotated[
            bool,
            typer.Option(
                "--c-names",
                help="Name the tensors and nodes in a .cpp, .json or .dlc by identifiers of C, as "
                "qnn-onnx-converter does, also for those who read the file: files of outputs, for "
                "example.",
            ),
        ],
        "overwrite_model_prefix": Annotated[
            bool,
            typer.Option(
                "--overwrite-model-prefix",
                help="Begin the names of the functions in a .cpp with that of the file, as in "
                "MyModel_composeGraphs.",
            ),
        ],
        "exporter_option": ExporterOptions,
    },
)


def with_export_options(
    file: ModelFile, export: Mapping[str, Any], op_style: str | None
) -> ModelFile:
    """Return a file to write with the options of its exporter.

    Args:
        file: The file.
        export: The options of the group.
        op_style: The style of ops, which an exporter need not know: the nodes have it.

    Raises:
        ConfigError: The exporter lacks options, or values are wrong; lists all (USAGE).
    """
    texts = export["exporter_option"] or ()
    given = {n: v for n, v in export.items() if n != "exporter_option" and v not in (None, False)}
    spelled = {name: "--" + name.replace("_", "-") for name in given}
    if op_style is not None and hasattr(getattr(file.exporter, "options_type", None), "op_style"):
        given["op_style"], spelled["op_style"] = op_style, "--op-style"
    return replace(file, options=exporter_options(file.exporter, texts, given, spelled))
