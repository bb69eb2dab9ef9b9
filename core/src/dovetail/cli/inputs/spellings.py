"""Names as users spell them: those of the graph, and those that the SDK's tools write for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dovetail.files import identifier, safe_name
from dovetail.ir import Tensor


def spellings(names: Iterable[str], sources: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return names by their accepted spellings.

    A name is spelled as it is, as in the user's model, as in the name of an output file, or as in
    the C++ and JSON of the converters; all but the first only if no other name is spelled so.

    Args:
        names: Names of the objects that a user can mean.
        sources: Their names in the user's model; by default the same.
    """
    exact = {name: name for name in names}
    others: dict[str, set[str]] = {}
    for name in exact:
        source = name if sources is None else sources[name]
        for spelling in (source, safe_name(name), identifier(name)):
            others.setdefault(spelling, set()).add(name)
    return exact | {
        spelling: meant.pop()
        for spelling, meant in others.items()
        if spelling not in exact and len(meant) == 1
    }


def tensor_spellings(tensors: Iterable[Tensor]) -> dict[str, str]:
    """Return the names of tensors by their accepted spellings."""
    sources = {tensor.name: tensor.source for tensor in tensors}
    return spellings(sources, sources)
