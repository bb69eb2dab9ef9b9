"""Types and shapes that the file declares, for ops that cannot infer their outputs."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.ir import Spec
from dovetail_onnx._dtypes import DTYPES
from dovetail_onnx._inputs import dims_of
from dovetail_onnx._source import SourceGraph
from dovetail_opset.importing.inputs import Dim


class DeclaredSpecs:
    """Declared types and shapes, with the symbols that the inputs bind.

    Args:
        source: The model.
        specs: Types and shapes of its inputs, as bound.
    """

    def __init__(self, source: SourceGraph, specs: Mapping[str, Spec]) -> None:
        self._infos = source.declared
        self._symbols: dict[str, int] = {}
        # if the user gave an input another shape, the declarations of other tensors are void
        self._holds = True
        for name, spec in specs.items():
            for dim, extent in zip(dims_of(source.inputs[name]) or (), spec.shape, strict=False):
                if isinstance(dim, str):
                    self._symbols[dim] = extent
                elif dim is not None and dim != extent:
                    self._holds = False

    def get(self, name: str) -> Spec | None:
        """Return a tensor's declared type and shape; None if the declaration is incomplete."""
        info = self._infos.get(name)
        if info is None or not self._holds:
            return None
        dims, dtype = dims_of(info), DTYPES.get(info.type.tensor_type.elem_type)
        if dims is None or dtype is None:
            return None
        shape = [self._extent(dim) for dim in dims]
        known = [extent for extent in shape if extent is not None]
        return Spec(dtype, tuple(known)) if len(known) == len(shape) else None

    def _extent(self, dim: Dim) -> int | None:
        # exporters write 0 for what they do not know
        return self._symbols.get(dim) if isinstance(dim, str) else dim or None
