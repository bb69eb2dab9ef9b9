"""Contract of frontends, which read model files of other formats as graphs.

A frontend is a class that an entry point of `dovetail.frontends` loads. It is created without
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import msgspec

from dovetail.errors import Problem, UnsupportedOpError
from dovetail.ir.encodings import Shape
from dovetail.ir.graph import Graph
from dovetail.ir.storage import Array
from dovetail.ops.registry import OpRegistry


class FrontendOptions(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Options for reading a model of any format.

    A frontend with options of its own derives its `options_type` from this class. Every field has a
    default, and a type that `msgspec` decodes, except for arrays.

    Attributes:
        input_dims: Shapes of inputs by name; they override everything else (`--input-dim`).
        batch: Size of the first axis of every input that `input_dims` does not name (`--batch`),
            unless the batch is a later axis there: a number stays before it.
        out_names: Tensors that become the outputs, where the graph is cut; if empty, the model's
            declared outputs (`--out-name`).
        input_values: Values of inputs by name, which become constants of the graph: real values of
            any numeric type that the input's type represents exactly.
    """

    input_dims: Mapping[str, Shape] = {}
    batch: int | None = None
    out_names: tuple[str, ...] = ()
    input_values: Mapping[str, Array] = {}


class InputsNeededError(UnsupportedOpError):
    """A model cannot be converted because the values of some inputs are unknown.

    Args:
        message: What failed and why.
        inputs: Names of the inputs. Another attempt may need more of them.
        code: MODEL_VALUES_UNKNOWN if no other fault was found.
        where: The file.
        hint: What to do.
        problems: The parts that cannot be converted.
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
    """Use of one version of an operator of the format in a model.

    Attributes:
        domain: The operator's domain or package; empty for the format's own.
        op_type: Its name.
        version: The version that the model requests; 0 if the format has no versions.
        count: Number of nodes.
        supported: Whether the frontend knows this version; single nodes may still be unsupported.
        folded: Number of nodes that are computed at import and so leave no node in the graph.
    """

    domain: str
    op_type: str
    version: int
    count: int
    supported: bool
    folded: int = 0


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """Survey of a model without converting it.

    Attributes:
        operators: Operators that the model uses, sorted by domain and name.
        problems: Every reason why the model cannot be converted; empty if it can.
        unused_inputs: Inputs of the model that no output depends on.
    """

    operators: tuple[OpUse, ...]
    problems: tuple[Problem, ...]
    unused_inputs: tuple[str, ...]


@runtime_checkable
class Frontend(Protocol):
    """Reads the model files of one format.

    A frontend for files that hold graphs as they are sets `stores_graphs = True`: each node of a
    graph is one of the file, whatever `Node.sources` says. A method `input_names(path)` returns the
    names of a model's inputs without converting it, so that wrong ones are found before a
    conversion. These members are optional.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    options_type: ClassVar[type[FrontendOptions]]

    def recognises(self, path: Path) -> bool:
        """Return whether a file appears to have this format, by its suffix or its first bytes."""

    def read(self, path: Path, options: Any, ops: OpRegistry) -> Sequence[Graph]:
        """Return the graphs of a model, in `qti.aisw` and other packages' ops.

        The inputs and outputs keep the model's names, order and layouts. Graphs have different
        names: those of the model, or that of the file without its suffix. Equal weights of several
        graphs are one `Blob`.

        Args:
            path: The file.
            options: Options for reading, of the frontend's `options_type`.
            ops: The op packages. An operator with the name of an op of `ops.added` becomes that op,
                whatever its domain: the user added the package for this model.

        Raises:
            ConfigError: The options do not match the model (USAGE).
            FrontendError: The file or the model has faults; all are listed.
            UnsupportedOpError: Operators cannot be converted; all are listed. An InputsNeededError
                if the values of some inputs would help.
        """

    def dry_run(self, path: Path, options: Any, ops: OpRegistry) -> DryRun:
        """Return a survey of a model, without raising for operators that cannot be converted.

        Raises:
            ConfigError: As for `read`.
            FrontendError: The file cannot be read as a model.
        """
