"""The original's own test files, run against `netgrad.caffe2` in the original's place: `make original`.

The files are not ours and not here: they are fetched out of the last package of PyTorch that had Caffe2
inside. `passing.json` holds which of their tests pass with the original itself on a CPU.
"""
