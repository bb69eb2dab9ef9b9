"""Traces: records of all calls of the runtime API, on disk."""
