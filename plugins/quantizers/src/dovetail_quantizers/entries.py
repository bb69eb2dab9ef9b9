"""Checks of the entries of an encodings file against a model."""

from __future__ import annotations

from dovetail.container import Model
from dovetail.errors import QuantizationError
from dovetail.quantization import QuantizationOptions
from dovetail_quantizers.files import EncodingsFile
from dovetail_quantizers.planning.overrides import unmatched, without_tensor


def check_entries(
    file: EncodingsFile | None, model: Model, options: QuantizationOptions
) -> list[str]:
    """Return notes on entries without a tensor.

    Raises:
        QuantizationError: There are some, and the options are not lenient.
    """
    if file is None:
        return []
    graphs = tuple(model.graphs.values())
    problems = unmatched(file, graphs)
    if problems and not options.lenient:
        raise QuantizationError(
            f"{len(problems)} of {len(file.entries)} entries match no tensor",
            code="ENCODING_UNMATCHED",
            where=str(options.quantization_overrides),
            hint="--lenient ignores them",
            problems=problems,
        )
    removed_sources = without_tensor(file, graphs)
    return [
        str(each)
        for each in (*file.notes, *problems, *([removed_sources] if removed_sources else []))
    ]
