"""What ONNX operators compute, written with PyTorch: a function for each, in one table."""
