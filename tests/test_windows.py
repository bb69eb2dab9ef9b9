"""What can be tested of Windows elsewhere: nothing needs a POSIX-only module at import."""

from __future__ import annotations

from pathlib import Path

import forked
from workspace import find_dists

# Modules that Windows lacks, and attributes of modules that it has.
MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
ATTRIBUTES = {
    "mmap": "ACCESS_NONE MADV_WILLNEED MAP_ANONYMOUS MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE",
    "os": "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG fchmod fchown fork forkpty geteuid "
    "getgid getloadavg getpgid getuid killpg mkfifo nice pread pwrite register_at_fork "
    "sched_getaffinity sched_setaffinity setsid statvfs sysconf uname wait wait4",
    "signal": "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm pause "
    "pthread_kill pthread_sigmask setitimer sigwait",
    "socket": "AF_UNIX",
    "time": "clock_gettime tzset",
}
# The first round loads what ours import; in the second one only ours are imported again, without
# POSIX. An attribute that is missing here, too, does not matter.
PROGRAM = """
import importlib, pkgutil, sys, warnings
packages, modules, attributes = {packages!r}, {modules!r}, {attributes!r}

def import_all():
    names = []
    for package in map(importlib.import_module, packages):
        names.append(package.__name__)
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(found.name)
            names.append(found.name)
    return names

first = import_all()
for name in first:
    del sys.modules[name]
for module in modules:
    sys.modules[module] = None
for module, names in attributes.items():
    for name in names.split():
        vars(importlib.import_module(module)).pop(name, None)
assert import_all() == first
print(len(first))
"""


def test_every_module_can_be_imported_without_posix(tmp_path: Path) -> None:
    packages = [package for dist in find_dists() for package in dist.packages]
    program = PROGRAM.format(packages=packages, modules=MODULES, attributes=ATTRIBUTES)
    done = forked.run(["python", "-c", program], tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 400
