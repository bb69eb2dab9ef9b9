"""A headless Chromium, driven over a pipe by its DevTools protocol; standard library only."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60.0
# The protocol uses the file descriptors 3 and 4; its messages end with a zero byte.
SHELL = ("/bin/sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >&2', "sh")
OPTIONS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    # Nothing outside this machine: pages may report what they do.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
)


class BrowserError(Exception):
    """The browser cannot start, ended, does not respond, or reports an error."""


def find_chromium(name: str = "") -> Path | None:
    """Return the path of a browser, by default of the first of `NAMES`; None if there is none."""
    found = next(filter(None, map(shutil.which, (name,) if name else NAMES)), None)
    return None if found is None else Path(found)


@contextmanager
def open_page(program: Path) -> Iterator[Page]:
    """Start a browser with a profile of its own; return its only page.

    Raises:
        BrowserError: It does not start.
    """
    # Chromium's sandbox does not work for root.
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        log = Path(scratch, "log")
        with log.open("wb") as messages:
            process = subprocess.Popen(
                [*SHELL, program, *OPTIONS, *root, f"--user-data-dir={scratch}/profile"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                env=os.environ | {"HOME": scratch},
                bufsize=0,
            )
        try:
            yield Page(process)
        except BrowserError as error:
            raise BrowserError(f"{error}\n{log.read_text('utf-8', 'replace')[-2000:]}") from error
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a browser: it does so by itself if nothing controls it."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Page:
    """The page of a browser.

    Args:
        process: The browser, whose standard input and output are the ends of the protocol's pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("no pipes")
        self._write, self._read = process.stdin, process.stdout
        self._unread = bytearray()
        self._last = 0
        self._session: dict[str, str] = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": attached["sessionId"]}
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol; return its result.

        Raises:
            BrowserError: The method failed, or the browser ended or did not respond in time.
        """
        self._last += 1
        message = {"id": self._last, "method": method, "params": params, **self._session}
        try:
            self._write.write(json.dumps(message).encode() + b"\0")
        except OSError as error:
            raise BrowserError(f"{method}: the browser ended") from error
        until = time.monotonic() + SECONDS
        # Events have no `id`.
        while (received := self._receive(method, until)).get("id") != self._last:
            pass
        if "error" in received:
            raise BrowserError(f"{method}: {received['error']['message']}")
        return received["result"]

    def _receive(self, method: str, until: float) -> dict[str, Any]:
        while (end := self._unread.find(b"\0")) < 0:
            left = max(0.0, until - time.monotonic())
            if not select.select([self._read], [], [], left)[0]:
                raise BrowserError(f"{method}: no response after {SECONDS:.0f} s")
            if not (data := self._read.read(1 << 20)):
                raise BrowserError(f"{method}: the browser ended")
            self._unread += data
        message: dict[str, Any] = json.loads(self._unread[:end])
        del self._unread[: end + 1]
        return message

    def open(self, url: str) -> None:
        """Navigate to an address.

        Raises:
            BrowserError: It cannot be opened.
        """
        if why := self.call("Page.navigate", url=url).get("errorText"):
            raise BrowserError(f"{url}: {why}")

    def evaluate(self, expression: str) -> Any:
        """Return the JSON-able value of a JavaScript expression, or of its promise.

        Raises:
            BrowserError: It throws an exception.
        """
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if thrown := result.get("exceptionDetails"):
            about = thrown.get("exception", {}).get("description") or thrown["text"]
            raise BrowserError(f"exception in the page: {about}")
        return result["result"].get("value")
