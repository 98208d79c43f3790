"""The layers of `netgrad.caffe2.python.brew`, by family."""
