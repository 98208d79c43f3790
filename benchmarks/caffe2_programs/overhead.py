"""What one run of a tiny net costs, with a blob fed before and one fetched after it."""

import numpy as np
from caffe2.python import core, workspace
from measure import fewer, repeated


def tiny(operators):
    """A net of small operators in a row."""
    net = core.Net(f"tiny{operators}")
    blob = net.AddExternalInput("x")
    for at in range(operators):
        blob = net.Add([blob, blob]) if at % 2 else net.Relu(blob)
    return net, blob


def main():
    small = np.ones((4, 8), np.float32)
    workspace.FeedBlob("x", small)
    for operators in (3, 30):
        net, last = tiny(operators)
        workspace.CreateNet(net)
        workspace.RunNet(net)

        def run(net=net, last=last):
            workspace.FeedBlob("x", small)
            workspace.RunNet(net)
            workspace.FetchBlob(last)

        repeated(f"tiny net of {operators} operators: FeedBlob, RunNet, FetchBlob", run, fewer(400))
        repeated(f"tiny net of {operators} operators: RunNet", lambda: workspace.RunNet(net), fewer(400))  # noqa: B023
    repeated("FeedBlob, small", lambda: workspace.FeedBlob("x", small), fewer(2000))
    repeated("FetchBlob, small", lambda: workspace.FetchBlob("x"), fewer(2000))


if __name__ == "__main__":
    main()
