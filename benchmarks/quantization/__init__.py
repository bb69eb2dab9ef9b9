"""Our quantizer beside ONNX Runtime's; `python -m benchmarks.quantization` measures both."""
