"""Settings of a replay from the options of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from dovetail.errors import ConfigError
from dovetail.plugins.verifiers import parse_verifiers
from dovetail.runtime.config_file import load_config
from dovetail.runtime.installed import backend_class
from dovetail.verification import ConfiguredVerifier
from dovetail_saver.replay.retargeting import Retarget

EXACT = "exact"


def verifiers_of(texts: Sequence[str]) -> tuple[ConfiguredVerifier, ...]:
    """Return the verifiers of `--compare`; none for `exact`.

    Raises:
        ConfigError: Unknown verifiers or parameters, or `exact` together with a verifier.
    """
    if EXACT not in texts:
        return parse_verifiers(texts, where="--compare")
    if len(set(texts)) > 1:
        raise ConfigError(
            "'exact' and verifiers are mutually exclusive", code="USAGE", where="--compare"
        )
    return ()


def retargeting(backend: str | None, config: Path | None) -> Callable[[], Retarget] | None:
    """Return what creates the rewriting of records for `--backend` and `--config`.

    Raises:
        ConfigError: The file cannot be read, has faults, or no backend is named for it.
        PluginError: The backend is not installed.
    """
    if backend is None:
        if config is None:
            return None
        raise ConfigError(
            "a config needs the name of the backend that it is for",
            code="USAGE",
            where="--config",
            hint="add --backend NAME",
        )
    backend_class(backend)  # an unknown name is no difference from the recording
    settings = None if config is None else load_config(config, backend)
    return lambda: Retarget(backend, settings)


def single_verifier(text: str) -> ConfiguredVerifier:
    """Return the verifier of a `--compare` that takes one; `exact` is one without tolerance.

    Raises:
        ConfigError: Unknown verifier or parameters.
    """
    exact = "RtolAtol,rtolmargin=0,atolmargin=0"
    return parse_verifiers([exact if text == EXACT else text], where="--compare")[0]
