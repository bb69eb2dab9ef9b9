"""The names that most users need; re-exported from `dovetail`."""

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names

if TYPE_CHECKING:
    from dovetail.api.conversion import convert
    from dovetail.api.exporting import export
    from dovetail.api.loading import load, load_model
    from dovetail.api.quantization import quantize
    from dovetail.api.recording import record
    from dovetail.api.session import Session
    from dovetail.container import Model
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "dovetail.container": ["Model"],
            "dovetail.api.session": ["Session"],
            "dovetail.api.conversion": ["convert"],
            "dovetail.api.exporting": ["export"],
            "dovetail.api.loading": ["load", "load_model"],
            "dovetail.api.quantization": ["quantize"],
            "dovetail.api.recording": ["record"],
        },
    )

__all__ = ["Model", "Session", "convert", "export", "load", "load_model", "quantize", "record"]
