"""Inputs of a trial, and buffers for its outputs."""

from __future__ import annotations

import math

import numpy as np

from dovetail.container import aligned_empty
from dovetail.ir import Array
from dovetail.ops import from_real
from dovetail.runtime.interface import Endpoint, Interface


def trial_buffers(interface: Interface) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return inputs of a graph, and buffers for its outputs.

    Inputs are random real values between 0 and 1, in the form of their types. Integers, which may
    be indices, and bools are zeros. A tensor that is both input and output has one buffer.
    """
    random = np.random.default_rng(0)
    inputs = {name: _input(end, random) for name, end in interface.inputs.items()}
    outputs = {
        name: inputs[name] if name in inputs else _zeros(end)
        for name, end in interface.outputs.items()
    }
    return inputs, outputs


def _input(end: Endpoint, random: np.random.Generator) -> Array:
    buffer, tensor = _zeros(end), end.tensor
    if tensor.dtype.is_float or (tensor.dtype.is_fixed_point and tensor.encoding is not None):
        buffer[...] = from_real(random.random(end.shape, np.float32), tensor.spec)
    return buffer


def _zeros(end: Endpoint) -> Array:
    found = aligned_empty(math.prod(end.shape) * end.storage.itemsize)
    found[...] = 0
    return found.view(end.storage).reshape(end.shape)
