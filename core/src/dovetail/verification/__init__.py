"""Verification: comparison of tensors with expected ones, by verifiers that plugins provide.

`dovetail.plugins.verifiers` loads verifiers by name and reads their config files.
"""

from dovetail.verification.comparison import Comparison, VerificationError, Worst
from dovetail.verification.configured import ConfiguredVerifier, Verification, configure
from dovetail.verification.contract import Verifier, verifier_params, verifier_tensors
from dovetail.verification.text import parse_verifier

__all__ = [
    "Comparison",
    "ConfiguredVerifier",
    "Verification",
    "VerificationError",
    "Verifier",
    "Worst",
    "configure",
    "parse_verifier",
    "verifier_params",
    "verifier_tensors",
]
