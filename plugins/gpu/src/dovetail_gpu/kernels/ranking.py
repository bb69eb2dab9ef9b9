"""Argmax, Argmin and TopK."""

from __future__ import annotations

import math

from dovetail.ir import DType
from dovetail.runtime.plan import KernelCall, Step
from dovetail_gpu.elements import Element
from dovetail_gpu.kernels._registry import KERNELS
from dovetail_gpu.kernels._rows import are_real, lanes, row_launch
from dovetail_gpu.launching import Argument, launch, launch_all
from dovetail_gpu.layouts import element_of, is_real, is_stored, read, scratch, write
from dovetail_gpu.programs import Source, type_defines, type_lines
from dovetail_opset import STANDARD

_GROUP = 8


@KERNELS.register(STANDARD, "Argmax")
@KERNELS.register(STANDARD, "Argmin")
def search(call: KernelCall) -> Step | None:
    """Run a search of the extreme element along an axis."""
    x_spec, y_spec = call.spec(0), call.outputs[0].spec
    if not is_real(x_spec) or not is_stored(y_spec):
        return None
    shape, axis = x_spec.shape, call.op.axis
    outer, size, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    element, target = element_of(x_spec), element_of(y_spec)
    x, y = read(call, 0, element), write(call)
    sign = ">" if call.head.op_type == "Argmax" else "<"
    lines = f"#define BETTER(a, b) ((a) {sign} (b))\n"
    defines: dict[str, int | str] = {"GROUP": lanes(), **type_defines("Y", target)}
    source = Source.of(("groups", "search"), defines, type_lines(element) + lines)
    return launch_all(call, [row_launch(source, "search", (x, y, size, inner), outer * inner)])


@KERNELS.register(STANDARD, "TopK")
def top(call: KernelCall) -> Step | None:
    """Run TopK: an item for each row."""
    spec, size = call.spec(0), call.spec(0).shape[-1]
    is_int = spec.dtype in (DType.INT_32, DType.UINT_32)
    if not is_int and not are_real(call, outputs=1):
        return None
    k, rows = int(call.op.k), math.prod(spec.shape[:-1])
    element = element_of(call.outputs[0].spec)
    x = read(call, 0, element)
    y, indices = write(call), write(call, 1)
    heaps = scratch(call, Element.ULONG, rows * k)
    lines = type_lines(element if element.is_float else Element.FLOAT)
    lines += f"#define X {element.text}\n#define X_IS_FLOAT {int(element.is_float)}\n"
    lines += f"#define X_KEY {'float' if element.is_float else element.text}\n"
    lines += "#define LOAD_X(p) " + ("LOAD(p)\n" if element.is_float else "(*(p))\n")
    lines += "#define STORE_X(v, p) " + ("STORE(v, p)\n" if element.is_float else "(*(p) = (v))\n")
    lines += f"#define SIGN_BIT {'0u' if element is Element.UINT else '0x80000000u'}\n"
    lines += f"#define SMALLEST {int(not call.op.largest)}\n"
    arguments: list[Argument] = [x, y, indices, heaps, rows if k else 0, size, k]
    return launch(call, Source.of("top", {}, lines), "top", arguments, (rows,), (_GROUP,))
