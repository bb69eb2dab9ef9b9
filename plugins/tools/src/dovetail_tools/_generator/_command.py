"""The work of `dovetail op-package-generator`, after its options are read."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dovetail import plugins
from dovetail.cli.output import current_output, table
from dovetail.errors import ConfigError, DovetailError, Problem, suggest_name
from dovetail.files import atomic_write
from dovetail.runtime.names import backend_name
from dovetail_tools._errors import usage
from dovetail_tools._generator._prompts import ask
from dovetail_tools._generator._spelled import spelled_op
from dovetail_tools._generator._text import one_line
from dovetail_tools._generator._write import Generated, generate
from dovetail_tools._generator._xml_text import XmlText
from dovetail_tools.op_definitions import Definitions, read_definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a command line.

    Attributes:
        configs: XML files.
        output: Folder in which the dists' folders are created.
        force: Whether generated folders are replaced.
        backends: Backends to write kernels for.
        package, domain, version: Name, domain and version of a package on the command line; None
            if not given.
        ops: Ops on the command line.
        write_xml: Path for the definitions of these ops.
    """

    configs: tuple[Path, ...]
    output: Path
    force: bool
    backends: tuple[str, ...]
    package: str | None
    domain: str | None
    version: str | None
    ops: tuple[str, ...]
    write_xml: Path | None


def run(request: Request) -> None:
    """Write the requested dists, and print the next steps.

    Raises:
        ConfigError: Options or definitions are invalid; lists every fault.
        ContainerError: A file cannot be written; no dist is written then.
    """
    backends = _backends(request.backends)
    text = None if request.configs else _spelled(request)
    if request.configs:
        _reject_both(request)
    collections = [text.definitions()] if text else _read(request.configs)
    with _written(request.write_xml, text):
        found, kept = generate(collections, request.output, backends, force=request.force)
    for folder in kept:
        current_output().message(f"the earlier folder has changes; it was renamed to {folder}")
    _report(found)


@contextmanager
def _written(path: Path | None, text: XmlText | None) -> Iterator[None]:
    """Yield a block at whose end the XML file appears."""
    if path is None or text is None:
        yield
        return
    with atomic_write(path) as file:
        file.write(str(text).encode())
        yield


def _backends(given: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(map(backend_name, given)))
    known = plugins.names("dovetail.backends")
    problems = [
        Problem(f"unknown backend '{name}'", "--backend", suggest_name(name, known))
        for name in names
        if name not in known or not name.isidentifier()
    ]
    if problems:
        raise ConfigError("kernels cannot be written", code="USAGE", problems=problems)
    return names


def _reject_both(request: Request) -> None:
    given = {
        "--package-name": request.package,
        "--domain": request.domain,
        "--package-version": request.version,
        "--op": request.ops,
        "--write-xml": request.write_xml,
    }
    if wrong := [option for option, value in given.items() if value]:
        raise usage(
            f"{', '.join(wrong)} and --config-path are mutually exclusive",
            hint="the XML file defines the package and its ops",
        )


def _spelled(request: Request) -> XmlText:
    if request.package and request.ops:
        problems: list[Problem] = []
        ops = [spelled_op(text, problems) for text in request.ops]
        if problems:
            raise ConfigError("invalid ops", code="USAGE", problems=problems)
        return XmlText(request.package, request.domain or "", request.version or "1.0.0", ops)
    if any((request.package, request.ops, request.domain, request.version)):
        lacking = "--op" if request.package else "--package-name"
        raise usage(f"{lacking} is missing", hint="--package-name and --op must be used together")
    if not sys.stdin.isatty():
        raise usage(
            "the op package is not specified",
            hint="pass --config-path XML, or --package-name and --op; a terminal has a dialogue",
        )
    return ask()


def _read(paths: Sequence[Path]) -> list[Definitions]:
    """Read all files, then report the faults of all."""
    found: list[Definitions] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            found.append(read_definitions(path))
        except ConfigError as error:
            problems += error.problems
        except DovetailError as error:
            if len(paths) == 1:
                raise
            problems.append(error.as_problem())
    if problems:
        raise ConfigError("invalid op definitions", problems=problems)
    return found


def _report(found: Sequence[Generated]) -> None:
    data = [
        {
            "package": each.definitions.package,
            "dist": each.names.dist,
            "folder": str(each.folder),
            "files": list(each.files),
            "ops": [op.name for op in each.definitions.ops],
            "unexpressed": [{"op": r.op, "line": r.line, "text": r.text} for r in each.remarks],
        }
        for each in found
    ]
    current_output().data({"packages": data}, "\n".join(map(_summary, found)))


def _summary(each: Generated) -> str:
    names = ", ".join(op.name for op in each.definitions.ops)
    # with ./, since pip would look up a bare name on an index
    folder = each.folder if each.folder.is_absolute() else f"./{each.folder}"
    lines = [
        f"{each.folder}: op package {each.definitions.package} with {names}",
        f"next: pip install -e '{folder}[test]', then write `reference` of each op in "
        f"{each.folder / 'src' / each.names.module / 'ops.py'}",
    ]
    if each.remarks:
        rows = [(r.op, r.line, one_line(r.text)) for r in each.remarks]
        lines += [
            "facts of the definitions that no schema expresses:",
            "",
            table(("OP", "LINE", "WHAT"), rows),
        ]
    return "\n".join(lines)
