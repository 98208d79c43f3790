"""Operators of ``ai.onnx.ml`` and ``ai.onnx.preview.training`` in terms of standard operators."""
