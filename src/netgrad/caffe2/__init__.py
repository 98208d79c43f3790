"""Caffe2's nets: their messages, and the gradient operators that Caffe2 writes for its operators."""
