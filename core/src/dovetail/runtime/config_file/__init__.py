"""Config files of runs: our TOML, or the SDK's outer JSON.

TOML: `[backend.NAME]`, `[device]`, `[context]`, `[[graph]]`, `[profile]`,
`[async_graph_execution]`, with the keys that the JSON has under `context_configs`, `graph_configs`,
`profile_configs` and `async_graph_execution_config`, and those of the backend.
`[placement]` has the options of the backend `hetero`, `[auto]` those of `auto`; those of their
members are in `[backend.NAME]`.
Source: spec/configs.md, section 1.
"""

from dovetail.runtime.config_file._load import load_config
from dovetail.runtime.config_file._own_form import config_from
from dovetail.runtime.config_file._run_config import (
    GraphSettings,
    OverlapConfig,
    ProfileConfig,
    RunConfig,
)

__all__ = [
    "GraphSettings",
    "OverlapConfig",
    "ProfileConfig",
    "RunConfig",
    "config_from",
    "load_config",
]
