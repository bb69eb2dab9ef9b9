"""Inputs and outputs in the form that the application wants: layout, type, encoding and colors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from dovetail.errors import ConfigError, Problem, suggest_name
from dovetail.ir import DType, Graph, ScaleOffset, Shape, Spec, Tensor, TensorKind
from dovetail_opset.build import add
from dovetail_opset.passes._colors import COLORS, OUTPUT_COLORS, color_shape, emit_colors
from dovetail_opset.passes._image_axes import image_ranks, is_channels_last
from dovetail_opset.passes._rewrite import source_perm_after
from dovetail_opset.perms import inverse, to_first, to_last

# Types of an interface by the names that the SDK's tools use.
TYPES = {
    "float32": DType.FLOAT_32,
    "float16": DType.FLOAT_16,
    "int8": DType.INT_8,
    "uint8": DType.UINT_8,
    "int16": DType.INT_16,
    "uint16": DType.UINT_16,
    "int32": DType.INT_32,
    "uint32": DType.UINT_32,
    "int64": DType.INT_64,
    "uint64": DType.UINT_64,
    "bool": DType.BOOL_8,
}
_FIXED = {
    "int8": DType.SFIXED_POINT_8,
    "uint8": DType.UFIXED_POINT_8,
    "int16": DType.SFIXED_POINT_16,
    "uint16": DType.UFIXED_POINT_16,
}
# Layouts with the same letters are those that can be exchanged.
LAYOUTS = ("NCDHW", "NDHWC", "NCHW", "NHWC", "NFC", "NCF", "NTF", "TNF", "NF", "NC", "F")
_IMAGES = ("NCHW", "NHWC")
# Layouts of a model whose ops show no other: that of the same letters in which channels are second.
_SECOND = {"NDHWC": "NCDHW", "NHWC": "NCHW", "NFC": "NCF"}
_LAST = {second: last for last, second in _SECOND.items()}


@dataclass(frozen=True, slots=True)
class TensorForm:
    """The form of one input or output, as far as it differs from the model's.

    Attributes:
        name: The tensor.
        layout: The model's layout and the wanted one, such as `("NCHW", "NHWC")`. The model's may
            be empty: then it is channels-last if ops show that, else channels are second.
        dtype: A name of `TYPES`; None for the model's type. Where the model's tensor is
            fixed-point, an 8- or 16-bit integer type is one of stored values with the same range.
        scale: Scale of fixed-point values, with an 8- or 16-bit integer type.
        offset: Their offset: the real value is `(stored + offset) * scale`.
        colors: The color format that the application passes, and that of the model.
        model_layout: The model's layout where `layout` is None; it is only checked.
        is_stored: Whether an integer type without a scale cannot be one of plain numbers: the
            model's tensor must not be float.
        keeps_layout: Whether an image in other colors has the model's layout where `layout` is
            None, instead of a channels-last one.
    """

    name: str
    layout: tuple[str, str] | None = None
    dtype: str | None = None
    scale: float | None = None
    offset: int = 0
    colors: tuple[str, str] | None = None
    model_layout: str | None = None
    is_stored: bool = False
    keeps_layout: bool = False

    def located(self, graph: Graph) -> TensorForm:
        """Return the form with the model's layout, where only the wanted one is given."""
        own, wanted = self.layout or ("", "")
        if own or not wanted or self.name not in graph.tensors:
            return self
        tensor = graph.tensors[self.name]
        found = _LAST if is_channels_last(graph, tensor) else _SECOND
        own = found.get(wanted, wanted) if len(wanted) == len(tensor.shape) else wanted
        return replace(self, layout=(own, wanted))  # of another rank, only what is wanted is wrong

    def faults(self, graph: Graph) -> Iterator[str]:
        """Yield why the tensor of a graph cannot have this form."""
        tensor = graph.tensors[self.name]
        if tensor.kind not in (TensorKind.APP_WRITE, TensorKind.APP_READ):
            yield f"a tensor of the kind {tensor.kind.name} keeps its form"
        if self.layout is not None:
            yield from _layout_faults(self.layout, len(tensor.shape))
        elif self.model_layout is not None:
            own = (self.model_layout, self.model_layout)
            yield from _layout_faults(own, len(tensor.shape))
        if self.dtype is not None and self.dtype not in TYPES:
            yield f"unsupported type '{self.dtype}'; expected one of {', '.join(TYPES)}"
        elif self.scale is not None:
            yield from self._encoding_faults(tensor)
        elif self.is_stored and tensor.dtype.is_float:
            yield f"a quantized input or output of type {self.dtype} needs a scale and an offset"
        elif tensor.dtype.is_fixed_point and not isinstance(tensor.encoding, ScaleOffset):
            yield "a tensor with several scales, or without one, keeps its type"
        if self.colors is not None:
            yield from self._color_faults(tensor)

    def _encoding_faults(self, tensor: Tensor) -> Iterator[str]:
        if self.dtype not in _FIXED:
            yield f"a scale needs one of the types {', '.join(_FIXED)}, got {self.dtype}"
        elif not (tensor.dtype.is_float or tensor.dtype.is_fixed_point):
            yield f"a scale is for real values, but the model's type is {tensor.dtype.name}"
        if self.scale is not None and not 0 < self.scale < float("inf"):
            yield f"the scale must be positive and finite, got {self.scale}"
        if not -(2**31) <= self.offset < 2**31:
            yield f"the offset must be an integer of 32 bits, got {self.offset}"

    def _color_faults(self, tensor: Tensor) -> Iterator[str]:
        given, own = self.colors or ("", "")
        if given not in COLORS or own not in OUTPUT_COLORS:
            yield (
                f"cannot convert {given} to {own}; expected {', '.join(COLORS)} to "
                f"{' or '.join(OUTPUT_COLORS)}"
            )
            return
        shape, layout = tensor.shape, self.image_layout(tensor)
        if tensor.kind is not TensorKind.APP_WRITE:
            yield "only inputs have colors"
        elif layout is None:
            yield f"an image has 4 axes and 3 channels, but the shape is {shape}"
        else:
            _, height, width, _ = shape if layout == "NHWC" else (0, *shape[2:], 0)
            if given in ("nv12", "nv21") and (height % 2 or width % 2):
                yield f"{given} needs an even height and width, got {height} x {width}"

    def image_layout(self, tensor: Tensor) -> str | None:
        """Return the model's layout of an image with 3 channels; None if it is no such image."""
        candidates = (self.layout[0],) if self.layout else _IMAGES
        shape = tensor.shape
        for layout in candidates:
            if layout in _IMAGES and len(shape) == 4 and shape[layout.index("C")] == 3:
                return layout
        return None

    def spec(self, shape: Shape, own: Spec) -> Spec:
        """Return the application's type and encoding with a shape.

        Args:
            shape: The shape.
            own: The model's type and encoding.
        """
        if self.dtype is None:
            return Spec(own.dtype, shape, own.encoding)
        if self.scale is not None:
            return Spec(_FIXED[self.dtype], shape, ScaleOffset(self.scale, self.offset))
        if self.dtype in _FIXED and isinstance(own.encoding, ScaleOffset):
            dtype = _FIXED[self.dtype]
            return Spec(dtype, shape, _of_same_range(own.encoding, own.dtype, dtype))
        return Spec(TYPES[self.dtype], shape)


@dataclass(frozen=True, slots=True)
class Interface:
    """Change inputs and outputs to given forms, with ops that lead to and from the model's.

    The tensors keep their names and positions.

    Attributes:
        tensors: The forms.
        channels_last: Whether other images become channels-last, (n, h, w, c) or (n, d, h, w, c),
            if the model has spatial ops and its images are channels-first: as the SDK's older
            converters write models.
        narrow_integers: Whether other inputs of 64-bit integers become 32-bit ones, as the SDK's
            older converters write models.
        preserved: Tensors that `channels_last` leaves as they are.
        preserved_types: Tensors that `narrow_integers` leaves as they are.
    """

    tensors: tuple[TensorForm, ...] = ()
    channels_last: bool = False
    narrow_integers: bool = False
    preserved: tuple[str, ...] = ()
    preserved_types: tuple[str, ...] = ()
    name: str = "interface"
    phase: str = "early"
    after: str | None = None
    on_request: bool = True

    def run(self, graph: Graph) -> bool:
        """Rewrite the graph in place; return whether it changed anything.

        Raises:
            ConfigError: Tensors are unknown, or cannot have the form; lists all (USAGE).
        """
        forms = [form.located(graph) for form in self.tensors]
        self._check(graph, forms)
        inputs, outputs = ([t.name for t in side] for side in (graph.inputs, graph.outputs))
        changed = False
        ranks = image_ranks(graph) if self.channels_last else frozenset()
        for form in (*self._with_layouts(graph, forms, ranks), *self._others(graph, ranks)):
            tensor = graph.tensors[form.name]
            if tensor.kind is TensorKind.APP_WRITE:
                changed |= _change_input(graph, tensor, form)
            else:
                changed |= _change_output(graph, tensor, form)
        if changed:
            graph.reorder_interface(inputs, outputs)
        return changed

    def _with_layouts(
        self, graph: Graph, forms: Sequence[TensorForm], ranks: Collection[int]
    ) -> Iterator[TensorForm]:
        """Yield the given forms, with layouts and types where none are given."""
        for form in forms:
            tensor = graph.tensors[form.name]
            layout, dtype = form.layout, form.dtype
            if layout is None and form.colors is None:
                layout = self._legacy_layout(graph, tensor, ranks)
            if dtype is None:
                dtype = self._legacy_type(tensor)
            yield replace(form, layout=layout, dtype=dtype)

    def _others(self, graph: Graph, ranks: Collection[int]) -> Iterator[TensorForm]:
        given = {form.name for form in self.tensors}
        for tensor in (*graph.inputs, *graph.outputs):
            layout, dtype = self._legacy_layout(graph, tensor, ranks), self._legacy_type(tensor)
            if (layout, dtype) != (None, None) and tensor.name not in given:
                yield TensorForm(tensor.name, layout, dtype)

    def _legacy_type(self, tensor: Tensor) -> str | None:
        is_open = self.narrow_integers and tensor.name not in self.preserved_types
        is_wide_input = tensor.kind is TensorKind.APP_WRITE and tensor.dtype is DType.INT_64
        return "int32" if is_open and is_wide_input else None

    def _legacy_layout(
        self, graph: Graph, tensor: Tensor, ranks: Collection[int]
    ) -> tuple[str, str] | None:
        rank = len(tensor.shape)
        layout = {4: ("NCHW", "NHWC"), 5: ("NCDHW", "NDHWC")}.get(rank)
        is_open = self.channels_last and tensor.name not in self.preserved
        if not is_open or layout is None or rank not in ranks:
            return None
        return None if is_channels_last(graph, tensor) else layout

    def _check(self, graph: Graph, forms: Sequence[TensorForm]) -> None:
        known = [t.name for t in (*graph.inputs, *graph.outputs)]
        problems = [
            Problem(f"the graph has no input or output '{name}'", hint=suggest_name(name, known))
            for name in dict.fromkeys((*self.preserved, *self.preserved_types))
            if name not in known
        ]
        names = [form.name for form in forms]
        for form in forms:
            where = f"input or output '{form.name}'"
            if form.name not in known:
                text = f"the graph has no input or output '{form.name}'"
                problems.append(Problem(text, hint=suggest_name(form.name, known)))
                continue
            if names.count(form.name) > 1:
                problems.append(Problem("two forms are given", where))
            problems += [Problem(fault, where) for fault in form.faults(graph)]
        if problems:
            message = "inputs and outputs cannot have the wanted form"
            raise ConfigError(message, code="USAGE", problems=list(dict.fromkeys(problems)))


def _change_input(graph: Graph, inner: Tensor, form: TensorForm) -> bool:
    perm = _perm(form.layout)
    if form.colors is None:
        wanted = tuple(inner.shape[axis] for axis in perm) if perm else inner.shape
        if form.spec(wanted, inner.spec) == inner.spec and not perm:
            return False
        outer = _outer_input(graph, inner, form, wanted)
        outer.source, outer.source_perm = inner.source, _source_perm(inner, perm)
        x = _converted(graph, outer, inner.spec, form.name)
        if perm:
            x = add(graph, "Transpose", [x], name=f"{form.name}.layout", perm=inverse(perm))
    else:
        x = _image(graph, inner, form)
        if x.kind is TensorKind.APP_WRITE:  # the same colors, type and layout
            graph.replace_uses(inner, x)
            graph.remove_tensor(inner)
            return False
    graph.replace_uses(inner, x)
    graph.remove_tensor(inner)
    x.source, x.source_perm = inner.source, inner.source_perm
    return True


def _image(graph: Graph, inner: Tensor, form: TensorForm) -> Tensor:
    """Return the model's image, from an input in another color format.

    Color ops are channels-last, and so is the input unless another layout, or the model's, is
    requested.
    """
    name, colors = form.name, form.colors or ("", "")
    is_last = form.image_layout(inner) == "NHWC"
    batch, height, width = inner.shape[0], *(inner.shape[1:3] if is_last else inner.shape[2:])
    shape = color_shape(colors[0], (batch, height, width))
    wanted_first = form.layout[1] == "NCHW" if form.layout else form.keeps_layout and not is_last
    is_first = wanted_first and len(shape) == 4
    outer_shape = tuple(shape[axis] for axis in to_first(4)) if is_first else shape
    outer = _outer_input(graph, inner, form, outer_shape)
    x = _converted(graph, outer, inner.spec, name)
    if is_first:
        x = add(graph, "Transpose", [x], name=f"{name}.last", perm=to_last(4))
    x = emit_colors(graph, x, colors, name, (height, width))
    if not is_last:
        x = add(graph, "Transpose", [x], name=f"{name}.layout", perm=to_first(4))
    return x


def _outer_input(graph: Graph, inner: Tensor, form: TensorForm, shape: Shape) -> Tensor:
    """Return a new input that takes over the name of the model's."""
    spec = form.spec(shape, inner.spec)
    graph.rename({inner: graph.fresh_name(f"{form.name}.model")}, {})
    made = Tensor(form.name, spec.dtype, shape, TensorKind.APP_WRITE, encoding=spec.encoding)
    return graph.add_tensor(made)


def _change_output(graph: Graph, inner: Tensor, form: TensorForm) -> bool:
    name, perm = form.name, _perm(form.layout)
    wanted = tuple(inner.shape[axis] for axis in perm) if perm else inner.shape
    spec = form.spec(wanted, inner.spec)
    if spec == inner.spec and not perm:
        return False
    graph.rename({inner: graph.fresh_name(f"{name}.model")}, {})
    inner.kind = TensorKind.NATIVE
    outer = Tensor(name, spec.dtype, spec.shape, encoding=spec.encoding, source=inner.source)
    outer.source_perm = _source_perm(inner, perm)
    x = inner
    has_type = (spec.dtype, spec.encoding) != (inner.dtype, inner.encoding)
    if perm:
        last = None if has_type else outer
        x = add(graph, "Transpose", [x], name=f"{name}.layout", outputs=last, perm=perm)
    if has_type:
        kind = _conversion(x.spec, spec)
        x = add(graph, kind, [x], name=f"{name}.type", outputs=outer, spec=spec)
    x.kind = TensorKind.APP_READ
    return True


def _converted(graph: Graph, x: Tensor, own: Spec, name: str) -> Tensor:
    """Return an input's values in the model's type."""
    target = Spec(own.dtype, x.shape, own.encoding)
    if x.spec == target:
        return x
    kind = _conversion(x.spec, target)
    suffix = "real" if kind == "Dequantize" else "type"
    return add(graph, kind, [x], name=f"{name}.{suffix}", spec=target)


def _conversion(source: Spec, target: Spec) -> str:
    """Return the op that converts values of one type to another."""
    if source.dtype.is_fixed_point and target.dtype.is_fixed_point:
        return "Convert"
    if source.dtype.is_fixed_point and target.dtype.is_float:
        return "Dequantize"
    if source.dtype.is_float and target.dtype.is_fixed_point:
        return "Quantize"
    return "Cast"


def _of_same_range(encoding: ScaleOffset, own: DType, dtype: DType) -> ScaleOffset:
    """Return the encoding of a type for the values of another one."""
    (low, high), (first, last) = own.stored_range(encoding.bitwidth), dtype.stored_range()
    ratio = (high - low) / (last - first)
    offset = round((low + encoding.offset) / ratio) - first
    return ScaleOffset(encoding.scale * ratio, offset)


def _source_perm(inner: Tensor, perm: Shape | None) -> Shape | None:
    return inner.source_perm if perm is None else source_perm_after(inner, perm)


def _perm(layout: tuple[str, str] | None) -> Shape | None:
    """Return the perm from the model's layout to the wanted one; None if they are the same."""
    if layout is None or layout[0] == layout[1]:
        return None
    return tuple(layout[0].index(axis) for axis in layout[1])


def _layout_faults(layout: tuple[str, str], rank: int) -> Iterator[str]:
    for each in dict.fromkeys(layout):
        if each not in LAYOUTS:
            yield f"unsupported layout '{each}'; expected one of {', '.join(LAYOUTS)}"
        elif len(each) != rank:
            yield f"the layout {each} has {len(each)} axes, but the tensor has {rank}"
    if all(each in LAYOUTS for each in layout) and sorted(layout[0]) != sorted(layout[1]):
        yield f"the layouts {layout[0]} and {layout[1]} have different axes"
