"""The README of a generated dist: what is left to do, and what the schemas do not hold."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_tools._generator._names import Names
from dovetail_tools._generator._text import one_line
from dovetail_tools.op_definitions import Definitions, unexpressed


def readme(definitions: Definitions, names: Names, plugins: Sequence[tuple[str, str, str]]) -> str:
    """Return the text.

    Args:
        definitions: The ops.
        names: Of the dist.
        plugins: Groups, names and values of its entry points.
    """
    source = f"src/{names.module}"
    domain = definitions.domain or names.package
    ops = "\n".join(f"- `{op.name}`: class `{names.classes[op.name]}`" for op in definitions.ops)
    points = "\n".join(f"| `{group}` | `{name}` | `{value}` |" for group, name, value in plugins)
    return f"""\
# {names.dist}

The op package `{names.package}` for Dovetail. Schemas and shapes of its ops were generated from
their definitions; what the ops compute is written by hand.

```sh
pip install -e '.[test]'
python -m pytest
dovetail plugins
```

ONNX nodes of the domain `{domain}` become these ops when a model is converted:

{ops}

## To do, op by op

1. Write `reference` in `{source}/ops.py`, in NumPy. That alone makes the op run on every backend
   that takes op packages. Until then it is refused with the name of this file.
2. Write what it must give in `tests/cases.py`, in other words than the reference, and add cases.
3. Take the op out of `UNWRITTEN` in `tests/cases.py`: its tests now count.
4. Where it must be fast, write a kernel in `{source}/kernels.py`.

## What finds it

| group | name | loads |
|---|---|---|
{points}

## What the definitions say and no schema holds

{_remarks(definitions)}
"""


def _remarks(definitions: Definitions) -> str:
    found = unexpressed(definitions)
    if not found:
        return "Nothing: they are expressed in full."
    told = "It stands in the classes' docstrings where it is about meaning; no code checks it yet."
    # indented, so that nothing in it is markup
    lines = [f"    {r.op}: {one_line(r.text)}" for r in found]
    return "\n".join([told, "", *lines])
