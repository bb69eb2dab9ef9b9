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
    """Return what the uses of the option say together.

    Args:
        uses: The values of each use: none, or a kind, or a kind and names.
        problems: Receives every fault.
    """
    found: dict[str, tuple[str, ...] | None] = {}
    forms = set()
    for use in uses:
        kind, *names = use or ("",)
        forms.add("all" if not kind else "names" if names else "kind")
        if kind and kind not in _KINDS:
            text = f"unsupported value '{kind}'; expected layout, datatype or nothing"
            problems.append(Problem(text, _WHERE))
            continue
        for each in (kind,) if kind else _KINDS:
            if each in found:
                problems.append(Problem(f"'{each}' is given twice", _WHERE))
            found[each] = tuple(names) or None
    if "names" in forms and len(forms) > 1:
        text = "names of tensors cannot be combined with a use that is for all inputs and outputs"
        problems.append(Problem(text, _WHERE))
    return Preserved(found.get("layout", ()), found.get("datatype", ()))
