"""`dovetail lora-importer`: adapters in the layouts and types of a converted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def lora_importer(
    lora_config: Annotated[
        Path, typer.Option(metavar="FILE", help="The use cases, in YAML or JSON.")
    ],
    input_network: Annotated[
        Path,
        typer.Option(
            "-i", "--input-network", metavar="FILE", help="The ONNX model of the base model."
        ),
    ],
    input_model: Annotated[
        Path,
        typer.Option(
            "--input-model",
            "--input-dlc",
            metavar="FILE",
            help="The base model that was converted from it, quantized or not.",
        ),
    ],
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", metavar="DIR", help="The folder to write into.")
    ] = Path("."),
) -> None:
    """Write LoRA adapters in the layouts and types of a converted model.

    Checks names and shapes of each use case's weights, and quantizes them with the encodings of its
    quant_overrides or of their values. Writes a .safetensors and an .encodings file for each use
    case, and `lora_output_files.yaml`, which lists them.
    """
    # imported here: the help needs no onnx
    from dovetail.cli.output import current_output
    from dovetail_onnx.lora.importer import import_adapters

    made = import_adapters(input_model, input_network, lora_config, output_dir)
    output = current_output()
    for note in made.notes:
        output.message(f"note: {note}")
    lines = [f"{name}: {count} tensors" for name, count in made.use_cases.items()]
    data = {"config": str(made.config), "use_cases": dict(made.use_cases)}
    output.data(data, "\n".join([str(made.config), *lines]))
