"""Op: the definition of an op.

A subclass states inputs, outputs and params as class attributes and defines two methods:

    infer(...)      returns the specs of the outputs for the specs of the inputs
    reference(...)  returns the outputs for the inputs, in NumPy

Both may have one of two forms, which the names of their parameters distinguish when the op is
registered:

* positional: one parameter for each declared input, then one for each declared output (for
  `infer` always, for `reference` only if it needs them). They return one result or a tuple.

      def infer(self, x: Spec, weight: Spec, bias: Spec | None, out: Spec | None) -> Spec: ...
      def reference(self, x: Array, weight: Array, bias: Array | None) -> Array: ...

* sequences, for ops with a variable number of inputs or outputs: `(self, ins, outs)`; `outs` are
  specs in both.

A third method, `work(ins, outs)`, counts multiply-accumulates. It has a default and only this form.

`outs` are the specs that the graph declares; None if it declares none yet: ops whose target
shape or type is not determined by their inputs and params (Reshape, Resize, Cast, Quantize) read it
there.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from dovetail.ir import Array, DType, ScaleOffset
from dovetail.ops.params import ParamField, Specs
from dovetail.ops.roles import Role

Arrays = Sequence[Array | None]
Results = Any  # one value, or a sequence of them
Range = tuple[float, float]  # minimum and maximum

UNBOUNDED: Range = (-math.inf, math.inf)


class Domain(enum.Enum):
    """Content of the arrays that `reference` receives.

    REAL: real values: fixed-point tensors dequantized, 16-bit floats widened to float32.
    MOVE: elements that are moved but not read: stored integers if all encodings agree, real values
        otherwise.
    STORED: stored values; the specs say how to interpret them.
    """

    REAL = enum.auto()
    MOVE = enum.auto()
    STORED = enum.auto()


class BatchAxis(enum.Enum):
    """The axes of which an op computes each element alone, so that one of them can be the batch.

    UNKNOWN: None that is known.
    FIRST: The first one of `Op.batch_inputs`, if they have further axes. Other inputs, such as
        weights, are the same for each element.
    ANY: All but those in a param `axis` or `axes`. Inputs broadcast: their last axes are aligned.
    """

    UNKNOWN = enum.auto()
    FIRST = enum.auto()
    ANY = enum.auto()


class Port(msgspec.Struct, frozen=True):
    """A declared input or output.

    Attributes:
        name: Such as `in[0]`; with a range if variadic, such as `in[0..m]`.
        dtypes: Allowed types; empty allows any (backends restrict, see `Support`).
        optional: Whether a node may omit it.
        variadic: Whether it represents any number of tensors; allowed for the last port only.
        shape: Shape as text, for a `DefinedOp`: dimensions as in `[n, 2 * c]`, a rank as in `2D`,
            or nothing for any.
    """

    name: str
    dtypes: tuple[DType, ...] = ()
    optional: bool = False
    variadic: bool = False
    shape: str = ""


class In(Port, frozen=True):
    """A declared input."""


class Out(Port, frozen=True):
    """A declared output."""


class Op:
    """Base class of all ops; an instance is an op with the params of one node.

    Class attributes:
        inputs, outputs: Declared ports.
        domain: Content of the arrays that `reference` receives.
        source: Origin of the definition.
        is_pure: Whether equal inputs always produce equal outputs. An op that draws random numbers
            or has state is never folded, merged or repeated.
        is_elementwise: Whether each element of the results depends only on the elements of the
            inputs at its position, after broadcasting.
        batch_axis: The axes of which each element is computed alone. An elementwise op does not
            state it.
        batch_inputs: Indices of the inputs that may have the batch, with `BatchAxis.FIRST`.
        quantization_roles: The inputs that are weights and biases, by index.
        state_outputs: Indices of the outputs whose encodings are also those of the op's state
            between its steps; see `states`.

    Quantization reads more facts: `value_range`, `result_encodings`, `clips`, `flat_beyond`,
    `keeps`, `keeps_all`, `added_range`, `rounds` and `keeps_whole`. A subclass states them as class
    attributes too, or as properties if they depend on params.
    """

    inputs: ClassVar[tuple[Port, ...]] = ()
    outputs: ClassVar[tuple[Port, ...]] = (Out("out[0]"),)
    domain: ClassVar[Domain] = Domain.REAL
    source: ClassVar[str] = ""
    is_pure: ClassVar[bool] = True
    is_elementwise: ClassVar[bool] = False
    batch_axis: ClassVar[BatchAxis] = BatchAxis.UNKNOWN
    batch_inputs: ClassVar[tuple[int, ...]] = (0,)
    quantization_roles: ClassVar[Mapping[int, Role]] = MappingProxyType({})
    state_outputs: ClassVar[tuple[int, ...]] = ()

    _fields: ClassVar[Mapping[str, ParamField[Any]]] = MappingProxyType({})

    if TYPE_CHECKING:  # subclasses choose a form; see the module docstring
        infer: Callable[..., Results]
        reference: Callable[..., Results]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found: dict[str, ParamField[Any]] = {}
        for base in reversed(cls.__mro__):
            found |= {n: f for n, f in vars(base).items() if isinstance(f, ParamField)}
        cls._fields = MappingProxyType(found)

    def __init__(self, ins: Specs = (), **params: Any) -> None:
        """Bind params; omitted ones have their defaults.

        Args:
            ins: Specs of the inputs, for defaults that depend on them.
            params: Values by name.

        Raises:
            TypeError: A param is unknown, or a required one is missing.
        """
        values = self.__dict__
        for name, field in self._fields.items():
            if name in params:
                values[name] = params.pop(name)
            elif field.is_required:
                raise TypeError(f"missing required param '{name}' of {type(self).__name__}")
            else:
                values[name] = field.default_value(ins)
        if params:
            raise TypeError(f"unknown params of {type(self).__name__}: {sorted(params)}")

    def work(self, ins: Specs, outs: Specs) -> int:
        """Return the multiply-accumulates of one execution, 0 unless a subclass counts them.

        Filters and products of matrices count, also where they multiply padding. Additions of a
        bias, elementwise arithmetic and interpolation do not.

        Args:
            ins: Specs of the inputs; None for omitted ones.
            outs: Specs of the outputs.
        """
        return 0

    def states(self, ins: Arrays, outs: Arrays) -> Mapping[int, Array]:
        """Return the values of the state that no output has, by index in `state_outputs`.

        An encoding must span them as well. Indices without such values may be left out.

        Args:
            ins: Real values, one for each declared input; None for an omitted one.
            outs: Results for them, one for each declared output.
        """
        return {}

    @property
    def value_range(self) -> Range:
        """The range of all results, whatever the inputs are."""
        return UNBOUNDED

    @property
    def result_encodings(self) -> Mapping[DType, ScaleOffset]:
        """The encodings of the first output that the op's source prescribes, by type."""
        return {}

    @property
    def clips(self) -> bool:
        """True if the op only clips its input, to `value_range`."""
        return False

    @property
    def flat_beyond(self) -> Range:
        """The inputs beyond which results are within half a step of a 16-bit grid of their limit.

        An op that clips does not state it.
        """
        return UNBOUNDED

    @property
    def keeps(self) -> tuple[int, ...]:
        """Indices of the inputs whose elements the first output consists of; none if it computes.

        An op of the domain MOVE does not state it: all its outputs consist of its inputs' elements.
        """
        return ()

    @property
    def keeps_all(self) -> bool:
        """True if the outputs together contain all elements of the inputs that the op keeps.

        Then an encoding of the outputs is also valid for the inputs.
        """
        return False

    @property
    def added_range(self) -> Range | None:
        """The range of values that an op of the domain MOVE adds to those of its inputs, if any."""
        return None

    @property
    def rounds(self) -> bool:
        """True if all results are whole numbers, whatever the inputs are."""
        return False

    @property
    def keeps_whole(self) -> bool:
        """True if all results are whole numbers where all inputs are.

        An op that clips, keeps elements, or is of the domain MOVE does not state it.
        """
        return False


def param_fields(op: type[Op]) -> Mapping[str, ParamField[Any]]:
    """Return the declared params of an op by name, base classes' first."""
    return op._fields
