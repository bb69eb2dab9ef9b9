"""`dovetail doctor`: loads everything that is installed and reports what is broken or missing."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import typer

from dovetail import __version__
from dovetail.cli.output import current_output, table
from dovetail.errors import DovetailError, ExitCode, counted
from dovetail.plugins import COMMAND_HELP, Plugin, list_plugins, load, probe
from dovetail.plugins.ops import installed_ops

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_CORE = "dovetail-core"
_BACKENDS = "dovetail.backends"
_OP_PACKAGES = "dovetail.op_packages"
# Required group -> what is impossible without a plugin of it.
_NEEDED = {
    _OP_PACKAGES: "graphs cannot be checked or run",
    "dovetail.frontends": "models cannot be converted",
    _BACKENDS: "models cannot be run",
}


@dataclass(frozen=True, slots=True)
class _Finding:
    """A plugin after it was loaded, with the lines that it reports."""

    plugin: Plugin
    lines: tuple[str, ...] = ()

    @property
    def is_fault(self) -> bool:
        return not self.plugin.is_usable and self.plugin.status != "disabled"


@app.command()
def doctor() -> None:
    """Check this installation and say what is missing.

    Every plugin is loaded. A backend is also created, and lines that its method `doctor()` returns
    are shown. The exit code is 6 if a plugin is broken, claimed twice or incompatible with this
    core.
    """
    findings = [_try(p) for p in list_plugins() if p.group != COMMAND_HELP]
    faults = [f for f in findings if f.is_fault]
    # core's own backend runs nothing without others
    present = {f.plugin.group for f in findings if f.plugin.is_usable and f.plugin.dist != _CORE}
    missing = [
        f"no usable plugin in {group}: {consequence}"
        for group, consequence in _NEEDED.items()
        if group not in present
    ]
    host = {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "numpy": np.__version__,
        "dovetail-core": __version__,
    }
    report: dict[str, Any] = {
        **host,
        "plugins": [{**f.plugin._asdict(), "lines": list(f.lines)} for f in findings],
        "missing": missing,
        "ok": not faults,
    }
    current_output().data(report, _text(host, findings, missing))
    if faults:
        raise typer.Exit(ExitCode.PLUGIN)


def _try(plugin: Plugin) -> _Finding:
    if not plugin.is_usable:
        return _Finding(plugin)
    tried = probe(plugin.group, plugin.name)
    if not tried.is_usable:
        return _Finding(tried)
    try:
        return _Finding(tried, _use(tried))
    except DovetailError as error:
        reason = f"{error.message}; {error.hint}" if error.hint else error.message
    except Exception as error:  # noqa: BLE001  a plugin's error, which the report shows
        reason = f"{type(error).__name__}: {error}"
    return _Finding(tried._replace(status="broken", reason=reason))


def _use(plugin: Plugin) -> tuple[str, ...]:
    """Use a plugin beyond loading it; return the lines that it reports."""
    if plugin.group == _OP_PACKAGES:
        return (counted(len(installed_ops().package(plugin.name).schemas), "op"),)
    if plugin.group == _BACKENDS:
        backend_class: Any = load(plugin.group, plugin.name)
        backend = backend_class(installed_ops(), backend_class.configs.backend())
        notes = tuple(str(line) for line in backend.platform().notes)
        backend.close()
        return notes
    return ()


def _text(host: dict[str, str], findings: list[_Finding], missing: list[str]) -> str:
    parts = [table(("", ""), host.items()).lstrip("\n"), ""]
    for finding in findings:
        plugin = finding.plugin
        label = f"{plugin.group.removeprefix('dovetail.')} {plugin.name} ({plugin.dist})"
        reason = f": {plugin.reason}" if plugin.reason else ""
        parts.append(f"{plugin.status:<12}  {label}{reason}")
        parts += [f"{'':<12}    {line}" for line in finding.lines]
    parts += [f"{'missing':<12}  {line}" for line in missing]
    faults = sum(f.is_fault for f in findings)
    verdict = f"{counted(faults, 'plugin')} cannot be used" if faults else "every plugin works"
    return "\n".join([*parts, "", verdict])
