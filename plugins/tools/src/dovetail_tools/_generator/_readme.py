"""The README of a generated dist: next steps, and facts that the schemas do not express."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail_tools._generator._names import Names
from dovetail_tools._generator._text import one_line
from dovetail_tools.op_definitions import Definitions, unexpressed


def readme(definitions: Definitions, names: Names, plugins: Sequence[tuple[str, str, str]]) -> str:
    """Return the text.

    Args:
        definitions: The ops.
        names: Names of the dist.
        plugins: Groups, names and values of its entry points.
    """
    source = f"src/{names.module}"
    domain = definitions.domain or names.package
    ops = "\n".join(f"- `{op.name}`: class `{names.classes[op.name]}`" for op in definitions.ops)
    points = "\n".join(f"| `{group}` | `{name}` | `{value}` |" for group, name, value in plugins)
    return f"""\
# {names.dist}

The op package `{names.package}` for Dovetail. Schemas and shapes of its ops were generated from
their definitions. The code of the ops is written by hand.

```sh
pip install -e '.[test]'
python -m pytest
dovetail plugins
```

ONNX nodes of the domain `{domain}` become these ops when a model is converted:

{ops}

## To do, op by op

1. Write `reference` in `{source}/ops.py`, in NumPy. The op then runs on every backend that supports
   op packages. Until then, errors name this file.
2. Write the expected outputs in `tests/cases.py`, computed in another way than by the reference,
   and add cases.
3. Remove the op from `UNWRITTEN` in `tests/cases.py`: its tests are now required to pass.
4. If it must be fast, write a kernel in `{source}/kernels.py`.

## Entry points

| group | name | loads |
|---|---|---|
{points}

## Facts of the definitions that no schema expresses

{_remarks(definitions)}
"""


def _remarks(definitions: Definitions) -> str:
    found = unexpressed(definitions)
    if not found:
        return "None: the schemas express the definitions in full."
    head = "The docstrings of the classes have the parts about meaning. No code checks them yet."
    # indented, so that it is not read as markup
    lines = [f"    {r.op}: {one_line(r.text)}" for r in found]
    return "\n".join([head, "", *lines])
