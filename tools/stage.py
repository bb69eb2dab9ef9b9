"""Run one command as a named stage: print its name first, then its outcome and duration.

Usage: python tools/stage.py NAME COMMAND [ARGUMENT ...]. Exits with the command's own status.
It is run by the bare interpreter too, before anything is installed: standard library only.
"""

import subprocess
import sys
import time


def main(arguments: list[str]) -> int:
    if len(arguments) < 2:
        print("usage: stage.py NAME COMMAND [ARGUMENT ...]", file=sys.stderr)
        return 2
    name, *command = arguments
    # Flushed, so that the line precedes the command's own output if both go to one file.
    print(f"==> {name}", flush=True)
    start = time.perf_counter()
    status = subprocess.run(command, check=False).returncode
    seconds = time.perf_counter() - start
    outcome = "ok" if status == 0 else f"FAILED (exit status {status})"
    print(f"<== {name}: {outcome}, {seconds:.1f} s", flush=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
