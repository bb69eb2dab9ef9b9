"""Saver programs: `saver_output.c` with its `params.bin`, as traces and back.

A program is read as data, whatever it contains: nothing is compiled or run. See
docs/vendor_traces.md.
"""
