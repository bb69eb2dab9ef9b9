"""The declaration of options about the nodes of a graph, for commands that convert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dovetail_tools._option_groups import OptionGroup

OP_STYLES = ("2.18", "2.27")


def _flag(text: str, *spellings: str) -> Any:
    return Annotated[bool, typer.Option(*spellings, help=text)]


GRAPH = OptionGroup(
    "graph",
    {
        "disable_batchnorm_folding": _flag(
            "Leave batch normalizations out of weights: the pass fold-batchnorm does not run.",
            "--disable-batchnorm-folding",
        ),
        "keep_disconnected_nodes": _flag(
            "Keep nodes that no output depends on: results that nothing reads become outputs.",
            "--keep-disconnected-nodes",
        ),
        "keep_int64_inputs": _flag(
            "Keep inputs of 64-bit integers with --legacy-io-layout, which makes them 32-bit ones.",
            "--keep-int64-inputs",
        ),
        "narrow_types": _flag(
            "Compute types of 64 bits in 32 bits, whatever the values are, as the SDK's converters "
            "do; inputs and outputs keep their types.",
            "--narrow-types",
        ),
        "zero_biases": _flag(
            "Give convolutions without a bias one of zeros, as the SDK's converters do.",
            "--zero-biases",
        ),
        "remove_unused_inputs": _flag(
            "Remove inputs that no output depends on.", "--remove-unused-inputs"
        ),
        "op_style": Annotated[
            str | None,
            typer.Option(
                "--op-style",
                metavar="|".join(OP_STYLES),
                help="Ops as a release of the SDK writes them: single ops such as Relu (2.18), or "
                "ElementWiseNeuron and ElementWiseBinary (2.27).",
            ),
        ],
    },
)


def changed_passes(passes: str, graph: Mapping[str, Any], *, optimize: bool) -> str:
    """Return the changes of the passes, with those of the options.

    Args:
        passes: The changes that the user gives.
        graph: The options of the group.
        optimize: Whether passes run; otherwise there are none to leave out.
    """
    changes = [passes] if passes else []
    if graph["disable_batchnorm_folding"] and optimize:
        changes.append("-fold-batchnorm")
    if graph["op_style"] == OP_STYLES[1]:
        changes.append("+variant-ops")
    if graph["narrow_types"]:
        changes.append("+narrow-types")
    if graph["zero_biases"]:
        changes.append("+zero-biases")
    if graph["remove_unused_inputs"]:
        changes.append("+unused-inputs")
    return ",".join(changes)
