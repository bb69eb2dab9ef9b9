"""Functions of generated modules; each is written only where it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterable

HELPERS = {
    "_need_rank": '''
def _need_rank(port: Port, spec: Spec | None, rank: int) -> None:
    """Raise if the rank differs from the definition's."""
    if spec is not None and len(spec.shape) != rank:
        raise OpError(f"'{port.name}' has the shape {spec.shape}; its rank must be {rank}")
''',
    "_at": '''
def _at(specs: Specs, index: int) -> Spec | None:
    """Return one of several specs; None if it is missing."""
    return specs[index] if index < len(specs) else None
''',
    "_given": '''
def _given(port: Port, ins: Specs, index: int) -> Spec:
    """Return the spec of a required input."""
    spec = _at(ins, index)
    if spec is None:
        raise OpError(f"missing required input '{port.name}'")
    return spec
''',
    "_quotient": '''
def _quotient(dividend: int, divisor: int) -> int:
    """Return the integer quotient of two sizes."""
    if divisor == 0:
        raise OpError(f"the size of an output's axis is {dividend} / 0")
    return dividend // divisor
''',
    "_output": '''
def _output(port: Port, out: Spec | None, shape: tuple[int, ...], like: Specs) -> Spec:
    """Return the spec of an output: the type that the graph declares, else the first input's."""
    if min(shape, default=0) < 0:
        raise OpError(f"'{port.name}' would have the shape {shape}")
    if out is not None:
        return Spec(_allowed(port, out), shape, out.encoding)
    first = next((spec.dtype for spec in like if spec is not None), DType.FLOAT_32)
    return Spec(first if not port.dtypes or first in port.dtypes else port.dtypes[0], shape)
''',
    "_declared": '''
def _declared(port: Port, out: Spec | None, rank: int | None = None) -> Spec:
    """Return the spec that the graph declares, since the definition does not state it."""
    if out is None:
        raise OpError(
            f"unknown shape of output '{port.name}'",
            hint="state it in the model (value_info), or compute it in the op's `infer`",
        )
    if rank is not None and len(out.shape) != rank:
        raise OpError(f"'{port.name}' has the shape {out.shape}; its rank must be {rank}")
    _allowed(port, out)
    return out
''',
    "_unwritten": '''
def _unwritten(name: str) -> UnsupportedOpError:
    """Return the error of an op whose code is not written."""
    return UnsupportedOpError(
        f"the op {PACKAGE.name}::{name} has no code yet",
        hint=f"write its `reference` in {__file__}",
    )
''',
    "_allowed": '''
def _allowed(port: Port, spec: Spec) -> DType:
    """Return the type of a spec; raise if the port does not allow it."""
    if port.dtypes and spec.dtype not in port.dtypes:
        names = ", ".join(dtype.name for dtype in port.dtypes)
        raise OpError(f"'{port.name}' is {spec.dtype.name}; allowed: {names}")
    return spec.dtype
''',
}


def helpers_for(code: Iterable[str]) -> list[str]:
    """Return the lines of the functions that code uses, directly or indirectly."""
    wanted = _names("\n".join(code))
    while True:
        needed = {n for name in wanted & HELPERS.keys() for n in _names(HELPERS[name])}
        if needed <= wanted:
            break
        wanted |= needed
    found = [text for name, text in HELPERS.items() if name in wanted]
    return [line for text in found for line in ("", "", *text.strip().splitlines())]


def _names(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
