"""`dovetail lora-model-creator`: side branches for LoRA adapters in an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def lora_model_creator(
    lora_config: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Adapters and use cases, in YAML or JSON."),
    ],
    output_dir: Annotated[
        Path, typer.Option("-o", "--output-dir", metavar="DIR", help="The folder to write into.")
    ] = Path("."),
    input_network: Annotated[
        Path | None,
        typer.Option(
            "-i",
            "--input-network",
            metavar="FILE",
            help="The base model; by default the one that the use cases name.",
        ),
    ] = None,
    initial_use_case: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Use case whose weights the written model contains, for calibration; by default "
            "zeros, with which it computes what the base model does.",
        ),
    ] = None,
) -> None:
    """Add side branches for LoRA adapters to an ONNX model.

    Writes the model, a .safetensors file for each use case, `lora_weight_list.txt` for `dovetail
    convert --lora-weight-list`, and `lora_importer_config.yaml` for `dovetail lora-importer`.
    """
    # imported here: the help needs no onnx
    from dovetail.cli.output import current_output
    from dovetail_onnx.lora.creator import create_model

    made = create_model(lora_config, output_dir, input_network, initial_use_case)
    output = current_output()
    for note in made.notes:
        output.message(f"note: {note}")
    data = {
        "model": str(made.model),
        "config": str(made.config),
        "weight_list": str(made.weight_list),
        "ranks": dict(made.ranks),
    }
    lines = [f"{stem}: rank {rank}" for stem, rank in made.ranks.items()]
    output.data(data, "\n".join([f"{made.model}: {len(made.ranks)} branches", *lines]))
