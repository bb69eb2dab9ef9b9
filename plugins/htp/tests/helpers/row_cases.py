"""Op cases with the types of a row of the tables, and what does not run yet.

`python plugins/htp/tests/helpers/row_cases.py` writes `unsupported_rows.json`: for each row, how
many of
its combinations have no definition on integers yet, and how many the op set rejects.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from dovetail.errors import DovetailError
from dovetail.ir import Array, DType, Spec
from dovetail.ops import OpRegistry, checked_node, from_real, simulate, to_real
from dovetail.testing import Bench, OpCase, Status, run_case
from dovetail.testing.binding import bind, encoding_of
from dovetail.testing.case import Encoded
from dovetail_htp import types as tables
from dovetail_htp.processors import FAMILIES
from dovetail_htp.rules import rules_of
from dovetail_opset import PACKAGE
from dovetail_opset.testing import CASES
from dovetail_opset.type_tables import Row

UNSUPPORTED = Path(__file__).parents[1] / "unsupported_rows.json"
BY_OP: dict[str, list[OpCase]] = defaultdict(list)
for _case in CASES:
    if _case.dtype is None and not _case.later_calls:
        BY_OP[_case.op_type].append(_case)

Types = tuple[tuple[DType, ...], tuple[DType, ...]]
# Half precision has 11 bits, and ops sum some dozens of numbers.
_TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
ONE_ENCODING = rules_of("htp").one_encoding
RESULT_ENCODINGS = {
    name: PACKAGE.schemas[name].op().result_encodings for name in rules_of("htp").result_encodings
}
_CASES = 3  # of an op, with the same types
_MOST = 256  # combinations of a row that are all tried


def combinations(row: Row) -> Iterator[Types]:
    """Yield the combinations of a row; of large ones, each type of each port among the others."""
    ports = [types or (DType.FLOAT_32,) for types in (*row.ins.types, *row.outs.types)]
    at = len(row.ins.types)
    if np.prod([len(types) for types in ports], dtype=float) <= _MOST:
        found = itertools.product(*ports)
    else:
        found = iter(dict.fromkeys(_each_type(ports)))
    for types in found:
        yield types[:at], types[at:]


def _each_type(ports: Sequence[Sequence[DType]]) -> Iterator[tuple[DType, ...]]:
    for k in range(max(map(len, ports))):
        base = [types[min(k, len(types) - 1)] for types in ports]
        for i, types in enumerate(ports):
            for dtype in types:
                yield (*base[:i], dtype, *base[i + 1 :])


def outcome(bench: Bench, op_type: str, types: Types, ops: OpRegistry) -> str:
    """Run the cases of an op with types; return `ran`, `definition` or `op set`.

    Raises:
        AssertionError: A case fails, or the backend rejects it by another rule.
    """
    found = set()
    for case in itertools.islice(cases_of(op_type, types, ops), _CASES):
        done = run_case(bench, case)
        rule = done.reason.partition(":")[0] if done.status is Status.UNSUPPORTED else "ran"
        assert done.status is not Status.FAILED, f"{case.id} with {types}: {done.reason}"
        assert rule in ("ran", "definition"), f"{case.id} with {types}: {done.reason}"
        found.add(rule)
    return "ran" if "ran" in found else "definition" if found else "op set"


def unsupported(bench: Bench, op_type: str, row: Row, ops: OpRegistry) -> dict[str, int]:
    """Return how many combinations of a row do not run, by reason."""
    outcomes = Counter(outcome(bench, op_type, types, ops) for types in combinations(row))
    return {reason: count for reason, count in sorted(outcomes.items()) if reason != "ran"}


def cases_of(op_type: str, types: Types, ops: OpRegistry) -> Iterator[OpCase]:
    """Yield the cases of an op that can have types, with these types."""
    for case in BY_OP[op_type]:
        made = retyped(case, types, ops)
        if made is not None:
            yield made


def retyped(case: OpCase, types: Types, ops: OpRegistry) -> OpCase | None:
    """Return a case with other types; None if its op rejects them."""
    ins, outs = types
    if case.op_type == "ElementWisePower" and case.name == "negative base":
        return None  # its exponents must be whole, which a grid does not store
    if any(_is_narrowed(x, t) for x, t in zip(case.inputs, ins, strict=False)):
        return None  # the case's own function returns integers
    inputs = tuple(
        None if x is None else _stored(_real(x), ins[min(i, len(ins) - 1)])
        for i, x in enumerate(case.inputs)
    )
    schema = ops.find(case.package, case.op_type)
    if len(inputs) > len(ins) and not schema.inputs[-1].variadic:
        return None
    try:
        given = tuple(None if x is None else _real(x) for x in inputs)
        values = [_real(y) for y in bind(replace(case, inputs=given, outputs=())).expected]
        types_of = [outs[min(i, len(outs) - 1)] for i in range(len(values))]
        # of fixed-point outputs, floats are real values, and integers would be stored ones
        values = [
            y.astype(np.float64) if dtype.is_fixed_point else y
            for y, dtype in zip(values, types_of, strict=True)
        ]
        specs = tuple(_spec(y, dtype) for y, dtype in zip(values, types_of, strict=True))
        if case.op_type in ONE_ENCODING and inputs[0] is not None and ins[0] is outs[0]:
            specs = (replace(specs[0], encoding=inputs[0].encoding), *specs[1:])
        if prescribed := RESULT_ENCODINGS.get(case.op_type, {}).get(outs[0]):
            specs = (replace(specs[0], encoding=prescribed), *specs[1:])
        made = replace(
            case,
            inputs=inputs,
            outputs=specs,
            expected=tuple(values),
            static=case.static or _weights(ins),
            steps=_steps(case, outs),
            **_TOLERANCE,
        )
        view, faults = checked_node(bind(made).node(schema), ops)
        if view is None or faults:
            return None
        if not callable(case.expected):  # they are of the case's own inputs
            stored = [None if x is None else x.values for x in inputs]
            found = simulate(schema, view.op, stored, view.ins, view.outs)
            made = replace(made, expected=tuple(found))
        return made
    except (DovetailError, ValueError, TypeError, LookupError, ArithmeticError):
        return None  # the op, or the case's own function, is not for such types


def _steps(case: OpCase, outs: tuple[DType, ...]) -> int:
    """Return by how many steps outputs may differ from the real ones.

    A recurrent op rounds its state to 8 bits after every time step, so that a 16-bit output may be
    half an 8-bit step off.
    """
    is_recurrent = case.op_type in ("Gru", "Lstm")
    return 128 if is_recurrent and any(dtype.bits == 16 for dtype in outs) else 1


def _weights(types: tuple[DType, ...]) -> tuple[int, ...]:
    """Return the indices of quantized weights of float data, which must be constants."""
    fixed = [i for i, dtype in enumerate(types) if dtype.is_fixed_point]
    return tuple(fixed) if types[0].is_float else ()


def _is_narrowed(x: Array | Encoded | None, dtype: DType) -> bool:
    """Return whether plain integers would become real values."""
    is_real = dtype.is_fixed_point or dtype.is_float
    return isinstance(x, np.ndarray) and x.dtype.kind in "iu" and is_real


def _real(x: Array | Encoded) -> Array:
    return np.asarray(to_real(x.values, x.spec) if isinstance(x, Encoded) else x)


def _spec(real: Array, dtype: DType) -> Spec:
    encoding = encoding_of(real.astype(np.float64), dtype) if dtype.is_fixed_point else None
    return Spec(dtype, real.shape, encoding)


def _stored(real: Array, dtype: DType) -> Encoded:
    spec = _spec(real, dtype)
    if dtype.is_fixed_point or dtype.is_float:
        values = from_real(real.astype(np.float32), spec)
    else:
        values = np.where((real != 0) & (np.trunc(real) == 0), 1, real)  # they may be divisors
        values = values if dtype.is_signed else np.maximum(values, 0)
    return Encoded(np.asarray(values).astype(dtype.storage), dtype, spec.encoding)


def main() -> None:
    """Write the file."""
    ops = OpRegistry.of(PACKAGE)
    found: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for table in FAMILIES:
        bench, of_table = Bench(table, {"engine": "numpy"}), found.setdefault(table, {})
        for op_type in tables.ops(table):
            rows = {
                row.text: lacking
                for row in tables.rows(table, op_type)
                if (lacking := unsupported(bench, op_type, row, ops))
            }
            if rows:
                of_table[op_type] = rows
    UNSUPPORTED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
