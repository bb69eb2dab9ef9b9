"""The modules `kernels` and `importers` of a generated dist, which have no functions yet."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_tools._generator._imports import TAKEN, imports
from dovetail_tools._generator._layout import call, laid_out
from dovetail_tools._generator._names import Names, fresh
from dovetail_tools._generator._templates import IMPORTERS_DOCSTRING, KERNELS_DOCSTRING
from dovetail_tools._generator._text import literal
from dovetail_tools.op_definitions import Definitions


def kernels_name(backend: str) -> str:
    """Return the name of a backend's registry in the module `kernels`."""
    return f"{backend.upper()}_KERNELS"


def kernels_module(definitions: Definitions, names: Names, backends: Sequence[str]) -> list[str]:
    """Return the lines of the module `kernels`: one for each op, which declines all calls."""
    code = [f"{kernels_name(b)} = KernelRegistry({literal(b)})" for b in backends]
    taken = set(TAKEN)
    for backend in backends:
        for op in definitions.ops:
            function = fresh(f"{backend}_{op.name.lower()}", taken, "")
            register = f"@{kernels_name(backend)}.register"
            code += ["", "", *laid_out(call(register, "PACKAGE.name", literal(op.name)))]
            code += [
                f"def {function}(call: KernelCall) -> Step | None:",
                '    """Decline every call: no kernel is written yet."""',
                "    return None",
            ]
    own = (f"{names.module}.ops", "PACKAGE")
    return [*_lines(KERNELS_DOCSTRING), "", *imports(code, own), "", *code]


def importers_module(definitions: Definitions, names: Names) -> list[str]:
    """Return the lines of the module `importers`: operators become the ops of the same names."""
    arguments = call("PackageImporters", "PACKAGE", literal(definitions.domain))
    code = laid_out(arguments, before="IMPORTERS = ")
    head = _lines(IMPORTERS_DOCSTRING.replace("@domain@", definitions.domain))
    return [*head, "", *imports(code, (f"{names.module}.ops", "PACKAGE")), "", *code]


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()
