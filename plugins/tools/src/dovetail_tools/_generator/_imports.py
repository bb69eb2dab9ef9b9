"""The import lines of generated modules: the names used, in the order of formatters."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from dovetail_tools._generator._layout import call, laid_out

# Modules of the names that generated code may use; an empty entry imports the module itself.
_ORIGINS: dict[str, tuple[str, ...]] = {
    "enum": ("",),
    "collections.abc": ("Callable",),
    "typing": ("Any",),
    "numpy as np": ("",),
    "pytest": ("",),
    "dovetail.errors": ("UnsupportedOpError",),
    "dovetail.ir": ("Array", "DType", "ScaleOffset", "Spec"),
    "dovetail.ops": (
        *("REQUIRED", "Arrays", "DefinedOp", "In", "OpPackage", "Out", "ParamField", "Specs"),
        *("bool8", "choice", "float32", "int32", "scalar", "tensor", "uint32"),
    ),
    "dovetail.runtime.plan": ("KernelCall", "KernelRegistry", "Step"),
    "dovetail.testing": ("Encoded", "OpCase"),
    "dovetail_onnx": ("PackageImporters",),
    "numpy.typing": ("NDArray",),
}
_STANDARD = ("enum", "collections.abc", "typing")
_BUILT_IN = ("None", "bool", "dict", "float", "int", "list", "str", "tuple")

# Names that no op, param or dimension may hide.
TAKEN = frozenset(
    {"PACKAGE", "np", "self", "super", *_BUILT_IN}
    | {name or module.split()[0] for module, names in _ORIGINS.items() for name in names}
)


def imports(code: Iterable[str], *own: tuple[str, str]) -> list[str]:
    """Return the import lines for the names that code uses.

    Args:
        code: Lines of the code.
        own: Names of the generated package, each after its module.
    """
    tree = ast.parse("\n".join(code))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    standard, third = _section(used, _STANDARD), _section(used, _ORIGINS.keys() - set(_STANDARD))
    mine: dict[str, list[str]] = {}
    for module, name in own:
        if name in used:
            mine.setdefault(module, []).append(name)
    sections = [standard, third, _from_lines(mine)]
    lines = ["from __future__ import annotations"]
    for section in sections:
        lines += ["", *section] if section else []
    return lines


def _section(used: set[str], modules: Iterable[str]) -> list[str]:
    whole = [m for m in modules if _ORIGINS[m] == ("",) and m.split()[-1] in used]
    parts = {m: [n for n in _ORIGINS[m] if n in used] for m in modules}
    return [f"import {m}" for m in sorted(whole)] + _from_lines(parts)


def _from_lines(parts: dict[str, list[str]]) -> list[str]:
    lines: list[str] = []
    for module in sorted(parts):
        if names := sorted(parts[module], key=_by_kind):
            line = f"from {module} import "
            flat = line + ", ".join(names)
            lines += [flat] if len(flat) <= 100 else laid_out(call(line, *names))
    return lines


def _by_kind(name: str) -> tuple[int, str]:
    """Return the sort key: constants first, then classes, then functions."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    return kind, name
