"""The backend `saver`: records calls without executing anything."""

from dovetail_saver.backend.backend import SaverBackend

__all__ = ["SaverBackend"]
