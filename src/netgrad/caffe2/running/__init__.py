"""Running nets, operators and plans in workspaces: by ONNX Runtime, and in Python where it has to be."""

from netgrad.caffe2.running import operators  # noqa: F401  what runs in Python is registered
