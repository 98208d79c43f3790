"""Random ONNX graphs of mixed operator families, and the judge of their gradients."""
