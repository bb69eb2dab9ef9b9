"""Dovetail: convert, quantize and run neural networks on interchangeable backends.

    import dovetail as dt

    model = dt.convert("model.onnx")
    with dt.Session(model, backend="cpu") as session:
        outputs = session.run({"input": array})

Members are imported on first use, so that importing the package is cheap: every start of the
command line does it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail import runtime
    from dovetail.api import Model, Session, convert, export, load, load_model, quantize, record
    from dovetail.errors import DovetailError

__version__ = "0.1.0"

__all__ = [
    "DovetailError",
    "Model",
    "Session",
    "__version__",
    "convert",
    "export",
    "load",
    "load_model",
    "quantize",
    "record",
    "runtime",
]

_HOMES = {
    "DovetailError": "dovetail.errors",
    "Model": "dovetail.api",
    "Session": "dovetail.api",
    "convert": "dovetail.api",
    "export": "dovetail.api",
    "load": "dovetail.api",
    "load_model": "dovetail.api",
    "quantize": "dovetail.api",
    "record": "dovetail.api",
}


def __getattr__(name: str) -> Any:
    if name == "runtime":
        return importlib.import_module("dovetail.runtime")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dovetail' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
