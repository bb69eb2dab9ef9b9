"""Judgement of quantization algorithms by the error of the model's outputs."""
