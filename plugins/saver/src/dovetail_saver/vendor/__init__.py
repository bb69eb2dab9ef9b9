"""Saver programs: `saver_output.c` with its `params.bin`, as traces and back.

A program is read as data, whatever it contains: nothing is compiled or run. See
docs/vendor_traces.md.
"""

from dovetail_saver.vendor.importer import DEFAULT_BACKEND, import_program
from dovetail_saver.vendor.summary import Summary

__all__ = ["DEFAULT_BACKEND", "Summary", "import_program"]
