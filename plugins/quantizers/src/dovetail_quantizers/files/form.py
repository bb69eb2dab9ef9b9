"""The form in memory of encodings files of all versions.

Integers of an entry are on the unsigned grid, as in versions up to 1.0.0:
`real = (q + offset) * scale`, q from 0 to 2^bitwidth - 1, offset = -zero_point. A symmetric entry
whose offset is -2^(bitwidth - 1) is stored signed in all versions.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Plain = bool | int | float | str | None

QNN_JSON = "qnn-json"
# Outputs of a Convert; further copies of a tensor, of other types, are numbered. A file may use
# such a name without a Convert in the graph: the tensor is float by its own entry, and other
# consumers need this encoding.
_COPY = re.compile(r"(.+)\.convert(?:_[0-9]+)?")
# Of the first output of an op, in names of TensorFlow.
_FIRST_OUTPUT = ":0"
# Keys of a file for the widths of tensors without an entry -> the quantizer's options.
BITWIDTHS: Mapping[str, str] = MappingProxyType(
    {
        "activation_bitwidth": "act_bitwidth",
        "param_bitwidth": "weights_bitwidth",
        "bias_bitwidth": "bias_bitwidth",
    }
)
VERSIONS = ("0.4.0", "0.5.0", "0.6.1", "1.0.0", "2.0.0", "2.1.0", QNN_JSON)


class Form(enum.Enum):
    """The granularity of scales; the values are the names of version 1.0.0."""

    PER_TENSOR = "PER_TENSOR"
    PER_CHANNEL = "PER_CHANNEL"
    PER_BLOCK = "PER_BLOCK"
    LPBQ = "LPBQ"

    @property
    def is_blocked(self) -> bool:
        """True if an axis is divided into blocks."""
        return self in (Form.PER_BLOCK, Form.LPBQ)


@dataclass(frozen=True, slots=True, eq=False)
class TensorEncoding:
    """The entry of one tensor of the user's model.

    Shapes: per tensor, scales are (); per channel (channels,). If the `axis` of a blocked form is
    known, `scales` (per block) or `block_scales` (LPBQ) have the axes of the tensor, the blocked
    one divided, and the `scales` of LPBQ have size 1 along all axes except the channel axis. If the
    file does not define the axis, scales are flat, channel by channel: (channels * blocks,) per
    block; (channels,) and (channels, blocks) for LPBQ. Offsets have the shape of the scales.

    Attributes:
        name: Of the tensor in the user's model.
        kind: Whether integers are stored, or floats of `bitwidth` bits.
        bitwidth: Of a stored number; for LPBQ, of a decompressed one.
        form: The granularity of scales.
        symmetric: Whether the file says so, or stores signed integers with zero points of 0.
        scales: None for floats, and for entries with only a type and a bitwidth.
        offsets: On the unsigned grid.
        axis: Axis of channels or blocks in the user's model; None if the file does not define it.
        block_size: Elements of a block along the axis.
        block_scales: LPBQ's integer factors.
        compressed_bitwidth: LPBQ's bits of a stored integer.
        minimum: Minimum of the range in the file, of the shape of the scales.
        maximum: Maximum of that range.
        signed: Whether the file says that integers are stored signed.
        is_param: Whether it is a weight or bias; None if the file does not say.
        zero_point_shift: As in 1.0.0.
    """

    name: str
    kind: Literal["int", "float"] = "int"
    bitwidth: int = 8
    form: Form = Form.PER_TENSOR
    symmetric: bool = False
    scales: Floats | None = None
    offsets: Ints | None = None
    axis: int | None = None
    block_size: int | None = None
    block_scales: Ints | None = None
    compressed_bitwidth: int | None = None
    minimum: Floats | None = None
    maximum: Floats | None = None
    signed: bool = False
    is_param: bool | None = None
    zero_point_shift: Floats | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorEncoding):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(self))
        return all(_same(mine, theirs) for mine, theirs in pairs)

    __hash__ = None  # type: ignore[assignment]  # it holds arrays

    @property
    def steps(self) -> int:
        """The largest integer of the unsigned grid."""
        return (1 << self.bitwidth) - 1

    @property
    def center(self) -> int:
        """The offset of a symmetric grid: -2^(bitwidth - 1)."""
        return -(1 << (self.bitwidth - 1))

    @property
    def is_open(self) -> bool:
        """True if the entry has only a type and a bitwidth; calibration chooses the range."""
        return self.kind == "int" and self.scales is None

    @property
    def is_derived(self) -> bool:
        """True if scales of 0 are placeholders of a derived encoding, such as that of a bias."""
        return self.scales is not None and not np.any(self.scales)

    @property
    def is_centered(self) -> bool:
        """True if every offset is that of a symmetric grid."""
        return self.offsets is not None and bool(np.all(self.offsets == self.center))

    @property
    def is_stored_signed(self) -> bool:
        """True if integers are stored signed: as the file says, or on a symmetric grid."""
        return self.signed or (self.symmetric and self.is_centered)

    @property
    def role_is_param(self) -> bool:
        """True for a weight or bias; a guess if the file does not say."""
        if self.is_param is not None:
            return self.is_param
        return self.form is not Form.PER_TENSOR or self.bitwidth == 32 or self.is_centered

    @property
    def range(self) -> tuple[Floats, Floats] | None:
        """The minimum and maximum: of the file, or of scale and offset."""
        if self.minimum is not None and self.maximum is not None:
            return self.minimum, self.maximum
        return self.grid_range

    @property
    def grid_range(self) -> tuple[Floats, Floats] | None:
        """The minimum and maximum of scale and offset."""
        if self.scales is None or self.offsets is None:
            return None
        return self.offsets * self.scales, (self.offsets + self.steps) * self.scales

    def with_factors(self, factors: Ints, compressed_bitwidth: int) -> TensorEncoding:
        """Return an entry of LPBQ with its integer factors."""
        return dataclasses.replace(
            self, block_scales=factors, compressed_bitwidth=compressed_bitwidth
        )


@dataclass(frozen=True, slots=True)
class EncodingsFile:
    """An encodings file.

    Attributes:
        version: One of VERSIONS; 0.4.0 also for files without a version.
        entries: By the names of the tensors, in the order of the file.
        producer: The tool that wrote it.
        quantizer_args: The options of that tool.
        excluded_layers: Layers left in float.
        bitwidths: Bitwidths of tensors without an entry, by keys of BITWIDTHS.
        notes: Numbers that were read differently from what is written.
    """

    version: str
    entries: dict[str, TensorEncoding]
    producer: dict[str, Plain] | None = None
    quantizer_args: dict[str, Plain] | None = None
    excluded_layers: tuple[str, ...] = ()
    bitwidths: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[Problem, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, version: str, entries: Iterable[TensorEncoding]) -> EncodingsFile:
        """Return a file with some entries of different names."""
        return cls(version, {entry.name: entry for entry in entries})

    def in_names_of(self, known: Container[str]) -> EncodingsFile:
        """Return the file with entries renamed to known names that differ only in ":0"."""
        made: dict[str, TensorEncoding] = {}
        for name, entry in self.entries.items():
            own = known_name(name, known)
            if own != name and own not in self.entries:
                entry = dataclasses.replace(entry, name=own)
            made[entry.name] = entry
        return dataclasses.replace(self, entries=made)

    @property
    def activations(self) -> dict[str, TensorEncoding]:
        """Entries of activations."""
        return {name: e for name, e in self.entries.items() if not e.role_is_param}

    @property
    def params(self) -> dict[str, TensorEncoding]:
        """Entries of weights and biases."""
        return {name: e for name, e in self.entries.items() if e.role_is_param}


def converted_from(name: str) -> str:
    """Return the tensor of which a name is that of a converted copy; "" if it is none."""
    found = _COPY.fullmatch(name)
    return "" if found is None else found[1]


def known_name(name: str, known: Container[str]) -> str:
    """Return the known name that a name of a file means; the name itself without one."""
    if name in known:
        return name
    others = (name.removesuffix(_FIRST_OUTPUT), name + _FIRST_OUTPUT)
    return next((other for other in others if other in known), name)


def _same(mine: object, theirs: object) -> bool:
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.array_equal(mine, theirs)
    return mine is theirs if mine is None or theirs is None else bool(mine == theirs)
