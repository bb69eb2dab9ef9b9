"""Entries in versions 0.6.1 and 1.0.0: offsets on the unsigned grid."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail_quantizers.files._arrange import flat
from dovetail_quantizers.files.form import Form, TensorEncoding


class NotHeldError(Exception):
    """A version cannot represent an entry; the message says why. Caught in this package."""


def old_entry(entry: TensorEncoding) -> list[dict[str, Any]]:
    """Return an entry in the form of 0.6.1.

    Raises:
        NotHeldError: The version cannot represent the entry.
    """
    if entry.kind == "float":
        return [{"bitwidth": entry.bitwidth, "dtype": "float"}]
    if entry.form.is_blocked:
        raise NotHeldError("has blocks, which the version cannot represent")
    if entry.bitwidth < 4:
        raise NotHeldError(f"has {entry.bitwidth} bits; expected 4 to 32")
    if entry.zero_point_shift is not None:
        raise NotHeldError("has a shift of the zero point")
    common = {
        "bitwidth": entry.bitwidth,
        "dtype": "int",
        "is_symmetric": str(entry.symmetric),
    }
    ranges = entry.range
    if entry.scales is None or entry.offsets is None or ranges is None:
        return [common]
    columns = (entry.scales, entry.offsets.astype(np.float64), *ranges)
    rows = zip(*(np.ravel(column).tolist() for column in columns), strict=True)
    keys = ("scale", "offset", "min", "max")
    return [common | dict(zip(keys, row, strict=True)) for row in rows]


def new_entry(entry: TensorEncoding) -> dict[str, Any]:
    """Return an entry in the form of 1.0.0.

    Raises:
        NotHeldError: The version cannot represent the entry.
    """
    made: dict[str, Any] = {
        "name": entry.name,
        "dtype": entry.kind.upper(),
        "enc_type": entry.form.value,
        "bw": entry.bitwidth,
    }
    if entry.kind == "float":
        return made
    listed = flat(entry)
    if listed is None:
        raise NotHeldError("has blocks that differ along further axes")
    if listed.scales is None or listed.offsets is None:
        raise NotHeldError("has no scale and offset")
    whole = np.ravel(listed.offsets).tolist()
    made |= {
        "is_sym": entry.symmetric,
        "scale": np.ravel(listed.scales).tolist(),
        # as AIMET writes them
        "offset": whole if entry.form is Form.LPBQ else [float(offset) for offset in whole],
    }
    if entry.block_size is not None:
        made["block_size"] = entry.block_size
    if listed.block_scales is not None:
        made["compressed_bw"] = entry.compressed_bitwidth
        made["per_block_int_scale"] = np.ravel(listed.block_scales).tolist()
    if entry.zero_point_shift is not None:
        made["zero_point_shift"] = entry.zero_point_shift.tolist()
    return made
