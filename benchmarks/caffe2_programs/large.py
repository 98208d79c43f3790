"""FeedBlob and FetchBlob of arrays of 100 MB: time, and how much memory they take beyond the array."""

import numpy as np
from caffe2.python import core, workspace
from measure import fewer, peak_memory, repeated, report

ROWS = fewer(100_000)


def main():
    array = np.ones((ROWS, 250), np.float32)
    size = array.nbytes / 1e6
    title = f"{int(size)} MB"
    before = peak_memory()
    workspace.FeedBlob("large", array)
    report(f"FeedBlob, {title}: memory taken, in arrays", "", (peak_memory() - before) / size)
    before = peak_memory()
    found = workspace.FetchBlob("large")
    report(f"FetchBlob, {title}: memory taken, in arrays", "", (peak_memory() - before) / size)
    del found
    repeated(f"FeedBlob, {title}", lambda: workspace.FeedBlob("large", array), 3)
    repeated(f"FetchBlob, {title}", lambda: workspace.FetchBlob("large"), 3)
    net = core.Net("large")
    net.Relu("large", "result")
    workspace.CreateNet(net)
    workspace.RunNet(net)
    repeated(f"Relu, {title}: RunNet", lambda: workspace.RunNet(net), 3)
    repeated(f"Relu, {title}: FetchBlob of the result", lambda: workspace.FetchBlob("result"), 3)
    report(f"Relu, {title}: peak memory, in arrays", "", (peak_memory() - before) / size)


if __name__ == "__main__":
    main()
