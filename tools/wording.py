"""Find wording that the house style replaces: docstrings, messages, help and documents.

Usage: python tools/wording.py [--comments] [PATH ...]

Each line of output names a file and line, the words found, and what to write instead. The exit
status is 1 if there is any. Tests are not read: they quote what they check. `--comments` reads
comments too.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workspace import ROOT, find_dists

SKIPPED = {"tests", "output", "templates"}
OTHERS = ("benchmarks", "docs", "examples", "tools")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a text must not contain, and what the style says instead."""

    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a file: prose of a document, a docstring, or a string that people read."""

    line: int
    value: str
    kind: str


@dataclass(frozen=True, slots=True)
class Finding:
    line: int
    words: str
    instead: str


# In any text. A lookbehind names the standard phrases in which a word stays.
WORDS = tuple(
    Rule(re.compile(pattern, re.IGNORECASE), instead)
    for pattern, instead in (
        (r"\bextents?\b", "size of an axis; shape"),
        (r"\bgreatest\b", "maximum, largest"),
        (r"(?<!at )(?<!at\n)\bleast\b(?! squares)(?!-squares)(?! recently)", "minimum, smallest"),
        (r"\b(told|tells)\b", "notify, report, say"),
        (r"\b(nobody|somebody)\b", "the passive voice"),
        (r"\b(is|are|was|were) gone\b|\bgone by\b", "removed"),
        (r"\b(brought|brings?|bringing)\b", "provide, pass"),
        (r"\b(stands?|stood) (for|in for)\b", "represent, replace"),
        (r"\btwins?\b", "sibling; float counterpart"),
        (r"\bmisfits?\b", "mismatch"),
        (r"\blook(s|ed)? at\b", "read, check, show"),
        (r"\b(be|been|is|are) had\b|\bat hand\b", "allocate, available"),
        (r"(?<!untruth )\b(lies?|lay)\b(?! not)", "be stored, be in"),
        (r"\b(beside|behind)\b", "next to; after"),
        (r"\brefus(e|es|ed|ing|al|als)\b(?! connection)", "reject, raise"),
        (
            r"(?<!\bin )(?<!in-)(?<!takes )(?<!take )(?<!decimal )(?<!first )\bplaces?\b",
            "index, offset, position, location, buffer",
        ),
        (r"\bexcludes? each other\b", "are mutually exclusive"),
        (r"\b(is|are) none of\b", "unsupported X; expected one of ..."),
        (r"\b(is|are) wanted\b", "expected X, got Y"),
        (r"\babsorb(s|ed|ing)?\b(?! bias)", "fuse (kernels), extract (Q/DQ)"),
    )
)
# At the start of a docstring.
OPENINGS = (
    Rule(
        re.compile(r"(Gives?|Makes|Has|Tells|Lets|Says|Refuses|Keeps|Takes|Puts)\b"),
        "the imperative mood: Return, Create, Raise if",
    ),
    Rule(re.compile(r"(What|Whose|Who|Those|Whether|How)\b"), "the thing named first"),
)
# At the start of a message or hint: `where` names the object.
STARTS = (
    Rule(re.compile(r"its? (is|has|are|was)?\b"), "the thing named: axis must be ..., got ..."),
    Rule(re.compile(r"there (is|are) (no|two)\b"), "X not found; duplicate X"),
    Rule(re.compile(r"'\{[^}]*\}' is no\b"), "unsupported X '...'; expected one of ..."),
)


def texts_of_python(source: str, *, comments: bool) -> Iterator[Text]:
    """Yield docstrings, and strings of at least two words."""
    tree = ast.parse(source)
    docstrings = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield Text(node.lineno, "".join(map(_part, node.values)), "message")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node in docstrings:
                yield Text(node.lineno, node.value, "docstring")
            elif re.search(r"[a-z] [a-z]", node.value):
                yield Text(node.lineno, node.value, "message")
    if comments:
        lines = iter(source.splitlines(keepends=True))
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                yield Text(token.start[0], token.string, "comment")


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield strings that are statements: docstrings, those of attributes too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _part(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "{}"


def texts_of_document(source: str) -> Iterator[Text]:
    """Yield the lines of prose: no code blocks, no code in backticks, no targets of links."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            prose = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line)
            yield Text(number, prose, "document")


def findings_of(text: Text) -> Iterator[Finding]:
    """Yield what a text says that the style words differently."""
    value = re.sub(r"`[^`]*`", lambda m: " " * len(m.group()), text.value)
    rules = [(rule, rule.pattern.finditer(value)) for rule in WORDS]
    if text.kind == "docstring":
        rules += [(r, (m for m in [r.pattern.match(value.lstrip())] if m)) for r in OPENINGS]
    elif text.kind == "message":
        rules += [(r, (m for m in [r.pattern.match(text.value)] if m)) for r in STARTS]
    for rule, matches in rules:
        for match in matches:
            line = text.line + value.count("\n", 0, match.start())
            yield Finding(line, " ".join(match.group().split()), rule.instead)


def files_of(paths: list[Path]) -> Iterator[Path]:
    """Yield the source files and documents below paths, none of them tests."""
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in found:
            inner = each.relative_to(path).parts if path.is_dir() else ()
            hidden = any(part in SKIPPED or part.startswith(".") for part in inner)
            if each.suffix in (".py", ".md") and each.is_file() and not hidden:
                yield each


def main(arguments: list[str]) -> int:
    comments = "--comments" in arguments
    named = [Path(a).resolve() for a in arguments if a != "--comments"]
    folders = [dist.folder for dist in find_dists(ROOT) if dist.folder != "."] + list(OTHERS)
    paths = named or [ROOT / folder for folder in folders] + sorted(ROOT.glob("*.md"))
    count = 0
    for path in files_of(paths):
        if path == Path(__file__).resolve():
            continue
        source = path.read_text(encoding="utf-8")
        is_python = path.suffix == ".py"
        texts = (
            texts_of_python(source, comments=comments) if is_python else texts_of_document(source)
        )
        seen = set()
        for text in texts:
            for found in findings_of(text):
                if found not in seen:
                    seen.add(found)
                    count += 1
                    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    print(f"{where}:{found.line}: '{found.words}' -> {found.instead}")
    print(f"wording: {count} to reword", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
