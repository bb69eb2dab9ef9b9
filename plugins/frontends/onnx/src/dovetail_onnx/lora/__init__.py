"""LoRA: side branches in ONNX models, and weights of adapters for converted models."""
