"""Netron, serving one file, and the page that shows it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netron_check.chromium import BrowserError, Page

READ_PAGE = Path(__file__).with_name("read_page.js").read_text(encoding="utf-8")
TIMEOUT_MS = 30_000
# Netron asks to be updated half a year after its release, and blocks the page.
WITHOUT_DATE = """document.addEventListener('DOMContentLoaded', () =>
    document.querySelectorAll('meta[name=date]').forEach((each) => each.remove()))"""


def version(python: Path) -> str:
    """Return the version of Netron in an environment; empty if it is not there."""
    if not python.exists():
        return ""
    command = [str(python), "-c", "import netron; print(netron.__version__)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def prepare(page: Page) -> None:
    """Let a page show files without asking first."""
    page.call("Network.setCookie", name="consent", value="0", url="http://localhost/")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=WITHOUT_DATE)


def show(page: Page, python: Path, path: Path) -> dict[str, Any]:
    """Return what Netron shows of a file, as `read_page.js` returns it.

    Args:
        page: The browser's page.
        python: Interpreter of the environment with Netron.
        path: The file.

    Raises:
        BrowserError: Netron's server does not start, or the browser fails.
    """
    with _served(python, path) as url:
        page.open(url)
        shown: dict[str, Any] = page.evaluate(f"({READ_PAGE})({TIMEOUT_MS})")
        return shown


@contextmanager
def _served(python: Path, path: Path) -> Iterator[str]:
    command = [str(python), "-c", "import netron; netron.main()", "--port", "0", path.name]
    process = subprocess.Popen(
        command, cwd=path.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        line = process.stderr.readline() if process.stderr else ""
        if not (found := re.search(r"http://\S+", line)):
            raise BrowserError(f"Netron does not serve {path.name}: {line.strip()}")
        yield found[0]
    finally:
        process.kill()
        process.communicate()
