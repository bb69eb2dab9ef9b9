"""Checks of the entries of an encodings file against a model."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.errors import QuantizationError, listed
from dovetail.ir import Graph
from dovetail.quantization import QuantizationOptions
from dovetail_quantizers.files import EncodingsFile
from dovetail_quantizers.planning.overrides import unmatched, unmatched_names, without_tensor

_MAX_NOTES = 3  # on single entries
_SHOWN = 8  # names, where there are more


def check_entries(
    file: EncodingsFile | None, graphs: Sequence[Graph], options: QuantizationOptions
) -> list[str]:
    """Return notes on entries without a tensor.

    Args:
        file: The file; None without one.
        graphs: The graphs of the model, and what else has the tensors of entries.
        options: The options.

    Raises:
        QuantizationError: There are some, and the options are not lenient.
    """
    if file is None:
        return []
    problems = unmatched(file, graphs)
    if problems and not options.lenient:
        raise QuantizationError(
            f"{len(problems)} of {len(file.entries)} entries match no tensor",
            code="ENCODING_UNMATCHED",
            where=str(options.quantization_overrides),
            hint="--lenient ignores them",
            problems=problems,
        )
    notes = [str(problem) for problem in problems]
    if len(notes) > _MAX_NOTES:
        names = listed([f"'{name}'" for name in unmatched_names(file, graphs)], _SHOWN)
        text = f"{len(notes)} of {len(file.entries)} entries match no tensor of the model: {names}"
        notes = [text]
    removed_sources = without_tensor(file, graphs)
    return [*map(str, file.notes), *notes, *([removed_sources] if removed_sources else [])]
