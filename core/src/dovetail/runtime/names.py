"""Names of backends and models in users' scripts."""

from __future__ import annotations

import re
from pathlib import PurePath

from dovetail.errors import FrontendError

_LIBRARY = re.compile(r"(?:lib)?Qnn(?P<name>[A-Za-z]+)\.(?:so|dll)")
HETERO = "hetero"  # the backend that places parts of graphs on others


def backend_name(text: str) -> str:
    """Return a backend's name; `libQnnHtp.so`, with or without a path, means `htp`.

    The same in `hetero:a,b`, the backend `hetero` with its order.
    """
    name, order = split_order(text)
    if order is not None:
        return f"{name}:{','.join(map(backend_name, order))}"
    found = _LIBRARY.fullmatch(PurePath(text.replace("\\", "/")).name)
    return found["name"].lower() if found else text


def split_order(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Return `hetero` and its order for `hetero:a,b`; any other name has no order."""
    name, colon, order = text.partition(":")
    if name != HETERO or not colon:
        return text, None
    return name, tuple(part.strip() for part in order.split(",")) if order else ()


def members_of(backend: str) -> tuple[str, ...] | None:
    """Return the backends that run for a name; None for `hetero` with an order in its config."""
    name, order = split_order(backend)
    return None if name == HETERO and order is None else order or (name,)


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
