"""Find wording that the house style replaces: docstrings, messages, help and documents.

    python tools/wording.py                         # everything but the tests, which quote
    python tools/wording.py core/src --comments     # some paths, comments too
    python tools/wording.py --sample 200 --seed 7   # texts drawn by chance, to be read by a person

Each line of output names a file and line, the words found, and what to write instead. The exit
status is 1 if there is any.
"""

import argparse
import ast
import random
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from workspace import ROOT, find_dists

SKIPPED = {"tests", "output", "templates"}
THIS = Path(__file__).resolve()
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
        (r"\b\w*(centre|colour|neighbour)\w*\b", "center, color, neighbor"),
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
        (r"\w\((s|es|ies)\)", "`counted` of dovetail.errors"),
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


def texts_of_python(source: str, *, comments: bool = False) -> Iterator[Text]:
    """Yield docstrings, and strings of at least two words."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    docstrings = {n.value for n in nodes if isinstance(n, ast.Expr)}
    parts = {part for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    for node in nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in parts:
            value = _value(node)
            if node in docstrings:
                yield Text(node.lineno, value, "docstring")
            elif re.search(r"[a-z] [a-z{]|\} [a-z]", value):
                yield Text(node.lineno, value, "message")
    if comments:
        lines = iter(source.splitlines(keepends=True))
        for token in tokenize.generate_tokens(lambda: next(lines, "")):
            if token.type == tokenize.COMMENT:
                yield Text(token.start[0], token.string, "comment")


def _value(node: ast.expr) -> str:
    """Return a string's value, with {} for what an f-string fills in; empty for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_value(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def texts_of_document(source: str) -> Iterator[Text]:
    """Yield paragraphs of prose: no code blocks."""
    paragraph: list[str] = []
    is_code = False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        is_fence = line.lstrip().startswith("```")
        if is_fence or is_code or not line.strip():
            if paragraph:
                yield Text(number - len(paragraph), "\n".join(paragraph), "document")
                paragraph = []
            is_code ^= is_fence
        else:
            paragraph.append(line)


def texts_of(path: Path, *, comments: bool = False) -> Iterator[Text]:
    """Yield the texts of a Python file or a document."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from texts_of_python(source, comments=comments)
    else:
        yield from texts_of_document(source)


def findings_of(text: Text) -> Iterator[Finding]:
    """Yield what a text says that the style words differently; not what stands in backticks."""
    value = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: re.sub(r"\S", " ", m.group()), text.value)
    rules = [(rule, rule.pattern.finditer(value)) for rule in WORDS]
    first = {"docstring": OPENINGS, "message": STARTS}.get(text.kind, ())
    indent = len(value) - len(value.lstrip())
    rules += [(rule, iter(filter(None, [rule.pattern.match(value, indent)]))) for rule in first]
    for rule, matches in rules:
        for match in matches:
            line = text.line + value.count("\n", 0, match.start())
            yield Finding(line, " ".join(match.group().split()), rule.instead)


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the source files and documents below paths, none of them tests."""
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for each in found:
            inner = each.relative_to(path).parts if path.is_dir() else ()
            hidden = any(part in SKIPPED or part.startswith(".") for part in inner)
            if each.suffix in (".py", ".md") and each.is_file() and not hidden and each != THIS:
                yield each


def check(paths: Iterable[Path], *, comments: bool) -> int:
    """Print all findings in files; return how many there are."""
    count = 0
    for path in files_of(paths):
        found = {f for text in texts_of(path, comments=comments) for f in findings_of(text)}
        for each in sorted(found, key=lambda f: (f.line, f.words)):
            print(f"{_relative(path)}:{each.line}: '{each.words}' -> {each.instead}")
        count += len(found)
    print(f"wording: {count} to reword", file=sys.stderr)
    return count


def sample(paths: Iterable[Path], count: int, seed: int) -> None:
    """Print texts drawn by chance, as many of each kind: docstrings, messages, paragraphs."""
    kinds: dict[str, list[tuple[Path, Text]]] = {}
    for path in files_of(paths):
        for text in texts_of(path):
            kinds.setdefault(text.kind, []).append((path, text))
    draw = random.Random(seed)
    for kind, texts in sorted(kinds.items()):
        chosen = draw.sample(texts, min(len(texts), -(-count // len(kinds))))
        for path, text in chosen:
            print(f"--- {kind} {_relative(path)}:{text.line}\n{text.value.strip()}")


def _relative(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main() -> int:
    parser = argparse.ArgumentParser(description="Find wording that the house style replaces.")
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--comments", action="store_true", help="read comments too")
    parser.add_argument("--sample", type=int, metavar="N", help="print N texts and check nothing")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    folders = [dist.folder for dist in find_dists(ROOT)] + list(OTHERS)
    everything = [ROOT / folder for folder in folders] + sorted(ROOT.glob("*.md"))
    paths = [path.resolve() for path in args.paths] or everything
    if args.sample:
        sample(paths, args.sample, args.seed)
        return 0
    return 1 if check(paths, comments=args.comments) else 0


if __name__ == "__main__":
    sys.exit(main())
