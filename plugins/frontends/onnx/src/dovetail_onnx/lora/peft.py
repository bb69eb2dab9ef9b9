"""Adapters as PEFT stores them: adapter_config.json and adapter_model.safetensors."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dovetail import typed
from dovetail.adapters import read_safetensors
from dovetail.errors import ConfigError, FrontendError, Problem
from dovetail.files.config_text import read_json
from dovetail.ir import Array

_WEIGHTS = "adapter_model.safetensors"
_KEY = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_([AB])(?:\.\w+)?(?:\.weight)?")


class LoraConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of an adapter_config.json that matter to weights.

    Attributes:
        alpha: Numerator of the factor of the product B A.
        rank: The rank of modules that no pattern names.
        target_modules: Names of modules, or the ends of their names; a regular expression as text.
        use_rslora: Whether the denominator is the root of the rank.
        rank_pattern: Ranks of other modules, by the ends of their names.
        alpha_pattern: Numerators of other modules, by the ends of their names.
        fan_in_fan_out: Whether weights are stored (in, out).
        peft_type: The kind of adapter.
        use_dora, modules_to_save, bias: Extensions that are not supported.
    """

    alpha: float
    rank: int
    target_modules: tuple[str, ...] | str | None = None
    use_rslora: bool = False
    rank_pattern: dict[str, int] = {}
    alpha_pattern: dict[str, float] = {}
    fan_in_fan_out: bool = False
    peft_type: str = "LORA"
    use_dora: bool = False
    modules_to_save: tuple[str, ...] | None = None
    bias: str = "none"


@dataclass(frozen=True, slots=True, eq=False)
class LoraModule:
    """The weights of one module: the change of its weight is `factor * B A`.

    Attributes:
        a: (rank, in), or (rank, in, *kernel) for a convolution.
        b: (out, rank), or (out, rank, 1, ...) for a convolution.
        factor: The product's factor.
    """

    a: Array
    b: Array
    factor: float

    @property
    def rank(self) -> int:
        """Rank of the product."""
        return int(self.a.shape[0])


def read_peft(config_path: Path) -> dict[str, LoraModule]:
    """Read an adapter and return its modules by name.

    Args:
        config_path: The adapter_config.json, or its folder.

    Raises:
        ConfigError: The config cannot be read, has faults, or uses an unsupported extension.
        FrontendError: The weights cannot be read or do not match; every fault is listed.
    """
    path = config_path / "adapter_config.json" if config_path.is_dir() else config_path
    config = _config(path)
    weights = path.with_name(_WEIGHTS)
    arrays = read_safetensors(weights).arrays
    parts: dict[str, dict[str, Array]] = {}
    problems: list[Problem] = []
    for key, values in arrays.items():
        match = _KEY.fullmatch(key)
        if match is None or values.dtype.kind != "f":
            problems.append(Problem("unsupported weight; expected lora_A and lora_B", key))
            continue
        parts.setdefault(match[1], {})[match[2]] = np.asarray(values, np.float32)
    found: dict[str, LoraModule] = {}
    for name, pair in parts.items():
        fault = _fault(pair)
        if fault:
            problems.append(Problem(fault, f"module '{name}'"))
        else:
            found[name] = LoraModule(pair["A"], pair["B"], _factor(config, name, pair["A"]))
    if not arrays:
        problems.append(Problem("the file has no weights"))
    if problems:
        raise FrontendError("is not a LoRA adapter", where=str(weights), problems=problems)
    return found


def _config(path: Path) -> LoraConfig:
    data: dict[str, Any] = read_json(path)
    for ours, theirs in (("rank", "r"), ("alpha", "lora_alpha")):
        if theirs in data and ours not in data:
            data[ours] = data[theirs]
    for key in ("rank_pattern", "alpha_pattern"):
        data[key] = data.get(key) or {}
    typed.drop_unknown_keys(data, LoraConfig)  # PEFT's file has dozens of keys of training
    config = typed.convert(data, LoraConfig, where=str(path))
    unsupported = {
        f"peft_type {config.peft_type}": config.peft_type != "LORA",
        "use_dora": config.use_dora,
        "modules_to_save": bool(config.modules_to_save),
        f"bias {config.bias}": config.bias != "none",
        "fan_in_fan_out": config.fan_in_fan_out,
    }
    problems = [Problem(f"unsupported: {name}") for name, given in unsupported.items() if given]
    if config.rank < 1 or not math.isfinite(config.alpha):
        problems.append(Problem("expected a positive rank and a finite alpha"))
    if problems:
        raise ConfigError("cannot use the adapter", where=str(path), problems=problems)
    return config


def _fault(pair: dict[str, Array]) -> str:
    if missing := {"A", "B"} - pair.keys():
        return f"missing lora_{missing.pop()}"
    a, b = pair["A"], pair["B"]
    if a.ndim < 2 or a.ndim != b.ndim or not a.size or not b.size:
        return f"impossible shapes {a.shape} and {b.shape}"
    if b.shape[1] != a.shape[0] or math.prod(b.shape[2:]) != 1:
        return f"shapes {a.shape} and {b.shape} do not form a product"
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return "contains NaN or infinity"
    return ""


def _factor(config: LoraConfig, name: str, a: Array) -> float:
    matching = (v for end, v in config.alpha_pattern.items() if f".{name}".endswith(f".{end}"))
    alpha, rank = next(matching, config.alpha), a.shape[0]
    return float(alpha / (math.sqrt(rank) if config.use_rslora else rank))
