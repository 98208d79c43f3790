"""Operators of ``ai.onnx.ml`` in terms of standard operators, their parameters as tensors."""
