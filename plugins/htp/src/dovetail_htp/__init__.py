"""The HTP emulator and its siblings: backends that compute on integers by a written definition.

An op package provides kernels for them through the entry point `htp:PACKAGE` of the group
`dovetail.kernels`.
"""

from dovetail_htp._backend import DspBackend, HtaBackend, HtpBackend, LpaiBackend
from dovetail_htp.configs import HtpDevice, HtpOptions

__all__ = ["DspBackend", "HtaBackend", "HtpBackend", "HtpDevice", "HtpOptions", "LpaiBackend"]
