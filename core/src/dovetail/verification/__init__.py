"""Verification: comparison of tensors with expected ones, by verifiers that plugins provide.

`dovetail.plugins.verifiers` loads verifiers by name, `dovetail.plugins.verifier_config` reads their
config files.
"""

from dovetail.verification.comparison import Comparison, VerificationError, Worst
from dovetail.verification.configured import ConfiguredVerifier, Verification, configure
from dovetail.verification.contract import Verifier, verifier_params, verifier_tensors
from dovetail.verification.node_errors import (
    Cause,
    NodeErrors,
    NodeRunner,
    OutputErrors,
    RunPair,
    node_errors,
)
from dovetail.verification.text import parse_verifier

__all__ = [
    "Cause",
    "Comparison",
    "ConfiguredVerifier",
    "NodeErrors",
    "NodeRunner",
    "OutputErrors",
    "RunPair",
    "Verification",
    "VerificationError",
    "Verifier",
    "Worst",
    "configure",
    "node_errors",
    "parse_verifier",
    "verifier_params",
    "verifier_tensors",
]
