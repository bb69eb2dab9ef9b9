"""Names of backends and models as users' scripts give them."""

from __future__ import annotations

import re
from pathlib import PurePath

from dovetail.errors import FrontendError

_LIBRARY = re.compile(r"(?:lib)?Qnn(?P<name>[A-Za-z]+)\.(?:so|dll)")


def backend_name(text: str) -> str:
    """Return a backend's name: `libQnnHtp.so`, with or without a path, is `htp`."""
    found = _LIBRARY.fullmatch(PurePath(text.replace("\\", "/")).name)
    return found["name"].lower() if found else text


def refuse_foreign(path: PurePath) -> None:
    """Refuses compiled models of the vendor's SDK, saying what to convert instead.

    Raises:
        FrontendError: The file is a `.so`, `.dll` or `.dlc`.
    """
    if path.suffix.lower() in (".so", ".dll", ".dlc"):
        raise FrontendError(
            f"a {path.suffix} file is a compiled model of the vendor's SDK, which cannot be read",
            code="MODEL_FOREIGN",
            where=str(path),
            hint="give the model it was made from: `dovetail convert -i model.onnx -o model.dvt`",
        )
