"""The Python interface of Caffe2 that scripts were written for, with its own names and habits.

`netgrad.caffe2.install` makes it importable as ``caffe2.python``.
"""
