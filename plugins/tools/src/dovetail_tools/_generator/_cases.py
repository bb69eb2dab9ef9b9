"""The tests of a generated dist: a case for each op, without its expected outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from dovetail.errors import OpError
from dovetail.ir import DType, Spec
from dovetail.ops import REQUIRED, OpSchema
from dovetail_tools._generator._fields import value_code
from dovetail_tools._generator._imports import TAKEN, imports
from dovetail_tools._generator._layout import Group, Part, call, laid_out, sequence
from dovetail_tools._generator._names import Names, fresh, variable
from dovetail_tools._generator._text import docstring, literal
from dovetail_tools.op_definitions import (
    Definitions,
    OpDefinition,
    Parameter,
    Tensor,
    make_package,
    param_field,
)

_LONGEST_ENTRY = 88  # after twelve spaces
_CURLY = ("{", "}")
_OWN = ("CASES", "UNWRITTEN", "ramp")
_RAMP = '''
def ramp(dtype: DType, *shape: int) -> Array | Encoded:
    """Return different values of any type."""
    count = int(np.prod(shape))
    if dtype.is_fixed_point:
        minimum, maximum = dtype.stored_range()
        stored = np.linspace(minimum, maximum, count).astype(dtype.storage).reshape(shape)
        offset = 0 if dtype.is_signed else -(maximum // 2)
        return Encoded(stored, dtype, ScaleOffset(2 / (maximum - minimum), offset))
    if dtype in (DType.BFLOAT_16, DType.STRING):
        return Encoded(np.zeros(shape, dtype.storage), dtype)
    low, high = (-1, 1) if dtype.is_float else (0, min(count, 100))
    return np.linspace(low, high, count).astype(dtype.storage).reshape(shape)
'''


def cases_module(definitions: Definitions, names: Names) -> list[str]:
    """Return the lines of the module `cases`."""
    schemas = make_package(definitions).schemas
    taken = {*TAKEN, *_OWN, *names.classes.values()}
    functions: list[str] = []
    made: list[Part] = []
    for op in definitions.ops:
        expected = fresh(variable(_snake(op.name), set()), taken, "_expected")
        functions += ["", "", *_expected(op, names.classes[op.name], expected)]
        made.append(_case(op, schemas[op.name], names, expected))
    unwritten = [literal(op.name) for op in definitions.ops]
    code = [
        *_UNWRITTEN_COMMENT,
        *laid_out(Group("", _CURLY, tuple(unwritten)), before="UNWRITTEN = "),
        *("", "", *_RAMP.strip().splitlines()),
        *functions,
        *("", ""),
        *laid_out(sequence(*made), before="CASES = "),
    ]
    module = f"{names.module}.ops"
    choices = [names.choices(op, p) for op in definitions.ops for p in op.params if p.choices]
    own = [(module, name) for name in ("PACKAGE", *choices)]
    head = docstring("A case of each op: inputs, and the expected outputs.", (), "")
    return [*head, "", *imports(code, *own), "", *code]


_UNWRITTEN_COMMENT = (
    "# Ops without a `reference`: their tests are expected to fail, for that reason only. Once the",
    "# reference of an op and its expected outputs below are written, remove it.",
)


def _expected(op: OpDefinition, name: str, function: str) -> Iterator[str]:
    taken: set[str] = {*TAKEN, "found"}
    items: list[Part] = []
    for tensor in op.inputs:
        argument = variable(tensor.name, taken)
        if tensor.is_repeated:
            items.append(f"*{argument}: Array")
        else:
            items.append(f"{argument}: Array" + ("" if tensor.is_mandatory else " | None"))
    is_single = len(op.outputs) == 1 and not op.outputs[0].is_repeated
    kind = "Array" if is_single else "tuple[Array, ...]"
    yield from laid_out(call(f"def {function}", *items), after=f" -> {kind}:")
    yield f'    """Return the outputs of {name} without its reference."""'
    text = f"write the expected outputs of {op.name} in tests/cases.py"
    yield from laid_out(call("NotImplementedError", literal(text)), "    ", before="raise ")


def _case(op: OpDefinition, schema: OpSchema, names: Names, expected: str) -> Part:
    inputs, specs, known = _sample(op, schema)
    items: list[Part] = [literal(op.name), sequence(*inputs), expected]
    params = [p for p in op.params if param_field(p).default is REQUIRED]
    if params:
        given = [_entry(p, names.choices(op, p)) for p in params]
        items.append(Group("params=", _CURLY, tuple(given)))
    items.append("package=PACKAGE.name")
    if not known:
        items.append(sequence(*map(_spec, specs), head="outputs="))
    return call("OpCase", *items)


def _sample(op: OpDefinition, schema: OpSchema) -> tuple[list[Part], list[Spec], bool]:
    """Return consistent inputs, and the outputs: inferred, or of a likely shape."""
    for sizes in (_Sizes(2), _Sizes(8)):
        ins = [Spec(_dtype(t), sizes.shape(t)) for t in op.inputs]
        inputs: list[Part] = [
            call("ramp", f"DType.{s.dtype.name}", *map(str, s.shape)) for s in ins
        ]
        outs: list[Spec | None] = [None] * len(op.outputs)
        try:
            found = schema.infer(schema.op(ins, **_required(op)), ins, outs)
        except OpError:
            continue
        return inputs, list(found), True
    guessed = [_likely(t, ins) for t in op.outputs]
    return inputs, guessed, False


def _likely(tensor: Tensor, ins: list[Spec]) -> Spec:
    rank = None if tensor.shape is None else tensor.shape.rank
    like = next((s.shape for s in ins if rank is None or len(s.shape) == rank), None)
    shape = like if like is not None else tuple(range(2, 2 + (2 if rank is None else rank)))
    first = next((s.dtype for s in ins if s.dtype in (tensor.all_dtypes or (s.dtype,))), None)
    return Spec(first or _dtype(tensor), shape)


def _spec(spec: Spec) -> Part:
    return call("Spec", f"DType.{spec.dtype.name}", sequence(*map(str, spec.shape)))


class _Sizes:
    """Sizes by the names in shape texts; each new name gets a new number.

    Args:
        first: The smallest size.
    """

    def __init__(self, first: int) -> None:
        self._next = count(first)
        self._known: dict[str, int] = {}

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Return a shape for an input."""
        rule = tensor.shape
        if rule is None or (rule.rank is None and rule.dims is None):
            return (2, 3)
        if rule.dims is None:
            return tuple(2 + i for i in range(rule.rank or 0))
        for name in sorted(rule.dims.wanted - self._known.keys()):
            self._known[name] = next(self._next)
        found = rule.dims.shape(self._known)
        return found if found is not None else (1,) * len(rule.dims.terms)


def _dtype(tensor: Tensor) -> DType:
    """Return the type for which values are simplest to write."""
    allowed = tensor.all_dtypes or (DType.FLOAT_32,)
    plain = [d for d in allowed if not d.is_fixed_point and d not in _HARD]
    return DType.FLOAT_32 if DType.FLOAT_32 in plain else (plain or list(allowed))[0]


_HARD = (DType.BFLOAT_16, DType.STRING)


def _required(op: OpDefinition) -> Mapping[str, object]:
    return {p.name: 1 for p in op.params if param_field(p).default is REQUIRED}


def _entry(param: Parameter, choices: str) -> str:
    entry = f"{literal(param.name)}: {_value(param, choices)}"
    # the number of a choice is equivalent
    return entry if len(entry) < _LONGEST_ENTRY else f"{literal(param.name)}: 0"


def _value(param: Parameter, choices: str) -> str:
    dtype = param.all_dtypes[0]
    if param.choices:
        made = value_code(param, 0, choices)
        assert isinstance(made, str)  # a name
        return made
    if not param.is_scalar:
        rank = 1 if param.shape is None or param.shape.rank is None else param.shape.rank
        return f"np.ones({(1,) * rank}, np.{dtype.storage.name})"
    if dtype is DType.STRING:
        return '"text"'
    if dtype is DType.BOOL_8:
        return "True"
    return "1.0" if dtype.is_float else "1"


def _snake(name: str) -> str:
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return words.strip("_").replace("__", "_") or "op"
