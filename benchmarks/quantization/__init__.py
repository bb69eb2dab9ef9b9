"""Our quantizer and ONNX Runtime's; `python -m benchmarks.quantization` measures both."""
