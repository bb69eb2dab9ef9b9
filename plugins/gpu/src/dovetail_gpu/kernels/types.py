"""Changes of type: forms of Cast, Convert, Quantize and Dequantize.

Fixed-point tensors with an encoding are real numbers on a device. Cast, which counts them as stored
integers, computes those from the encoding.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.ir import Array, DType, Spec
from dovetail.ops import NodeView
from dovetail_gpu.elements import STORED, Element
from dovetail_gpu.functions import name_of
from dovetail_gpu.grids import Grid, grid_of
from dovetail_gpu.kernels._broadcast import Form
from dovetail_gpu.layouts import element_of, is_encoded
from dovetail_gpu.stages import on_grid

_WHOLE = "({x} == {x} ? {x} : (V)(0))"  # NaN becomes 0; limits are kept when it is stored
_EXACT_BITS = 16  # integers of more have digits that a float has not


@dataclass(frozen=True, slots=True)
class TypeForm:
    """A form, and the tables that it reads after the input.

    Attributes:
        form: The form.
        tables: float32, broadcastable to the result.
    """

    form: Form
    tables: tuple[Array, ...] = ()


def type_form(view: NodeView) -> TypeForm | None:
    """Return the form of a change of type; None for other nodes and unsupported types."""
    name, (x, *_), y = name_of(view), view.ins, view.outs[0]
    if x is None or name not in ("Cast", "Convert", "Quantize", "Dequantize"):
        return None
    if name == "Cast":
        return _cast(x, y)
    grid = grid_of(y)
    if grid is not None:
        form = Form(on_grid(grid, "a0", "a1", "a2"), Element.FLOAT, converts=True)
        return TypeForm(form, (grid.scale, grid.offset))
    if is_encoded(y):
        return None
    return TypeForm(_plain(element_of(x), y, saturates=True))


def _plain(x: Element, y: Spec, *, saturates: bool) -> Form:
    """Return the form of numbers as another type that is no grid.

    Args:
        x: Type of the numbers.
        y: The result.
        saturates: Whether integers out of range become the limits; else they wrap around.
    """
    element = element_of(y)
    if y.dtype is DType.BOOL_8:
        return Form("v = a0 != 0 ? (V)(1) : (V)(0);", element, converts=False)
    if element.is_float:
        return Form("v = a0;", Element.FLOAT, converts=True)
    if x.is_float:
        return Form(f"v = {_WHOLE.format(x='a0')};", Element.FLOAT, converts=True)
    change = f"convert_{element.text}_sat(a0)" if saturates else f"({element.text})(a0)"
    return Form(f"v = {change};", element, converts=False)


def _cast(x: Spec, y: Spec) -> TypeForm | None:
    source, target = grid_of(x), grid_of(y)
    for spec, grid in ((x, source), (y, target)):
        if is_encoded(spec) and (grid is None or spec.dtype.bits > _EXACT_BITS):
            return None
    if source is None and target is None:
        return TypeForm(_plain(element_of(x), y, saturates=False))
    lines, tables = [], []
    number = "a0"
    if source is not None:
        lines.append(f"const long q = {_stored(source)};")
        tables += [source.scale, source.offset]
        number = "q"
    if target is not None:
        first = 1 + len(tables)
        lines.append(_onto(y, target, number, (f"a{first}", f"a{first + 1}"), x))
        tables += [target.scale, target.offset]
        work = Element.FLOAT
    elif y.dtype is DType.BOOL_8:
        lines.append("v = q != 0;")
        work = element_of(y)
    else:
        lines.append("v = (V)q;")
        work = element_of(y)
    work = Element.FLOAT if work.is_float else work
    return TypeForm(Form(f"{{ {' '.join(lines)} }}", work, converts=False), tuple(tables))


def _stored(grid: Grid) -> str:
    """Return the stored integer of the real number a0 on a grid of scale a1 and offset a2.

    NaN is that of 0, as for `quantize`.
    """
    steps = f"clamp(rint(a0 / a1 - a2), {grid.low}, {grid.high})"
    return f"(long)(a1 == 0 || a0 != a0 ? rint(-a2) : {steps})"


def _onto(y: Spec, grid: Grid, number: str, names: tuple[str, str], x: Spec) -> str:
    """Return the line that takes a number as a stored integer of a grid, as its real number."""
    scale, offset = names
    plain = grid_of(x) is None and element_of(x).is_float
    if plain:
        whole = f"trunc(clamp({_WHOLE.format(x=number)}, {grid.low}, {grid.high}))"
        whole = whole.replace("(V)", "(float)")
    elif y.dtype in STORED:
        whole = f"(float)(({STORED[y.dtype].text})({number}))"
    else:  # of 4 bits
        whole = f"clamp((float)({number}), {grid.low}, {grid.high})"
    return f"v = ({whole} + {offset}) * {scale};"
