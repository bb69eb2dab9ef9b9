"""OpSchema: the checked and normalized definition of a registered op."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from dovetail.errors import OpError, PluginError, counted, suggest_name
from dovetail.ir import Array, Param, Spec
from dovetail.ops.op import Arrays, Domain, Op, Port, param_fields
from dovetail.ops.params import ParamField, Specs


class OpSchema(msgspec.Struct, frozen=True):
    """A registered op.

    Attributes:
        package: Name of its op package.
        name: Name of the op type.
        op: Its class.
        inputs, outputs: Declared ports.
        params: Declared params by name.
    """

    package: str
    name: str
    op: type[Op]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    params: Mapping[str, ParamField[Any]]
    _infer: Callable[..., Any]
    _reference: Callable[..., Any]
    _counts: tuple[tuple[str, int, int | None], ...]  # a word for the ports, minimum, maximum

    @property
    def full_name(self) -> str:
        """`package::name`."""
        return f"{self.package}::{self.name}"

    @property
    def domain(self) -> Domain:
        """Content of the arrays that the reference receives."""
        return self.op.domain

    def keeps_whole(self, op: Op) -> bool:
        """Return whether the results of the op with its params are whole if its inputs are."""
        if self.domain is Domain.MOVE:
            return all(_is_whole(end) for end in op.added_range or ())
        if op.clips:
            return all(map(_is_whole, op.value_range))
        return op.keeps_whole or bool(op.keeps)

    def arity_faults(self, ins: int, outs: int) -> list[str]:
        """Return the faults of a node's numbers of inputs and outputs."""
        found = []
        for (word, least, most), count in zip(self._counts, (ins, outs), strict=True):
            if count < least or (most is not None and count > most):
                wanted = f"{least}" if least == most else f"{least} to {most or 'any number'}"
                found.append(f"has {count} {word}s; {self.full_name} takes {wanted}")
        return found

    def param_faults(self, params: Mapping[str, Param]) -> list[str]:
        """Return the faults of a node's params."""
        found = [
            f"unknown param '{name}'; {suggest_name(name, self.params)}"
            for name in params
            if name not in self.params
        ]
        for name, declared in self.params.items():
            if name in params:
                found += declared.faults(params[name])
            elif declared.is_required:
                found.append(f"missing required param '{name}'")
        return found

    def bind(self, params: Mapping[str, Param], ins: Specs) -> Op:
        """Return the op with a node's params, which must have no faults."""
        values = {name: self.params[name].value_of(param) for name, param in params.items()}
        return self.op(ins, **values)

    def infer(self, op: Op, ins: Specs, outs: Sequence[Spec | None]) -> tuple[Spec, ...]:
        """Return the output specs.

        Args:
            op: From `bind`.
            ins: One for each declared input; None for an omitted one.
            outs: Specs that the graph declares; None if it declares none yet.

        Raises:
            OpError: The inputs do not match each other, or a required one is missing.
        """
        given = _filled(ins, self.inputs)
        for port, spec in zip(self.inputs, given, strict=False):
            if spec is None and not port.optional:
                raise OpError(f"missing required input {port.name}")
        return _as_tuple(self._infer(op, given, _filled(outs, self.outputs)))

    def reference(self, op: Op, ins: Arrays, outs: Sequence[Spec]) -> tuple[Array, ...]:
        """Return the outputs computed in NumPy, in the op's domain.

        Args:
            op: From `bind`.
            ins: One for each declared input; None for an omitted one.
            outs: Specs of the outputs; results of omitted trailing outputs are dropped.
        """
        with np.errstate(all="ignore"):  # inf and NaN are valid results
            results = self._reference(op, _filled(ins, self.inputs), _filled(outs, self.outputs))
        return tuple(np.asarray(r) for r in _as_tuple(results)[: len(outs)])

    def states(self, op: Op, ins: Arrays, outs: Arrays) -> Mapping[int, Array]:
        """Return the values of an op's state that no output has; see `Op.states`.

        Args:
            op: From `bind`.
            ins: Real values, one for each declared input; None for an omitted one.
            outs: Results for them.
        """
        with np.errstate(all="ignore"):
            return op.states(_filled(ins, self.inputs), _filled(outs, self.outputs))

    def work(self, op: Op, ins: Specs, outs: Sequence[Spec]) -> int:
        """Return the multiply-accumulates of one execution.

        Args:
            op: From `bind`.
            ins: One for each declared input; None for an omitted one.
            outs: Specs of the outputs.

        Raises:
            PluginError: The op's `work` fails, or returns something other than a count.
        """
        try:
            count = operator.index(op.work(_filled(ins, self.inputs), _filled(outs, self.outputs)))
            if count < 0:
                raise ValueError(f"{count} is negative")
        except Exception as error:
            raise PluginError(
                f"`work` of the op failed: {type(error).__name__}: {error}",
                code="PLUGIN_FAILED",
                where=f"op {self.full_name}",
                hint="return a number of multiply-accumulates, 0 or more",
            ) from error
        return count


def make_schema(package: str, name: str, op: type[Op]) -> OpSchema:
    """Check an op class and return its schema.

    Raises:
        PluginError: The class does not meet the contract.
    """
    where = f"op {package}::{name} ({op.__module__}.{op.__qualname__})"
    if Op not in op.__mro__:
        raise PluginError("the class is not a subclass of `dovetail.ops.Op`", where=where)
    for ports in (op.inputs, op.outputs):
        if any(p.variadic for p in ports[:-1]):
            raise PluginError("only the last input or output may be variadic", where=where)
    params = param_fields(op)
    if taken := sorted(set(params).intersection(vars(Op))):
        names = ", ".join(f"'{name}'" for name in taken)
        raise PluginError(
            f"params may not be named {names}",
            where=where,
            hint="attributes of `dovetail.ops.Op` have these names; choose others",
        )
    taken = list(inspect.signature(op.work).parameters)[1:]
    if taken != ["ins", "outs"]:
        raise PluginError(f"`work` takes {taken}; expected (self, ins, outs)", where=where)
    return OpSchema(
        package,
        name,
        op,
        op.inputs,
        op.outputs,
        params,
        _normalized(op, "infer", where, needs_outs=True),
        _normalized(op, "reference", where, needs_outs=False),
        (("input", *_arity(op.inputs)), ("output", *_arity(op.outputs))),
    )


def _arity(ports: tuple[Port, ...]) -> tuple[int, int | None]:
    """Return the minimum and maximum number of tensors; None for any number."""
    least = sum(not p.optional and not p.variadic for p in ports)
    return least, None if ports and ports[-1].variadic else len(ports)


def _normalized(op: type[Op], name: str, where: str, *, needs_outs: bool) -> Callable[..., Any]:
    """Return a method of either form as a function of (op, ins, outs)."""
    method = getattr(op, name, None)
    if method is None:
        raise PluginError(f"the op does not define `{name}`", where=where)
    names = list(inspect.signature(method).parameters)[1:]
    if names == ["ins", "outs"]:
        return lambda self, ins, outs: method(self, ins, outs)
    variadic = any(p.variadic for p in (*op.inputs, *op.outputs))
    ins, outs = len(op.inputs), len(op.outputs)
    if len(names) == ins + outs and not variadic:
        return lambda self, ins, outs: method(self, *ins, *outs)
    if len(names) == ins and not needs_outs and not variadic:
        return lambda self, ins, outs: method(self, *ins)
    wanted = "(self, ins, outs)"
    if not variadic:
        ports = f"{counted(ins, 'input')} and {counted(outs, 'output')}"
        wanted += f" or one parameter for each of {ports}"
    raise PluginError(f"`{name}` takes {names}; expected {wanted}", where=where)


def _filled(given: Sequence[Any], ports: tuple[Port, ...]) -> Sequence[Any]:
    """Return the values with None for omitted trailing optional ones."""
    if ports and ports[-1].variadic:
        return given
    return (*given, *(None,) * (len(ports) - len(given)))


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _is_whole(end: float) -> bool:
    """Return whether the end of a range is a whole number, or there is none."""
    return math.isinf(end) or float(end).is_integer()
