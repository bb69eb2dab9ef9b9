"""Launches of elementwise functions of operands of any types, which broadcast."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dovetail.ir import Shape
from dovetail.runtime.plan import KernelCall, Step, Value
from dovetail_gpu.computing import current
from dovetail_gpu.elements import VECTOR, Element
from dovetail_gpu.launching import GROUP, Argument, launch
from dovetail_gpu.layouts import table
from dovetail_gpu.programs import Source, type_lines
from dovetail_gpu.stages import Stages

_RUN = {True: 64, False: VECTOR}  # elements of a work item, on processors and on GPUs


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: its value on the device, and the shape that broadcasts to the result's."""

    value: Value
    element: Element
    shape: Shape


@dataclass(frozen=True, slots=True)
class Form:
    """A function of elements.

    Attributes:
        line: A line of OpenCL C that computes `v`, whose type is `V`, of the elements a0, a1, ...
        work: Type of `v`.
        converts: Whether elements are converted to float before; else they have their own types.
        lines: Definitions that the line needs.
    """

    line: str
    work: Element
    converts: bool
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Walk:
    """The advance of operands: along rows, and along the axes outside rows.

    Attributes:
        inner: Number of elements in a row.
        sizes: Sizes of the axes outside rows, the last axis first.
        strides: For each of these axes, the strides of the operands.
        steps: Strides of the operands within rows: 0 or 1.
    """

    inner: int
    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    steps: tuple[int, ...]

    @property
    def numbers(self) -> list[int]:
        """All but the rows' length as the kernel reads it."""
        found: list[int] = []
        for size, strides in zip(self.sizes, self.strides, strict=True):
            found += (size, *strides)
        return [*found, *self.steps]


def walk(shapes: Sequence[Shape], result: Shape) -> Walk:
    """Return how operands of these shapes advance; axes that can be walked as one are merged."""
    all_strides = [_strides(shape, result) for shape in shapes]
    axes: list[tuple[int, tuple[int, ...]]] = []  # the last first
    for axis in reversed(range(len(result))):
        size, strides = result[axis], tuple(s[axis] for s in all_strides)
        if size == 1:
            continue
        if axes:
            within, steps = axes[-1]
            if all(s == within * step for s, step in zip(strides, steps, strict=True)):
                axes[-1] = within * size, steps
                continue
        axes.append((size, strides))
    if not axes:
        axes = [(1, tuple(0 for _ in shapes))]
    (inner, steps), *outer = axes
    return Walk(inner, tuple(s for s, _ in outer), tuple(s for _, s in outer), steps)


def broadcast(
    call: KernelCall,
    form: Form,
    operands: Sequence[Operand],
    result: Operand,
    stages: Stages,
) -> Step:
    """Return the step that computes a function.

    Args:
        call: The call; its operands are declared.
        form: The function.
        operands: Its operands.
        result: What is written.
        stages: The stages that follow; for `v` in float.
    """
    found = walk([operand.shape for operand in operands], result.shape)
    run = run_of_item()
    rows, channels = math.prod(found.sizes), result.shape[-1] if result.shape else 1
    lines = "".join((*_operand_lines(operands, form), *_result_lines(result.element, form)))
    real = result.element if result.element.is_float else Element.FLOAT
    lines += type_lines(real) + form.lines + stages.lines
    defines = {
        "OPERANDS": len(operands),
        "RUN": run,
        "VECTORS": int(_has_vectors(form, [*operands, result])),
        "WHOLE_VECTORS": "&& channels % 8 == 0" if stages.by_channel else "",
    }
    arguments: list[Argument] = [
        *(operand.value for operand in operands),
        result.value,
        table(call, found.numbers),
        len(found.sizes),
        found.inner,
        rows,
        max(1, channels),
        *stages.arguments,
    ]
    items = rows * -(-found.inner // run)
    return launch(
        call, Source.of("broadcast", defines, lines), "broadcast", arguments, (items,), (GROUP,)
    )


def run_of_item() -> int:
    """Return the number of elements of a work item on the current device."""
    return _RUN[current().engine.device.is_cpu]


def _has_vectors(form: Form, operands: Sequence[Operand]) -> bool:
    """Return whether eight elements are computed at once: as float, and of no wider types.

    A vector of 64 bytes crashes a compiler (of PoCL 3).
    """
    is_wide = any(operand.element.nbytes > Element.FLOAT.nbytes for operand in operands)
    return form.converts and form.work is Element.FLOAT and not is_wide


def _strides(shape: Shape, result: Shape) -> tuple[int, ...]:
    """Return the strides of an operand along the axes of the result, 0 where it broadcasts."""
    found, stride = [0] * len(result), 1
    for axis in range(1, len(shape) + 1):
        size = shape[-axis]
        found[-axis] = stride if size != 1 else 0
        stride *= size
    return tuple(found)


def _operand_lines(operands: Sequence[Operand], form: Form) -> Iterator[str]:
    numbers = range(len(operands))
    kinds = [operand.element.text for operand in operands]
    gets = ["half" if operand.element is Element.HALF else "plain" for operand in operands]
    types = [
        "float" if form.converts or operand.element.is_float else operand.element.text
        for operand in operands
    ]

    def define(name: str, lines: Iterator[str], between: str = " ") -> str:
        return f"#define {name} {between.join(lines)}\n"

    yield define("OPERAND_PARAMETERS", (f"TENSOR_IN({kinds[i]}, x{i})" for i in numbers), ", ")
    yield define("OPERAND_READS", (f"TENSOR_READ({kinds[i]}, x{i});" for i in numbers))
    yield define("OPERAND_STARTS", (f"int p{i} = 0;" for i in numbers))
    yield define(
        "OPERAND_STEPS(index, strides)", (f"p{i} += (index) * (strides)[{i}];" for i in numbers)
    )
    yield define(
        "OPERAND_STRIDES(strides, inside)",
        (f"const int s{i} = (strides)[{i}]; p{i} += (inside) * s{i};" for i in numbers),
    )
    yield define(
        "OPERAND_VECTORS(i)",
        (
            f"const float8 a{i} = s{i} ? GET8_{kinds[i]}(x{i} + p{i} + (i)) : "
            f"(float8)(GET_{gets[i]}(x{i} + p{i}));"
            for i in numbers
        ),
    )
    yield define(
        "OPERAND_ELEMENTS(i)",
        (f"const {types[i]} a{i} = GET_{gets[i]}(x{i} + p{i} + (i) * s{i});" for i in numbers),
    )


def _result_lines(element: Element, form: Form) -> Iterator[str]:
    yield f"#define R {element.text}\n#define W {form.work.text}\n#define FORM(V) {form.line}\n"
    if element.is_float:
        yield "#define PUT(v, p) STORE((float)(v), p)\n#define PUT8(v, p) STORE8(v, p)\n"
    elif form.work.is_float:  # NaN has been replaced
        packed = f"packed_{element.text}8"
        yield f"#define PUT(v, p) (*(p) = convert_{element.text}_sat(v))\n"
        yield f"#define PUT8(v, p) (*(__global {packed} *)(p) = convert_{element.text}8_sat(v))\n"
    else:
        yield f"#define PUT(v, p) (*(p) = ({element.text})(v))\n"
