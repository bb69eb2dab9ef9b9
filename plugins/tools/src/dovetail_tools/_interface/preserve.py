"""The forms of `--preserve-io`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dovetail.errors import Problem

_KINDS = ("layout", "datatype")
_WHERE = "--preserve-io"


@dataclass(frozen=True, slots=True)
class Preserved:
    """The tensors whose layouts and types stay those of the model.

    Attributes:
        layouts, types: Names; None for all inputs and outputs.
    """

    layouts: tuple[str, ...] | None = ()
    types: tuple[str, ...] | None = ()


def parse_preserve(uses: Iterable[Sequence[str]], problems: list[Problem]) -> Preserved:
    """Return what the uses of the option say together; one without names is for all.

    Args:
        uses: The values of each use: none, or a kind, or a kind and names.
        problems: Receives every fault.
    """
    found: dict[str, tuple[str, ...] | None] = {}
    for use in uses:
        kind, *names = use or ("",)
        if kind and kind not in _KINDS:
            text = f"unsupported value '{kind}'; expected layout, datatype or nothing"
            problems.append(Problem(text, _WHERE))
            continue
        for each in (kind,) if kind else _KINDS:
            known = found.get(each, ())
            found[each] = (*known, *names) if names and known is not None else None
    return Preserved(found.get("layout", ()), found.get("datatype", ()))
