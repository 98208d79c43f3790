"""Running a net on ONNX Runtime, and measuring its derivatives there."""
