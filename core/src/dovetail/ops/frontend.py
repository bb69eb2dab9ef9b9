"""The frontend contract: how a model file of another format becomes a graph.

A frontend is an entry point of `dovetail.frontends` that loads a class, made without arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

import msgspec

from dovetail.errors import Problem, UnsupportedOpError
from dovetail.ir.encodings import Shape
from dovetail.ir.graph import Graph
from dovetail.ir.storage import Array
from dovetail.ops.registry import OpRegistry


class FrontendOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What the user decides about reading a model.

    Attributes:
        input_dims: Shapes of inputs by name; they win over everything else (`--input-dim`).
        symbols: Values of symbolic dimensions by name (`--define-symbol`).
        batch: First extent of every input that `input_dims` does not name (`--batch`).
        out_names: Tensors that are to be the outputs, the graph being cut there; none leaves the
            outputs that the model declares (`--out-name`).
        input_values: Values of inputs by name, which become constants of the graph: real values of
            any numeric type that the input's own type holds exactly.
        dropout: With `off`, operators that drop elements in training do nothing, whatever the
            model says (`--dropout`).
    """

    input_dims: Mapping[str, Shape] = {}
    symbols: Mapping[str, int] = {}
    batch: int | None = None
    out_names: tuple[str, ...] = ()
    input_values: Mapping[str, Array] = {}
    dropout: Literal["on", "off"] = "on"


class InputsNeededError(UnsupportedOpError):
    """A model cannot be converted as long as the values of some of its inputs are not known.

    Args:
        message: As of any error.
        inputs: The inputs' names. There may be more, that only a further try finds.
        code: MODEL_VALUES_UNKNOWN where nothing else is wrong as far as is known.
        where: The file.
        hint: What to do.
        problems: What cannot be converted.
    """

    default_code = "MODEL_VALUES_UNKNOWN"

    def __init__(
        self,
        message: str,
        inputs: tuple[str, ...],
        *,
        code: str | None = None,
        where: str = "",
        hint: str = "",
        problems: Iterable[Problem] = (),
    ) -> None:
        super().__init__(message, code=code, where=where, hint=hint, problems=problems)
        self.inputs = inputs


class OpUse(msgspec.Struct, frozen=True, kw_only=True):
    """How often a model uses one version of one of its format's operators.

    Attributes:
        domain: The operator's domain or package; empty for the format's own.
        op_type: Its name.
        version: The version that the model asks for; 0 where the format counts none.
        count: Number of nodes.
        supported: Whether the frontend knows this version, whatever single nodes ask of it.
        folded: How many of the nodes are computed at import, so that nothing of them is left.
    """

    domain: str
    op_type: str
    version: int
    count: int
    supported: bool
    folded: int = 0


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a frontend would make of a model.

    Attributes:
        operators: Those that the model uses, sorted by domain and name.
        problems: Every reason why the model cannot be converted; none if it can.
        unused_inputs: Inputs of the model that no output depends on.
    """

    operators: tuple[OpUse, ...]
    problems: tuple[Problem, ...]
    unused_inputs: tuple[str, ...]


@runtime_checkable
class Frontend(Protocol):
    """Reads the model files of one format."""

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like one of this format: by its suffix, else by its first bytes."""

    def read(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> Graph:
        """Return the graph of a model, in `qti.aisw` and other packages' ops.

        The inputs and outputs keep the model's names, order and layouts.

        Args:
            path: The file.
            options: What the user decides.
            ops: The op packages. An operator that is named like an op of one of `ops.added` is that
                op, whatever its domain: the user brought the package for this model.

        Raises:
            ConfigError: The options do not fit the model (USAGE): not the model's fault.
            FrontendError: The file or the model is wrong; says everything that is.
            UnsupportedOpError: Operators that cannot be converted, all of them. An
                InputsNeededError if it would help to know the values of some inputs.
        """

    def dry_run(self, path: Path, options: FrontendOptions, ops: OpRegistry) -> DryRun:
        """Return what `read` would make of a model, without raising for what it cannot convert.

        Raises:
            ConfigError: As for `read`.
            FrontendError: The file cannot be read as a model at all.
        """
