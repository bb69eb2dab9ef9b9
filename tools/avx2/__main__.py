"""Run a Python module as on a processor with AVX2 only, at full speed.

Usage: python tools/avx2 MODULE [ARGUMENT ...], in an environment with the workspace (Linux, x86-64;
gcc and objdump). The first call copies the environment to `avx2` inside it: links, except scripts,
which get the copy's interpreter, and the libraries that execute CPUID, where UD2 replaces that
instruction. `masked_cpuid.c` handles it, so that NumPy, oneDNN, ONNX Runtime and OpenVINO choose
their kernels for AVX2. An instruction of AVX-512 that is executed all the same does not fail: for
this, run on a real processor.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CPUID, UD2 = b"\x0f\xa2", b"\x0f\x0b"
PRELOADED = "masked_cpuid.so"
# Index, name, size, address, ..., offset in the file: a line of `objdump --section-headers`
SECTION = re.compile(r"\s*\d+ \S+\s+([0-9a-f]+)\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)")
INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\tcpuid")


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python tools/avx2 MODULE [ARGUMENT ...]", file=sys.stderr)
        return 2
    source = Path(sys.prefix)
    copy = source / "avx2"
    if not is_current(copy, source):
        create(copy, source)
    variables = os.environ | {"LD_PRELOAD": str(copy / PRELOADED), "VIRTUAL_ENV": str(copy)}
    python = copy / "bin" / "python"
    return subprocess.run([python, "-m", *arguments], env=variables, check=False).returncode


def is_current(copy: Path, source: Path) -> bool:
    """Return whether an environment was copied after the last installation in its source."""
    finished = copy / PRELOADED
    folders = (*source.glob("lib/python*/site-packages"), HERE / "masked_cpuid.c")
    return finished.exists() and all(f.stat().st_mtime < finished.stat().st_mtime for f in folders)


def create(copy: Path, source: Path) -> None:
    """Copy an environment and replace CPUID in its libraries; this takes a minute."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(
        source,
        copy,
        symlinks=True,
        copy_function=os.link,
        ignore=lambda folder, _: [copy.name] if Path(folder) == source else [],
    )
    for script in (copy / "bin").iterdir():
        text, start = script.read_bytes(), b"#!%s/" % os.fsencode(source)
        if text.startswith(start):
            rewrite(script, b"#!%s/" % os.fsencode(copy) + text.removeprefix(start))
    for library in sorted(copy.rglob("*.so*")):
        if not library.is_symlink() and (offsets := list(instructions(library))):
            rewrite(library, masked(library.read_bytes(), offsets))
            print(f"{library.relative_to(copy)}: {len(offsets)} CPUID", file=sys.stderr)
    code = HERE / "masked_cpuid.c"
    target = copy / PRELOADED
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", target, code, "-ldl"], check=True)


def instructions(library: Path) -> Iterator[int]:
    """Yield the offset of each CPUID in a library's file."""
    headers = subprocess.run(
        ["objdump", "--section-headers", library], capture_output=True, text=True, check=True
    )
    sections = [tuple(int(n, 16) for n in found) for found in SECTION.findall(headers.stdout)]
    with subprocess.Popen(
        ["objdump", "--disassemble", "--no-show-raw-insn", library],
        stdout=subprocess.PIPE,
        text=True,
    ) as lines:
        for line in lines.stdout or ():
            if found := INSTRUCTION.match(line):
                address = int(found[1], 16)
                yield next(address - a + at for n, a, at in sections if a <= address < a + n)


def masked(library: bytes, offsets: list[int]) -> bytes:
    """Return a library's code with UD2 in place of each CPUID."""
    code = bytearray(library)
    for at in offsets:
        if code[at : at + 2] != CPUID:
            raise ValueError(f"no CPUID at {at:#x}")
        code[at : at + 2] = UD2
    return bytes(code)


def rewrite(file: Path, content: bytes) -> None:
    """Write a new file in place of a link to the source's."""
    mode = file.stat().st_mode
    file.unlink()
    file.write_bytes(content)
    file.chmod(mode)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
