"""Names of backends and models in users' scripts."""

from __future__ import annotations

import re
from pathlib import PurePath

from dovetail.errors import FrontendError

_LIBRARY = (
    r"(?:lib)?Qnn(?P<name>[A-Za-z]+?)"
    r"(?:AltPrepStub|V(?P<arch>\d+)(?:Calculator)?(?:Stub|Skel)?)?\.(?:so|dll)"
)
# Names of the SDK's accuracy tools: from this architecture on, the DSP has an HTP.
_RUNTIME = r"dspv(?P<arch>\d\d)"
_FIRST_HTP = 68
HETERO = "hetero"  # the backend that runs parts of graphs on others
AUTO = "auto"  # the backend that chooses one of the others, or runs parts on several
COMPOSITE = (HETERO, AUTO)  # their names may list others in order


def backend_name(text: str) -> str:
    """Return a backend's name; `libQnnHtp.so`, with or without a path, means `htp`.

    `libQnnHtpV73Stub.so` and `dspv73` mean `htp:v73`, that backend with its option `arch`. The same
    in `hetero:a,b` and `auto:a,b`, the backends `hetero` and `auto` with their order.
    """
    name, order = split_order(text)
    return _plain_name(text) if order is None else f"{name}:{','.join(map(_plain_name, order))}"


def _plain_name(text: str) -> str:
    if text.isalpha():  # most names; to compile the patterns takes longer than all else here
        return text
    if runtime := re.fullmatch(_RUNTIME, text):
        return f"{'htp' if int(runtime['arch']) >= _FIRST_HTP else 'dsp'}:v{runtime['arch']}"
    found = re.fullmatch(_LIBRARY, PurePath(text.replace("\\", "/")).name)
    if found is None:
        return text
    plain = found["name"].lower()
    return f"{plain}:v{found['arch']}" if found["arch"] else plain


def split_arch(text: str) -> tuple[str, str | None]:
    """Return `htp` and `v73` for `htp:v73`; `hetero` alone for `hetero:a,b`, likewise `auto`."""
    name, colon, arch = text.partition(":")
    return name, arch if colon and name not in COMPOSITE else None


def without_arch(text: str) -> str:
    """Return `htp` for `htp:v73`, and any other name as it is."""
    name, arch = split_arch(text)
    return text if arch is None else name


def split_order(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Return `hetero` and its order for `hetero:a,b`, likewise `auto`; others have no order."""
    name, colon, order = text.partition(":")
    if name not in COMPOSITE or not colon:
        return text, None
    return name, tuple(part.strip() for part in order.split(",")) if order else ()


def members_of(backend: str) -> tuple[str, ...] | None:
    """Return the backends that may run for a name; None for `hetero` or `auto` without order."""
    name, order = split_order(backend)
    return (
        None if name in COMPOSITE and order is None else tuple(map(without_arch, order or (name,)))
    )


def reject_foreign(path: PurePath) -> None:
    """Raise for files of the vendor's SDK that are no models here.

    Raises:
        FrontendError: The file is a `.so`, `.dll` or `.dlc`.
    """
    suffix = path.suffix.lower()
    if suffix == ".dlc":
        raise FrontendError(
            "a .dlc file must be converted, by the frontend of the dist dovetail-qnn",
            code="MODEL_FOREIGN",
            where=str(path),
            hint=f"install dovetail-qnn, and run `dovetail convert -i {path.name} -o model.dvt`",
        )
    if suffix in (".so", ".dll"):
        raise FrontendError(
            f"a {path.suffix} file is a compiled model of the vendor's SDK, which cannot be read",
            code="MODEL_FOREIGN",
            where=str(path),
            hint="pass the model that it was compiled from, such as its model.cpp or model.onnx; "
            "`dovetail model-lib-generator -c model.cpp` writes a library that can be read here",
        )
