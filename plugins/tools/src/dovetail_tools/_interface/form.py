"""The wanted form of one input or output, collected from several options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

LAYOUTS = ("NCDHW", "NDHWC", "NCHW", "NHWC", "NFC", "NCF", "NTF", "TNF", "NF", "NC", "F")
NONTRIVIAL = "NONTRIVIAL"
_TIMES = ("NTF", "TNF")  # layouts that nothing in a model shows
TypeName = Literal[
    "float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"
]
# Types that need a scale if the model is not quantized.
STORED = ("int8", "uint8", "int16", "uint16")


@dataclass(slots=True)
class Form:
    """The options about a tensor; None where there is none.

    Attributes:
        model_layout: The layout in the model.
        layout: The wanted layout.
        dtype: The wanted type.
        scale, offset: The wanted encoding.
        colors: Colors that the application passes, and those of the model.
        stored_dtype: The wanted type after the quantizer has chosen the encoding.
        is_opaque: Whether the quantizer leaves the tensor as it is.
    """

    model_layout: str | None = None
    layout: str | None = None
    dtype: str | None = None
    scale: float | None = None
    offset: int | None = None
    colors: tuple[str, str] | None = None
    stored_dtype: str | None = None
    is_opaque: bool = False

    def faults(self) -> Iterator[str]:
        """Yield why the options contradict each other."""
        for layout in (self.model_layout, self.layout):
            if layout not in (None, NONTRIVIAL, *LAYOUTS):
                yield f"unsupported layout '{layout}'; expected one of {', '.join(LAYOUTS)}"
        if self.layout in _TIMES and self.model_layout is None:
            yield (
                f"the layout {self.layout} is requested, but the model's layout is not given; give "
                "it by --input-layout, or in the file, as Layout under `Src Model Parameters` or "
                "as Model under `Layout`"
            )
        if self.scale is not None and self.dtype not in STORED:
            expected = ", ".join(STORED)
            yield f"a scale is given for the type {self.dtype}; expected one of {expected}"

    def as_option(self, name: str, *, is_quantized: bool, keeps_layout: bool) -> dict[str, Any]:
        """Return the form for the pass `interface`.

        Args:
            name: The tensor.
            is_quantized: Whether the quantizer chooses an encoding that is not given.
            keeps_layout: Whether the layout stays the model's unless another one is requested.
        """
        own, wanted = self.model_layout, self.layout
        plain = wanted is None or NONTRIVIAL in (own, wanted)
        layout = None if plain else (own or "", wanted)
        if self.colors is not None and layout is None and own not in (None, NONTRIVIAL):
            layout = (own, own if keeps_layout else "NHWC")
        is_open = self.dtype in STORED and self.scale is None and not self.colors
        return {
            "name": name,
            "layout": layout,
            "dtype": None if is_open and is_quantized else self.dtype,
            "scale": self.scale,
            "offset": self.offset or 0,
            "colors": self.colors,
            "model_layout": None if own == NONTRIVIAL else own,
            "is_stored": is_open and not is_quantized,
            "keeps_layout": keeps_layout,
        }

    def after_quantization(self, name: str) -> dict[str, Any] | None:
        """Return the form for the pass `interface` of a quantized model; None if it has none."""
        if self.stored_dtype is None or self.scale is not None or self.colors is not None:
            return None
        return {"name": name, "dtype": self.stored_dtype, "is_stored": self.stored_dtype in STORED}
