"""Single operators by RunOperatorOnce: each time another type or rank, and the same ones again."""

import numpy as np
from caffe2.python import core, workspace
from measure import fewer, once, repeated

TYPES = ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Sqr", "Negative", "Softsign")


def elementwise():
    """Types and ranks, each pair once."""
    for rank in (1, 2, 3, 4):
        workspace.FeedBlob(f"x{rank}", np.ones((2,) * rank, np.float32))
    return [core.CreateOperator(type_, [f"x{rank}"], ["y"]) for type_ in TYPES for rank in (1, 2, 3, 4)]


def fill_fc():
    for name, shape in (("x", (8, 16)), ("w", (4, 16)), ("b", (4,))):
        workspace.FeedBlob(name, np.ones(shape, np.float32))
    return core.CreateOperator("FC", ["x", "w", "b"], ["y"])


def doubled(inputs, outputs):
    """A function of a Python operator."""
    outputs[0].feed(inputs[0].data * 2)


def main():
    operators = elementwise()

    def run_all():
        for operator in operators:
            workspace.RunOperatorOnce(operator)

    once(f"RunOperatorOnce, {len(operators)} types and ranks, first time", run_all)
    repeated(f"RunOperatorOnce, {len(operators)} types and ranks, again", run_all, fewer(20))
    fc = fill_fc()
    once("RunOperatorOnce, FC, first time", lambda: workspace.RunOperatorOnce(fc))
    repeated("RunOperatorOnce, FC, again", lambda: workspace.RunOperatorOnce(fc), fewer(200))
    net = core.Net("python")
    net.Python(doubled)(["x"], ["z"])
    (python,) = net.Proto().op
    repeated("RunOperatorOnce, Python, again", lambda: workspace.RunOperatorOnce(python), fewer(200))
    repeated("CreateOperator, Relu", lambda: core.CreateOperator("Relu", ["x"], ["y"]), fewer(2000))


if __name__ == "__main__":
    main()
