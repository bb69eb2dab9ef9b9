"""Public names of a package that are imported at their first use, so that processes start fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Name of the package.
        homes: Modules by the names that they define, or that are their own.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = importlib.import_module(homes[name])
        return module if module.__name__ == f"{package}.{name}" else getattr(module, name)

    return load
