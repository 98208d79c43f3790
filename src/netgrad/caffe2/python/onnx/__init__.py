"""ONNX models in Caffe2's nets and back: what scripts know as ``caffe2.python.onnx``."""
