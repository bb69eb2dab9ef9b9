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
            "Model": "dovetail.container",
            "Session": "dovetail.api.session",
            "convert": "dovetail.api.conversion",
            "export": "dovetail.api.exporting",
            "load": "dovetail.api.loading",
            "load_model": "dovetail.api.loading",
            "quantize": "dovetail.api.quantization",
            "record": "dovetail.api.recording",
        },
    )

__all__ = ["Model", "Session", "convert", "export", "load", "load_model", "quantize", "record"]
