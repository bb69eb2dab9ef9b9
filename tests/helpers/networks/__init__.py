"""Networks for the tests that cross dists, and for the benchmarks; all weights are drawn."""

from networks.encoder import encoder
from networks.gated import gated
from networks.light import light
from networks.lstm import lstm
from networks.mobilenet import mobilenet_v2, mobilenet_v3
from networks.unet import unet

__all__ = ["encoder", "gated", "light", "lstm", "mobilenet_v2", "mobilenet_v3", "unet"]
