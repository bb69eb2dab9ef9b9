"""Names of backends and models in users' scripts."""

from __future__ import annotations

import re
from pathlib import PurePath

from dovetail.errors import FrontendError

_LIBRARY = re.compile(r"(?:lib)?Qnn(?P<name>[A-Za-z]+)\.(?:so|dll)")


def backend_name(text: str) -> str:
    """Return a backend's name; `libQnnHtp.so`, with or without a path, means `htp`."""
    found = _LIBRARY.fullmatch(PurePath(text.replace("\\", "/")).name)
    return found["name"].lower() if found else text


def reject_foreign(path: PurePath) -> None:
    """Raise for compiled models of the vendor's SDK.

    Raises:
        FrontendError: The file is a `.so`, `.dll` or `.dlc`.
    """
    if path.suffix.lower() in (".so", ".dll", ".dlc"):
        raise FrontendError(
            f"a {path.suffix} file is a compiled model of the vendor's SDK, which cannot be read",
            code="MODEL_FOREIGN",
            where=str(path),
            hint="pass the source model instead: `dovetail convert -i model.onnx -o model.dvt`",
        )
