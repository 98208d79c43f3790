"""A pre-trained model: the pair of nets is loaded, and predicts.

    python -m netgrad.caffe2 examples/caffe2/pretrained.py [init_net.pb predict_net.pb]

Without files a small net of squeezed and expanded convolutions is written first, with random parameters.
"""

import sys

import numpy as np
from caffe2.python import brew, model_helper, workspace


def fire(model, blob, name, inner, squeezed, expanded):
    """A squeezing convolution, and two that expand its channels side by side."""
    small = brew.conv(model, blob, name + "_squeeze", inner, squeezed, 1)
    small = brew.relu(model, small, small)
    parts = []
    for kernel in (1, 3):
        part = brew.conv(model, small, f"{name}_expand{kernel}", squeezed, expanded, kernel, pad=kernel // 2)
        parts.append(brew.relu(model, part, part))
    return brew.concat(model, parts, name + "_out")


def write(init_path, predict_path):
    """Build the net, draw its parameters, and save both nets."""
    model = model_helper.ModelHelper(name="tiny_squeezenet")
    conv = brew.conv(model, "data", "conv1", 3, 16, 3, stride=2)
    pool = brew.max_pool(model, brew.relu(model, conv, conv), "pool1", kernel=3, stride=2)
    out = fire(model, fire(model, pool, "fire2", 16, 4, 8), "fire3", 16, 4, 8)
    scores = brew.conv(model, out, "conv4", 16, 10, 1)
    brew.softmax(model, brew.average_pool(model, scores, "pooled", global_pooling=1), "softmax")
    model.net.AddExternalOutput(model.net.GetBlobRef("softmax"))
    for path, net in ((init_path, model.param_init_net), (predict_path, model.net)):
        with open(path, "wb") as file:
            file.write(net.Proto().SerializeToString())


if len(sys.argv) < 3:
    sys.argv[1:] = ["tiny_init_net.pb", "tiny_predict_net.pb"]
    write(*sys.argv[1:])
with open(sys.argv[1], "rb") as file:
    init_net = file.read()
with open(sys.argv[2], "rb") as file:
    predict_net = file.read()

predictor = workspace.Predictor(init_net, predict_net)
image = np.random.default_rng(0).uniform(size=(1, 3, 64, 64)).astype(np.float32)
(probabilities,) = predictor.run([image])
print("probabilities:", np.round(probabilities.ravel(), 3))
print("sum:", float(probabilities.sum()))
