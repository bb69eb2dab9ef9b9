"""The generated parts of `docs/htp.md`.

`python plugins/htp/tests/helpers/document.py` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dovetail_htp.configs import keys_and_effects
from dovetail_htp.socs import socs

DOCUMENT = Path(__file__).parents[4] / "docs" / "htp.md"
_WIDTH = 118


def generated(text: str) -> str:
    """Return the document with its generated parts."""
    parts = {"socs": _socs(), "keys": _keys(), "without effect": _without_effect()}
    for name, lines in parts.items():
        new = f"<!-- {name} -->\n" + "\n".join(lines) + "\n<!-- end -->"
        text = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _, n=new: n, text, flags=re.S)
    return text


def _socs() -> Iterator[str]:
    yield "| SoC | id | architecture | VTCM |"
    yield "|---|---|---|---|"
    for soc in sorted(socs(), key=lambda soc: (-(soc.arch or 0), soc.id)):
        if soc.arch is not None:
            arch = f"v{soc.arch}" if soc.arch else "none"
            size = f"{soc.vtcm_mb} MB" if soc.vtcm_mb else "not stated" if soc.has_htp else "none"
            yield f"| {soc.name} | {soc.id} | {arch} | {size} |"


def _keys() -> Iterator[str]:
    yield "| key | effect |"
    yield "|---|---|"
    yield from (f"| `{key}` | {stated} |" for key, stated in keys_and_effects() if stated)


def _without_effect() -> Iterator[str]:
    line = ""
    keys = [f"`{key}`" for key, stated in keys_and_effects() if not stated]
    for key in [*(f"{key}," for key in keys[:-1]), f"{keys[-1]}."]:
        if len(line) + len(key) >= _WIDTH:
            yield line
            line = ""
        line = f"{line} {key}".lstrip()
    yield line


if __name__ == "__main__":
    DOCUMENT.write_text(generated(DOCUMENT.read_text("utf-8")), "utf-8")
