"""Reading, preparing and writing ONNX models; their nodes as operators; the node builder."""
