"""A verifier with its parameters, and its run over the blocks of a tensor."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from dovetail.errors import ConfigError, PluginError, Problem
from dovetail.ir import Array
from dovetail.typed import convert
from dovetail.verification.comparison import Comparison, VerificationError
from dovetail.verification.contract import Verifier, verifier_params, verifier_tensors
from dovetail.verification.text import verifier_text

_NUMBERS = "biuf"  # kinds of NumPy types: boolean, integer and float


@dataclass(frozen=True, slots=True)
class ConfiguredVerifier:
    """A verifier with its parameters; `configure` checks them.

    Attributes:
        name: Name of the verifier.
        verifier: Its class.
        params: Values of the parameters that differ from their defaults or were given.
        tensors: How many tensors it reads together; 1 for most.
    """

    name: str
    verifier: type[Verifier]
    params: Mapping[str, Any]
    tensors: int = 1

    def begin(self) -> Verification:
        """Return a comparison of a stream of blocks."""
        return Verification(self)

    def compare(self, *arrays: Array) -> Comparison:
        """Compare tensors at once: a pure function of the arrays.

        Args:
            arrays: Golden and target, of one shape; and again for each further tensor. Real values:
                quantized tensors are dequantized before (`dovetail.ops.to_real`).

        Raises:
            VerificationError: The shapes differ, or the verifier is not defined for the arrays.
        """
        run = self.begin()
        run.update(*arrays)
        return run.finish()

    def __str__(self) -> str:
        return verifier_text(self.name, self.params)


class Verification:
    """A verifier's comparison of a tensor that arrives in blocks, in bounded memory."""

    def __init__(self, configured: ConfiguredVerifier) -> None:
        self._configured = configured
        self._verifier = configured.verifier(**configured.params)
        self._elements = 0

    def update(self, *arrays: Array) -> None:
        """Compare a block: a sample, or a part of a tensor along its first axis.

        Args:
            arrays: As for `ConfiguredVerifier.compare`.

        Raises:
            VerificationError: As `ConfiguredVerifier.compare`; the block is not counted then.
        """
        self._check(arrays)
        self._verifier.update(*arrays)
        self._elements += arrays[0].size

    def finish(self) -> Comparison:
        """Return the comparison of all blocks so far. More blocks may follow."""
        found = self._verifier.finish()
        return replace(found, name=self._configured.name, elements=self._elements)

    def _check(self, arrays: tuple[Array, ...]) -> None:
        where = f"verifier '{self._configured.name}'"
        if len(arrays) != 2 * self._configured.tensors:
            raise VerificationError(
                f"expected {2 * self._configured.tensors} arrays, got {len(arrays)}",
                where=where,
                hint="pass the golden and the target array of each tensor",
            )
        for golden, target in zip(arrays[::2], arrays[1::2], strict=True):
            if golden.shape != target.shape:
                raise VerificationError(
                    f"cannot compare tensors of shapes {golden.shape} and {target.shape}",
                    where=where,
                    hint="compare tensors of the same name in the same layout; "
                    "undo layout changes first",
                )
        if wrong := sorted({str(a.dtype) for a in arrays if a.dtype.kind not in _NUMBERS}):
            raise VerificationError(
                f"cannot compare tensors of type {', '.join(wrong)}",
                where=where,
                hint="compare real values: boolean, integer or float",
            )


def configure(
    verifier: type[Verifier],
    params: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    where: str = "",
    path: str = "parameters",
) -> ConfiguredVerifier:
    """Return a verifier with parameters.

    Args:
        verifier: Its class.
        params: Values by name; the others have their defaults.
        name: Its name; that of the class if empty.
        where: Name of the file that the parameters are from, for errors.
        path: Their path in that file, for errors.

    Raises:
        ConfigError: Unknown parameters and wrong values; all are named.
        PluginError: The class is not a verifier.
    """
    name = name or verifier.__name__
    given = dict(params or {})
    where = where or f"verifier '{name}'"
    struct = _struct(verifier)
    typed = convert(given, struct, where=where, path=path)
    values = {key: getattr(typed, key) for key in given}
    if nans := [k for k, v in values.items() if isinstance(v, float) and math.isnan(v)]:
        problems = [Problem("expected a number, got NaN", f"{path}.{key}") for key in nans]
        raise ConfigError("wrong values", where=where, problems=problems)
    return ConfiguredVerifier(name, verifier, values, verifier_tensors(verifier))


@functools.cache
def _struct(verifier: type[Verifier]) -> type[msgspec.Struct]:
    """Return a Struct of a verifier's parameters, which decodes and checks them."""
    fields = [(p.name, p.type, p.default) for p in verifier_params(verifier)]
    try:
        struct = msgspec.defstruct("Parameters", fields, kw_only=True)
        msgspec.convert({}, struct)
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"unsupported type of a parameter: {error}",
            where=f"verifier '{verifier.__name__}'",
            hint="use bool, int, float or str, or one of them annotated with msgspec.Meta",
        ) from error
    return struct
