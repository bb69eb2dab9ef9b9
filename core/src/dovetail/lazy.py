"""Public names of a package that are imported at their first use, so that processes start fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dovetail.collecting import importing


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        package: Name of the package.
        modules: The names that each module defines; none for a module that is itself a name.
    """
    homes = {name: module for module, names in modules.items() for name in names}
    own = {module.rpartition(".")[2]: module for module, names in modules.items() if not names}

    def load(name: str) -> Any:
        home = own.get(name) or homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        with importing(home):
            module = importlib.import_module(home)
        return module if name in own else getattr(module, name)

    return load
