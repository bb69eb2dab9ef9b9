"""The inputs and outputs of a graph, as the application sees them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
import numpy as np

from dovetail.ir import DType, Shape, Tensor

# Up to this size in bytes, copying an array is faster than binding another one (some 2 us).
_SMALL = 1 << 14


class Endpoint(msgspec.Struct, frozen=True):
    """An input or output of a graph, as the application sees it.

    Attributes:
        tensor: The tensor.
        shape: Its shape.
        storage: NumPy type of a stored element.
        stores_real: Whether stored elements are the real values: float32, whole integers and bool.
        nbytes: Size of its stored values.
        is_small: Whether copying it is faster than binding another array.
    """

    tensor: Tensor
    shape: Shape
    storage: np.dtype[np.generic]
    stores_real: bool
    nbytes: int
    is_small: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Endpoint:
        """Create the endpoint of a tensor."""
        dtype, storage = tensor.dtype, tensor.dtype.storage
        is_whole = (dtype.is_int or dtype is DType.BOOL_8) and not dtype.is_packed
        nbytes = math.prod(tensor.shape) * storage.itemsize
        stores_real = is_whole or dtype is DType.FLOAT_32
        return cls(tensor, tensor.shape, storage, stores_real, nbytes, nbytes <= _SMALL)


class Interface(msgspec.Struct, frozen=True, dict=True):
    """The inputs and outputs of a graph, recorded when it is finalized.

    Attributes:
        graph: Name of the graph.
        inputs, outputs: Endpoints by tensor name.
    """

    graph: str
    inputs: Mapping[str, Endpoint]
    outputs: Mapping[str, Endpoint]

    @cached_property
    def gives_real(self) -> bool:
        """True if the stored values of all outputs are the real values."""
        return all(end.stores_real for end in self.outputs.values())

    @classmethod
    def of(cls, graph: str, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> Interface:
        """Create the interface of a graph with these inputs and outputs."""
        return cls(
            graph,
            {t.name: Endpoint.of(t) for t in inputs},
            {t.name: Endpoint.of(t) for t in outputs},
        )
