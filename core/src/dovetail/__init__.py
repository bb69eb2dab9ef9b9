"""Dovetail: convert, quantize and run neural networks on interchangeable backends.

    import dovetail as dt

    model = dt.convert("model.onnx")
    with dt.Session(model, backend="cpu") as session:
        outputs = session.run({"input": array})

Members are imported on first use, so that importing the package is cheap: every start of the
command line does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.lazy import lazy_names

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

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "dovetail.api": [
                "Model",
                "Session",
                "convert",
                "export",
                "load",
                "load_model",
                "quantize",
                "record",
            ],
            "dovetail.errors": ["DovetailError"],
            "dovetail.runtime": [],
        },
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
