"""Params of ops, declared as fields: `group = uint32(default=1)`.

A field is a descriptor: its value is the field itself on the class (name, type, default), and the
param's Python value on an op.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from dovetail.ir import Blob, DType, Param, Scalar, Spec, Tensor, TensorKind, pack

T = TypeVar("T")
Specs = Sequence[Spec | None]

# Bytes up to which equal params share their data.
_SHARED_BYTES = 64


class Required(enum.Enum):
    """Marks a param without a default."""

    REQUIRED = enum.auto()


REQUIRED = Required.REQUIRED


class ParamField(Generic[T]):
    """A declared param.

    Attributes:
        name: The param's name: the attribute it is assigned to.
        dtypes: Allowed types, the usual one first.
        is_tensor: Whether it is a tensor param.
        shape: Shape of a tensor param; None for a size or rank that depends on the inputs.
        default: The value, a function of the input specs that returns it, or REQUIRED.
        choices: The names and numbers of an enum param.
    """

    name: str

    def __init__(
        self,
        dtypes: Sequence[DType],
        default: T | Callable[[Specs], T] | Required,
        *,
        is_tensor: bool = False,
        shape: tuple[int | None, ...] | None = None,
        choices: type[enum.IntEnum] | None = None,
    ) -> None:
        self.dtypes = tuple(dtypes)
        self.default = default
        self.is_tensor = is_tensor
        self.shape = shape
        self.choices = choices
        self._numbers = frozenset(map(int, choices or ()))

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[object]) -> ParamField[T]: ...
    @overload
    def __get__(self, op: object, owner: type[object]) -> T: ...
    def __get__(self, op: object | None, owner: type[object]) -> ParamField[T] | T:
        if op is None:
            return self
        value: T = op.__dict__[self.name]
        return value

    def __set__(self, op: object, value: T) -> None:
        # a data descriptor: an op's params are set once, by `Op.__init__`
        raise AttributeError(f"param {self.name} of an op cannot be changed")

    @property
    def is_required(self) -> bool:
        """True if a node must set it."""
        return self.default is REQUIRED

    def default_value(self, ins: Specs) -> T:
        """Return the default for a node with these inputs."""
        default = self.default
        if callable(default):
            return default(ins)
        if isinstance(default, Required):
            raise ValueError(f"param {self.name} has no default")
        return default

    def faults(self, param: Param) -> list[str]:
        """Return every reason why a node's param is invalid; empty if it is valid."""
        found = []
        if param.dtype not in self.dtypes:
            allowed = ", ".join(d.name for d in self.dtypes)
            found.append(f"param '{self.name}' is {param.dtype.name}; allowed: {allowed}")
        if isinstance(param, Tensor) is not self.is_tensor:
            kind = "tensor" if self.is_tensor else "scalar"
            return [*found, f"param '{self.name}' must be a {kind}"]
        if isinstance(param, Tensor):
            return found + self._shape_faults(param)
        if not param.fits:
            found.append(
                f"param '{self.name}' is {param.dtype.name}, which cannot hold {param.value!r}"
            )
        elif self.choices is not None and param.value not in self._numbers:
            names = ", ".join(f"{c.name}={int(c)}" for c in self.choices)
            found.append(f"param '{self.name}' is {param.value}; allowed: {names}")
        return found

    def value_of(self, param: Param) -> T:
        """Return the Python value of a node's param."""
        value: Any
        if isinstance(param, Tensor):
            value = param.values()
        elif self.choices is not None:
            value = self.choices(int(param.value))
        elif param.dtype.is_float:
            value = float(param.value)  # files have whole numbers without a point, too
        else:
            value = param.value
        return value  # type: ignore[no-any-return]

    def param_of(self, value: Any, node: str) -> Param:
        """Return the IR param for a Python value, typed with the field's usual type.

        Args:
            value: A number, bool, text, enum member or, for a tensor param, anything array-like; a
                Scalar to choose a type other than the usual one.
            node: Name of the node; a tensor param's name begins with it.
        """
        if isinstance(value, Scalar):
            return value
        dtype = self.dtypes[0]
        if self.is_tensor:
            name, array = f"{node}.{self.name}", np.asarray(value, dtype.storage)
            if array.nbytes > _SHARED_BYTES:
                return Tensor.static(name, array, dtype)
            data = _shared_data(array.tobytes(), dtype)
            return Tensor(name, dtype, array.shape, TensorKind.STATIC, data=data)
        return Scalar(dtype, int(value) if isinstance(value, enum.IntEnum) else value)

    def _shape_faults(self, param: Tensor) -> list[str]:
        if self.shape is None or self.shape == param.shape:
            return []
        fits = len(param.shape) == len(self.shape) and all(
            want is None or want == have
            for want, have in zip(self.shape, param.shape, strict=False)
        )
        wanted = "x".join("any" if n is None else str(n) for n in self.shape)
        return [] if fits else [f"param '{self.name}' has shape {param.shape}; expected {wanted}"]


@lru_cache(maxsize=1024)
def _shared_data(values: bytes, dtype: DType) -> Blob:
    """Return the stored values of a param: the nodes of a model have few different ones."""
    return pack(np.frombuffer(values, dtype.storage), dtype)


def uint32(default: int | Callable[[Specs], int] | Required = REQUIRED) -> ParamField[int]:
    """Declare a UINT_32 scalar."""
    return ParamField((DType.UINT_32,), default)


def int32(default: int | Callable[[Specs], int] | Required = REQUIRED) -> ParamField[int]:
    """Declare an INT_32 scalar."""
    return ParamField((DType.INT_32,), default)


def float32(default: float | Callable[[Specs], float] | Required = REQUIRED) -> ParamField[float]:
    """Declare a FLOAT_32 scalar."""
    return ParamField((DType.FLOAT_32,), default)


def bool8(default: bool | Required = REQUIRED) -> ParamField[bool]:
    """Declare a BOOL_8 scalar."""
    return ParamField((DType.BOOL_8,), default)


E = TypeVar("E", bound=enum.IntEnum)


def choice(
    choices: type[E], default: E | Required = REQUIRED, *, dtype: DType = DType.UINT_32
) -> ParamField[E]:
    """Declare an enum scalar."""
    return ParamField((dtype,), default, choices=choices)


def scalar(default: Any = REQUIRED, *, dtypes: Sequence[DType]) -> ParamField[Any]:
    """Declare a scalar of one of several types."""
    return ParamField(dtypes, default)


def tensor(
    shape: tuple[int | None, ...] | None,
    default: Any = REQUIRED,
    *,
    dtype: DType = DType.UINT_32,
) -> ParamField[NDArray[Any]]:
    """Declare a tensor param.

    Args:
        shape: Its shape, with None for a size that depends on the inputs; None for any shape.
        default: Array-like, a function of the input specs, REQUIRED, or None if it is optional.
        dtype: Its type.
    """
    if default is not None and default is not REQUIRED and not callable(default):
        default = np.asarray(default, dtype.storage)
    return ParamField((dtype,), default, is_tensor=True, shape=shape)


def last_axis(ins: Specs) -> int:
    """Return the last axis of the first input, for the default of an `axis` param."""
    first = ins[0] if ins else None
    return len(first.shape) - 1 if first is not None else 0
