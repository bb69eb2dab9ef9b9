"""The systems on chip: model number, name, architecture of the Hexagon processor, size of VTCM.

Sources of ids give some twice, for chips with the same processor: a name selects one, and an
id means the first of its rows. Sources: the table of supported devices of the vendor's reference;
public configs; for VTCM, the SoC table of ExecuTorch.
"""

from __future__ import annotations

import functools

import msgspec

from dovetail.errors import suggest_name
from dovetail_htp._data import read_data


class Soc(msgspec.Struct, frozen=True):
    """A system on chip.

    Attributes:
        id: Its model number.
        name: Its name.
        arch: Architecture of its Hexagon processor, 68 and more with an HTP; 0 if it has none that
            runs networks; None if the sources do not say.
        vtcm_mb: Size of the HTP's VTCM in MB; None if the sources do not say.
    """

    id: int
    name: str
    arch: int | None = None
    vtcm_mb: int | None = None

    @property
    def has_htp(self) -> bool:
        """True unless the sources say that it has no HTP."""
        return self.arch is None or self.arch >= 68


@functools.cache
def socs() -> tuple[Soc, ...]:
    """Return all known systems on chip, by id."""
    return tuple(read_data("socs.json", list[Soc]))


@functools.cache
def find_soc(model: int | str) -> Soc:
    """Return the system on chip of an id or a name.

    Raises:
        ValueError: It is unknown.
    """
    for soc in socs():
        if model == (soc.id if isinstance(model, int) else soc.name):
            return soc
    hint = suggest_name(str(model), [soc.name for soc in socs()]) if isinstance(model, str) else ""
    raise ValueError(f"unknown SoC model {model!r}{f'; {hint}' if hint else ''}")
