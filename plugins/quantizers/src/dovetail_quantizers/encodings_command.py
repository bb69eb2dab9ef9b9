"""`dovetail encodings`: convert, compare and check encodings files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dovetail.cli.output import current_output, table
from dovetail.errors import ConfigError, ExitCode, Problem, QuantizationError, counted
from dovetail_quantizers.files.coverage import Coverage, coverage_of
from dovetail_quantizers.files.difference import Difference, difference
from dovetail_quantizers.files.form import EncodingsFile
from dovetail_quantizers.files.lint import Remark
from dovetail_quantizers.files.lint import lint as find_remarks
from dovetail_quantizers.files.model_tensors import fitted, model_tensors_in
from dovetail_quantizers.files.reading import parse_encodings, read_encodings
from dovetail_quantizers.files.writing import WRITTEN, write_encodings

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Convert, compare and check encodings files: AIMET's of every version, the SDK's "
    "overrides, and model_net.json.",
)

_File = Annotated[Path, typer.Argument(help="An encodings file, or a model_net.json.")]
_MODEL_HELP = "The model of the file: a .dvt, or a file that can be converted."


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="An encodings file.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    to: Annotated[str, typer.Option(help=f"The version: {', '.join(WRITTEN)}.")],
    model: Annotated[Path | None, typer.Option(help=_MODEL_HELP)] = None,
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Leave out entries that the version cannot represent.")
    ] = False,
) -> None:
    """Write an encodings file in another version.

    Numbers keep all digits. --model provides what versions up to 1.0.0 leave out and later ones
    need: the axis of channels, and which tensors are weights.
    """
    file = read_encodings(source)
    mismatches: tuple[Problem, ...] = ()
    if model is not None:
        file, mismatches = fitted(file, model_tensors_in(model))
    if mismatches and not lossy:
        raise QuantizationError(
            f"{counted(len(mismatches), 'entry', 'entries')} without a match in the model",
            where=str(source),
            problems=mismatches,
            hint="--lossy leaves them out",
        )
    done = write_encodings(file, target, to, lossy=lossy)
    output = current_output()
    written = len(file.entries) - len(done.left_out)
    left_out = (*mismatches, *done.left_out)
    for problem in (*file.notes, *done.notes):
        output.message(f"note: {problem}")
    for problem in left_out:
        output.message(f"left out: {problem}")
    data = {
        "file": str(target),
        "version": to,
        "entries": written,
        "left_out": _plain(left_out),
        "notes": _plain((*file.notes, *done.notes)),
    }
    output.data(data, f"{target}: version {to}, {counted(written, 'entry', 'entries')}")


@app.command()
def diff(
    first: _File,
    second: _File,
    rtol: Annotated[
        float, typer.Option(help="Maximum relative difference of scales that counts as equal.")
    ] = 0.0,
) -> int:
    """Show the differences of two files; exit with 1 if there are any.

    Entries are compared by their meaning: the versions of the files may differ.
    """
    if not 0 <= rtol < math.inf:
        raise ConfigError(
            f"--rtol {rtol} is not a valid tolerance",
            code="USAGE",
            hint="pass a number of at least 0",
        )
    found = difference(read_encodings(first), read_encodings(second), rtol)
    data = {
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "same": found.same,
    }
    current_output().data(data, _difference_text(found))
    return ExitCode.OK if found.is_none else ExitCode.CHECK_FAILED


@app.command()
def lint(
    file: _File,
    model: Annotated[Path | None, typer.Option(help=_MODEL_HELP)] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on smells too.")] = False,
) -> int:
    """Show problems of a file; exit with 1 if it has faults.

    A fault cannot be read or used, a smell is probably a mistake, a note is information. With
    --model, names and numbers of channels are checked against the model's tensors.
    """
    read, faults = parse_encodings(file)
    tensors = None if model is None else model_tensors_in(model)
    found = find_remarks(read, faults, tensors)
    counts = Counter(str(remark.level) for remark in found)
    data = {
        "file": str(file),
        "version": read.version,
        "entries": len(read.entries),
        "faults": counts["fault"],
        "smells": counts["smell"],
        "notes": counts["note"],
        "remarks": [{"level": r.level, "rule": r.rule} | _plain([r.problem])[0] for r in found],
    }
    current_output().data(data, _lint_text(read, found, counts))
    failed = counts["fault"] or (strict and counts["smell"])
    return ExitCode.CHECK_FAILED if failed else ExitCode.OK


@app.command()
def coverage(
    file: _File,
    model: Annotated[Path, typer.Argument(help=_MODEL_HELP)],
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 unless every tensor and entry has its match."),
    ] = False,
) -> int:
    """Show the tensors of a model with and without entries, and entries without a tensor."""
    read = read_encodings(file)
    found = coverage_of(read, model_tensors_in(model))
    data = {
        "covered": found.covered,
        "activations_missing": found.activations_missing,
        "params_missing": found.params_missing,
        "gone": found.removed_sources,
        "unmatched": _plain(found.unmatched),
        "complete": found.is_complete,
    }
    current_output().data(data, _coverage_text(found))
    return ExitCode.CHECK_FAILED if strict and not found.is_complete else ExitCode.OK


def _plain(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    return [{"message": p.message, "where": p.where, "hint": p.hint} for p in problems]


def _difference_text(found: Difference) -> str:
    rows = [("added", name, "") for name in found.added]
    rows += [("removed", name, "") for name in found.removed]
    rows += [("changed", name, "; ".join(what)) for name, what in found.changed.items()]
    end = f"{len(rows)} differ, {found.same} are the same"
    return f"{table(('', 'TENSOR', 'WHAT'), rows)}\n\n{end}" if rows else end


def _lint_text(file: EncodingsFile, found: list[Remark], counts: Counter[str]) -> str:
    remarks = ", ".join(counted(counts[level], level) for level in ("fault", "smell", "note"))
    end = f"version {file.version}, {counted(len(file.entries), 'entry', 'entries')}: {remarks}"
    lines = [f"{r.level}[{r.rule}]: {r.problem}" for r in found]
    return "\n".join([*lines, end])


def _coverage_text(found: Coverage) -> str:
    missing = len(found.activations_missing) + len(found.params_missing)
    rows = [("activation without an entry", name, "") for name in found.activations_missing]
    rows += [("weight or bias without an entry", name, "") for name in found.params_missing]
    rows += [
        ("entry for a tensor that conversion removes", name, "") for name in found.removed_sources
    ]
    rows += [("entry without a tensor", p.where[1:-1], p.hint) for p in found.unmatched]
    end = (
        f"{len(found.covered)} of {len(found.covered) + missing} tensors have an entry; "
        f"{counted(len(found.unmatched), 'entry', 'entries')} without a tensor"
    )
    return f"{table(('WHAT', 'TENSOR', ''), rows)}\n\n{end}" if rows else end
