"""Adapters (LoRA): other weights and encodings for the updateable tensors of a graph."""

from dovetail.adapters.adapter import Adapter, read_adapter
from dovetail.adapters.config import AdapterConfig, AdapterUse, read_adapter_config
from dovetail.adapters.safetensors import SafeTensors, read_safetensors, write_safetensors
from dovetail.adapters.updates import TensorUpdate, Updates, updates_of

__all__ = [
    "Adapter",
    "AdapterConfig",
    "AdapterUse",
    "SafeTensors",
    "TensorUpdate",
    "Updates",
    "read_adapter",
    "read_adapter_config",
    "read_safetensors",
    "updates_of",
    "write_safetensors",
]
