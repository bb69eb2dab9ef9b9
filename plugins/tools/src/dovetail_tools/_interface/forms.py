"""Options about inputs and outputs, merged: command line over file over `--preserve-io`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dovetail.errors import ConfigError, Problem
from dovetail.ir import Shape
from dovetail_tools._interface.custom_io import read_custom_io
from dovetail_tools._interface.form import STORED, Form
from dovetail_tools._interface.io_config import IoConfig, read_io_config
from dovetail_tools._interface.preserve import Preserved, parse_preserve
from dovetail_tools._pairs import by_name

_COLORS = ("bgr", "rgb", "rgba", "argb32", "nv12", "nv21")
# Encodings of inputs that are no images; they change nothing.
_NO_COLORS = ("time_series", "other")
_INPUT_TYPES = ("image", "default", "opaque")


@dataclass(frozen=True, slots=True)
class InterfaceOptions:
    """The options as the command line has them.

    Attributes:
        custom_io, io_config: Files.
        layouts, wanted_layouts, dtypes, kinds: Pairs of an input and a layout, a type or a kind.
        colors: An input, its colors, and maybe those of the model.
        preserve: The values of each use of `--preserve-io`.
        legacy: Whether images become channels-last.
    """

    custom_io: Path | None = None
    io_config: Path | None = None
    layouts: Sequence[tuple[str, str]] = ()
    wanted_layouts: Sequence[tuple[str, str]] = ()
    dtypes: Sequence[tuple[str, str]] = ()
    kinds: Sequence[tuple[str, str]] = ()
    colors: Sequence[Sequence[str]] = ()
    preserve: Sequence[Sequence[str]] = ()
    legacy: bool = False


@dataclass(frozen=True, slots=True)
class InterfaceRequest:
    """The result of all options.

    Attributes:
        forms: Forms of tensors by name.
        shapes: Shapes of inputs by name, from a file.
        out_names: Tensors at which a file cuts the model.
        preserved: Tensors that keep layouts and types.
        legacy: Whether images become channels-last.
        is_quantized: Whether the model is quantized.
    """

    forms: Mapping[str, Form] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    out_names: tuple[str, ...] = ()
    preserved: Preserved = field(default_factory=Preserved)
    legacy: bool = False
    is_quantized: bool = False

    def pass_values(self, *, keep_int64: bool = False) -> dict[str, Any]:
        """Return the options of the pass `interface`; empty if it has nothing to do or to check.

        Args:
            keep_int64: Whether 64-bit inputs stay so in the older form of the interface.
        """
        kept = self.preserved
        if not (self.forms or self.legacy or kept.layouts or kept.types):
            return {}
        given = [
            form.as_option(
                name,
                is_quantized=self.is_quantized,
                keeps_layout=kept.layouts is None or name in kept.layouts,
            )
            for name, form in self.forms.items()
        ]
        return {
            "tensors": given,
            "channels_last": self.legacy and kept.layouts is not None,
            "narrow_integers": self.legacy and kept.types is not None and not keep_int64,
            "preserved": sorted({*(kept.layouts or ()), *self._with_own_layout()}),
            "preserved_types": sorted(kept.types or ()),
        }

    def values_after_quantization(self) -> dict[str, Any]:
        """Return the options of another pass `interface`, of the quantized model; maybe empty."""
        given = [form.after_quantization(name) for name, form in self.forms.items()]
        wanted = [each for each in given if each is not None]
        return {"tensors": wanted} if wanted and self.is_quantized else {}

    @property
    def unquantized(self) -> tuple[str, ...] | None:
        """The tensors that the quantizer leaves as they are; None for all inputs and outputs."""
        types = self.preserved.types
        opaque = (name for name, form in self.forms.items() if form.is_opaque)
        return None if types is None else tuple(dict.fromkeys((*types, *opaque)))

    def _with_own_layout(self) -> Iterable[str]:
        """Yield the tensors whose layout in the model is stated, and is no channels-first one."""
        return (
            name
            for name, form in self.forms.items()
            if form.model_layout not in (None, "NCHW", "NCDHW") and form.layout is None
        )


def read_interface(options: InterfaceOptions, *, is_quantized: bool = False) -> InterfaceRequest:
    """Return what the options say about each tensor.

    Args:
        options: The options.
        is_quantized: Whether the model is quantized afterwards.

    Raises:
        FrontendError: A file cannot be read.
        ConfigError: Files or options are invalid, or contradict each other; lists every fault.
    """
    problems: list[Problem] = []
    if options.custom_io is not None and options.io_config is not None:
        problems.append(Problem("--custom-io and --io-config are mutually exclusive"))
    config = _from_files(options, problems)
    forms = config.forms
    own = {name for name, form in forms.items() if form.model_layout is not None}
    for name, layout in by_name("--input-layout", options.layouts, problems).items():
        if name in own and options.custom_io is not None:
            text = "the model's layout is in the file of --custom-io, too; give it once"
            problems.append(Problem(text, f"--input-layout {name}"))
        forms.setdefault(name, Form()).model_layout = layout
    for name, layout in by_name("--desired-input-layout", options.wanted_layouts, problems).items():
        forms.setdefault(name, Form()).layout = layout
    for name, dtype in by_name("--input-dtype", options.dtypes, problems).items():
        form = forms.setdefault(name, Form())
        # the option says what the model reads; a float type does not keep the input float
        form.dtype, form.stored_dtype = dtype, dtype if dtype in STORED else None
    for name, kind in by_name("--input-type", options.kinds, problems).items():
        _set_kind(forms.setdefault(name, Form()), kind, f"--input-type {name}", problems)
    _set_colors(forms, options.colors, problems)
    preserved = parse_preserve(options.preserve, problems)
    for name, form in forms.items():
        problems += [Problem(fault, f"input or output '{name}'") for fault in form.faults()]
    if problems:
        raise ConfigError("invalid options", code="USAGE", problems=problems)
    return InterfaceRequest(
        forms, config.shapes, config.out_names, preserved, options.legacy, is_quantized
    )


def _from_files(options: InterfaceOptions, problems: list[Problem]) -> IoConfig:
    """Return the content of the files; those of `--custom-io` have forms only."""
    config = IoConfig()
    try:
        if options.io_config is not None:
            config = read_io_config(options.io_config, problems)
        if options.custom_io is not None:
            config.forms |= read_custom_io(options.custom_io, problems)
    except ConfigError as error:
        # those of the form of a file have their path in it
        inside = [Problem(p.message, f"{error.where}: {p.where}", p.hint) for p in error.problems]
        problems += inside or [error.as_problem()]
    return config


def _set_kind(form: Form, kind: str, where: str, problems: list[Problem]) -> None:
    if kind not in _INPUT_TYPES:
        expected = ", ".join(_INPUT_TYPES)
        problems.append(Problem(f"unsupported value '{kind}'; expected one of {expected}", where))
    elif kind == "image":
        if form.dtype not in (None, "uint8") or form.scale not in (None, 1.0):
            problems.append(Problem("an image has the type uint8 and the scale 1", where))
        form.dtype, form.scale, form.offset = "uint8", 1.0, 0
    form.is_opaque = kind == "opaque"


def _set_colors(
    forms: dict[str, Form], uses: Iterable[Sequence[str]], problems: list[Problem]
) -> None:
    seen: set[str] = set()
    for name, *values in uses:
        where = f"--input-encoding {name}"
        known = (*_COLORS, *_NO_COLORS)
        if name in seen:
            problems.append(Problem("given twice", where))
        seen.add(name)
        for value in values:
            if value not in known:
                text = f"unsupported value '{value}'; expected one of {', '.join(known)}"
                problems.append(Problem(text, where))
        if all(value in _COLORS for value in values):
            given, own = values[0], values[1] if len(values) > 1 else "bgr"
            forms.setdefault(name, Form()).colors = (given, own)
