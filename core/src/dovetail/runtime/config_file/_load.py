"""Reading a config file, whatever its form."""

from __future__ import annotations

from pathlib import Path

from dovetail.runtime.config_file._own_form import config_from
from dovetail.runtime.config_file._run_config import RunConfig


def load_config(path: str | Path, backend: str) -> RunConfig:
    """Read a config file.

    Args:
        path: A `.toml` file, or a `.json` file in the SDK's outer form.
        backend: Name of the backend that runs; an SDK file's inner config is for it, or for the
            first member of `hetero:a,b`.

    Raises:
        ConfigError: The file cannot be read, or has faults (see `config_from`).
    """
    # imported here: most sessions have no config file
    from dovetail.files.config_text import read_json, read_toml
    from dovetail.runtime.config_file._sdk_form import config_from_sdk

    path = Path(path)
    if path.suffix.lower() == ".toml":
        return config_from(read_toml(path), backend, str(path))
    return config_from_sdk(read_json(path), path, backend)
