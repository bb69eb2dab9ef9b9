"""Raw files: little-endian, C order, float32 or stored values; no header."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dovetail.cli.inputs.errors import InputError
from dovetail.files import unreadable
from dovetail.ir import Array, DType, Tensor
from dovetail.ops import from_real, to_real, unstorable

_FLOAT = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class RawFormat:
    """The format of one tensor in a raw file.

    Attributes:
        tensor: The tensor.
        native: Whether the file has stored values, one array item each (4-bit values take a byte);
            otherwise it has float32 values.
    """

    tensor: Tensor
    native: bool

    @property
    def item(self) -> np.dtype[np.generic]:
        """Data type of a value in the file."""
        return self.tensor.dtype.storage if self.native else _FLOAT

    @property
    def count(self) -> int:
        """Number of values of the tensor."""
        return int(np.prod(self.tensor.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Size of a file with the whole tensor, in bytes."""
        return self.count * self.item.itemsize

    @property
    def is_stored(self) -> bool:
        """True if the file has the stored bytes of the tensor."""
        return self.item == self.tensor.dtype.storage

    def __str__(self) -> str:
        name = self.tensor.dtype.name if self.native else "float32"
        return f"{name} of shape {self.tensor.shape}"


class RawReader:
    """Reads one input from raw files into an array.

    Attributes:
        stored: Stored values of the input, of its shape, C-contiguous.
    """

    def __init__(self, form: RawFormat) -> None:
        self._form = form
        tensor = form.tensor
        self.stored: Array = np.zeros(tensor.shape, tensor.dtype.storage)
        # buffer for values before their conversion
        self._staged = self.stored if form.is_stored else np.zeros(tensor.shape, form.item)

    def read(self, paths: list[Path], parts: int = 1) -> None:
        """Read files, each with one of `parts` equal parts of the leading axis.

        Parts without a file become zeros.

        Raises:
            FrontendError: A file cannot be read.
            InputError: A file has become shorter, or has values that the input cannot hold.
        """
        if self._staged.size == 0:
            return
        rows = self._staged.reshape(parts, -1)
        for row, path in zip(rows, paths, strict=False):
            _read_into(path, row)
            self._check(path, row)
        rows[len(paths) :] = 0
        if self._staged is not self.stored:
            # values beyond float16 become infinite; NaN has no fixed-point value
            with np.errstate(over="ignore", invalid="ignore"):
                self.stored[...] = from_real(self._staged, self._form.tensor.spec)

    def real(self) -> Array:
        """Return the real values of the input, of its shape; valid until the next read."""
        return to_real(self.stored, self._form.tensor.spec)

    def _check(self, path: Path, row: Array) -> None:
        dtype = self._form.tensor.dtype
        if dtype is DType.BOOL_8 and self._form.native:
            # a file may have any byte, but an array of bools only these two
            _check_values(path, row.view(np.uint8), row.view(np.uint8) > 1, self._form)
        elif not self._form.is_stored:
            _check_values(path, row, unstorable(row, dtype), self._form)


def write_raw(path: Path, stored: Array, form: RawFormat) -> None:
    """Write a tensor, or a part of it.

    Args:
        path: The file.
        stored: Stored values.
        form: Format of the file; values of types wider than float32 are rounded.

    Raises:
        OSError: The file cannot be written.
    """
    values = stored
    if not form.is_stored:
        with np.errstate(over="ignore"):  # values beyond float32 become infinite
            values = to_real(stored, form.tensor.spec).astype(_FLOAT)
    path.write_bytes(np.ascontiguousarray(values).tobytes())


def _read_into(path: Path, row: Array) -> None:
    view = row.view(np.uint8).data
    try:
        with path.open("rb", buffering=0) as file:
            done = 0
            while done < len(view) and (count := file.readinto(view[done:])):
                done += count
    except OSError as error:
        raise unreadable(path, error) from error
    if done < len(view):
        raise InputError(
            f"expected {len(view)} bytes, got {done}",
            where=str(path),
            hint="the file was longer when the run began: check whether another program writes it",
        )


def _check_values(path: Path, row: Array, wrong: Array, form: RawFormat) -> None:
    if not wrong.any():
        return
    at = int(np.argmax(wrong))
    hint = (
        "save the values 0 and 1"
        if form.native
        else "if the file has values of that type, use --use-native-input-files or "
        f"--native-input-tensor-names {form.tensor.name}"
    )
    raise InputError(
        f"value {at} of the file is {row[at]!s}, which type {form.tensor.dtype.name} of input "
        f"'{form.tensor.name}' cannot represent",
        where=str(path),
        hint=hint,
    )
