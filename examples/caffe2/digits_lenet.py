"""LeNet on handwritten digits, as Caffe2's tutorial on MNIST built it: model helper, brew, and an optimizer.

python -m netgrad.caffe2 examples/caffe2/digits_lenet.py [epochs]
"""

import sys

import numpy as np
from caffe2.python import brew, core, model_helper, optimizer, workspace
from sklearn.datasets import load_digits

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
BATCH = 64


def add_lenet(model, data):
    """Two convolutions with pools, and two layers; 8 x 8 pixels become 10 probabilities."""
    conv1 = brew.conv(model, data, "conv1", dim_in=1, dim_out=16, kernel=3, pad=1)
    pool1 = brew.max_pool(model, conv1, "pool1", kernel=2, stride=2)
    conv2 = brew.conv(model, pool1, "conv2", dim_in=16, dim_out=32, kernel=3, pad=1)
    pool2 = brew.max_pool(model, conv2, "pool2", kernel=2, stride=2)
    fc3 = brew.fc(model, pool2, "fc3", dim_in=32 * 2 * 2, dim_out=64)
    relu = brew.relu(model, fc3, fc3)
    pred = brew.fc(model, relu, "pred", 64, 10)
    return brew.softmax(model, pred, "softmax")


def batches(images, labels, generator):
    """All rows once, in random order."""
    order = generator.permutation(len(images))
    for start in range(0, len(order) - BATCH + 1, BATCH):
        rows = order[start : start + BATCH]
        yield images[rows], labels[rows]


digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)
labels = digits.target.astype(np.int32)
generator = np.random.default_rng(0)
shuffled = generator.permutation(len(images))
held_out, rest = shuffled[:360], shuffled[360:]

train_model = model_helper.ModelHelper(name="digits_train")
softmax = add_lenet(train_model, "data")
xent = train_model.net.LabelCrossEntropy([softmax, "label"], "xent")
loss = train_model.net.AveragedLoss(xent, "loss")
train_model.AddGradientOperators([loss])
optimizer.build_adam(train_model, base_learning_rate=0.003)

test_model = model_helper.ModelHelper(name="digits_test", init_params=False)
softmax = add_lenet(test_model, "data")
brew.accuracy(test_model, [softmax, "label"], "accuracy")

core.GlobalInit(["caffe2", "--caffe2_log_level=0"])
workspace.RunNetOnce(train_model.param_init_net)
workspace.FeedBlob("data", images[:BATCH])
workspace.FeedBlob("label", labels[:BATCH])
workspace.CreateNet(train_model.net)
workspace.CreateNet(test_model.net)

for epoch in range(EPOCHS):
    losses = []
    for data, label in batches(images[rest], labels[rest], generator):
        workspace.FeedBlob("data", data)
        workspace.FeedBlob("label", label)
        workspace.RunNet(train_model.net.Proto().name)
        losses.append(float(workspace.FetchBlob("loss")))
    workspace.FeedBlob("data", images[held_out])
    workspace.FeedBlob("label", labels[held_out])
    workspace.RunNet(test_model.net.Proto().name)
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, held out {workspace.FetchBlob('accuracy'):.4f}")
