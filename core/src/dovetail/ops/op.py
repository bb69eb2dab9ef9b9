"""Op: the one place where an op is defined.

A subclass states inputs, outputs and params as class attributes and defines two methods:

    infer(...)      what comes out: specs from specs
    reference(...)  what it means: arrays from arrays, in NumPy

Both may be written in one of two forms, told apart by their parameters' names when the op is
registered:

* positional: one parameter for each declared input, then one for each declared output (for
  `infer` always, for `reference` only if it needs them). They give one result, or a tuple of them.

      def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec: ...
      def reference(self, x: Array, weight: Array, bias: Array | None) -> Array: ...

* sequences, for ops with a variable number of inputs or outputs: `(self, ins, outs)`; `outs` are
  specs in both.

`outs` is what the graph declares, entries None where it declares nothing yet: ops whose target
shape or type is not theirs to decide (Reshape, Resize, Cast, Quantize) read it there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dovetail.ir import Array, DType
from dovetail.ops.params import ParamField, Specs

Arrays = Sequence[Array | None]
Results = Any  # one value, or a sequence of them; `Op.results` gives a tuple


class Domain(enum.Enum):
    """What the arrays are that `reference` is given.

    REAL: real values: fixed-point tensors dequantized, 16-bit floats widened to float32.
    MOVE: elements that are only moved, never looked at: stored integers where all encodings agree,
        real values otherwise.
    STORED: stored values as they are, with the specs to interpret them.
    """

    REAL = enum.auto()
    MOVE = enum.auto()
    STORED = enum.auto()


@dataclass(frozen=True, slots=True)
class Port:
    """A declared input or output.

    Attributes:
        name: As in `in[0]`; a variadic one says its range, as in `in[0..m]`.
        dtypes: Allowed types; empty allows any (backends restrict, see `Support`).
        optional: Whether a node may leave it out.
        variadic: Whether it stands for any number of tensors; only the last port may be.
    """

    name: str
    dtypes: tuple[DType, ...] = ()
    optional: bool = False
    variadic: bool = False


class In(Port):
    """A declared input."""


class Out(Port):
    """A declared output."""


class Op:
    """Base of all ops; an instance is an op with the params of one node.

    Class attributes:
        inputs, outputs: Declared ports.
        domain: What arrays `reference` is given.
        source: Where the definition comes from.
        is_pure: Whether the same inputs always give the same outputs. Nothing folds, merges or
            repeats an op that draws numbers or remembers earlier calls.
    """

    inputs: ClassVar[tuple[Port, ...]] = ()
    outputs: ClassVar[tuple[Port, ...]] = (Out("out[0]"),)
    domain: ClassVar[Domain] = Domain.REAL
    source: ClassVar[str] = ""
    is_pure: ClassVar[bool] = True

    if TYPE_CHECKING:  # subclasses choose a form; see the module's docstring
        infer: Callable[..., Results]
        reference: Callable[..., Results]

    def __init__(self, ins: Specs = (), **params: Any) -> None:
        """Bind params; those left out take their defaults.

        Args:
            ins: Specs of the inputs, for defaults that depend on them.
            params: Values by name.

        Raises:
            TypeError: An unknown param, or a required one left out.
        """
        fields = param_fields(type(self))
        if unknown := params.keys() - fields.keys():
            raise TypeError(f"{type(self).__name__} has no params {sorted(unknown)}")
        for name, field in fields.items():
            if name in params:
                self.__dict__[name] = params[name]
            elif field.is_required:
                raise TypeError(f"{type(self).__name__} needs the param '{name}'")
            else:
                self.__dict__[name] = field.default_value(ins)


def param_fields(op: type[Op]) -> dict[str, ParamField[Any]]:
    """Return the declared params of an op by name, base classes' first."""
    found: dict[str, ParamField[Any]] = {}
    for cls in reversed(op.__mro__):
        found |= {n: f for n, f in vars(cls).items() if isinstance(f, ParamField)}
    return found
