"""Training steps: the first one, with all that is made for it, and those that follow."""

import sys

import numpy as np
from caffe2.python import brew, model_helper, optimizer, workspace
from caffe2.python.rnn_cell import LSTM
from measure import fewer, once, repeated

GENERATOR = np.random.RandomState(0)


def uniform(*shape):
    return GENERATOR.rand(*shape).astype(np.float32)


def labels(count, classes):
    return GENERATOR.randint(0, classes, count).astype(np.int32)


def classified(model, score, label="label"):
    softmax = brew.softmax(model, score, "softmax")
    return model.net.AveragedLoss(model.net.LabelCrossEntropy([softmax, label], "xent"), "loss")


def mlp():
    """Two hidden layers; batches of 32."""
    model = model_helper.ModelHelper(name="mlp")
    blob = "data"
    for at, (dim_in, dim_out) in enumerate(((64, 128), (128, 128))):
        blob = brew.fc(model, blob, f"fc{at}", dim_in, dim_out)
        blob = brew.relu(model, blob, blob)
    loss = classified(model, brew.fc(model, blob, "score", 128, 10))
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.01, policy="fixed", momentum=0.9)
    return model, {"data": uniform(32, 64), "label": labels(32, 10)}


def lenet():
    """LeNet on images of 28 x 28; batches of 64."""
    model = model_helper.ModelHelper(name="lenet")
    blob = brew.conv(model, "data", "conv1", 1, 20, kernel=5)
    blob = brew.max_pool(model, blob, "pool1", kernel=2, stride=2)
    blob = brew.conv(model, blob, "conv2", 20, 50, kernel=5)
    blob = brew.max_pool(model, blob, "pool2", kernel=2, stride=2)
    blob = brew.fc(model, blob, "fc3", 50 * 4 * 4, 500)
    blob = brew.relu(model, blob, blob)
    loss = classified(model, brew.fc(model, blob, "score", 500, 10))
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.01, policy="fixed", momentum=0.9)
    return model, {"data": uniform(64, 1, 28, 28), "label": labels(64, 10)}


def sparse():
    """Bags of ten ids from a table of 100,000 x 32, summed; Adagrad on the rows that were looked up."""
    model = model_helper.ModelHelper(name="sparse")
    table = model.param_init_net.UniformFill([], "table", shape=[100_000, 32], min=-0.1, max=0.1)
    model.AddParameter(table)
    bags = model.net.SparseLengthsSum([table, "ids", "lengths"], "bags")
    score = brew.fc(model, bags, "score", 32, 1)
    loss = model.net.AveragedLoss(model.net.SigmoidCrossEntropyWithLogits([score, "label"], "xent"), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_adagrad(model, base_learning_rate=0.1)
    return model, {
        "ids": GENERATOR.randint(0, 100_000, 1280).astype(np.int64),
        "lengths": np.full(128, 10, np.int32),
        "label": uniform(128, 1).round(),
    }


def lstm():
    """Letters of 25 steps, batches of 16, hidden states of 100."""
    steps, batch, letters, hidden = 25, 16, 50, 100
    model = model_helper.ModelHelper(name="lstm")
    inputs = model.net.AddExternalInputs("letter", "lengths", "hidden", "cell", "target")
    letter, lengths, first_hidden, first_cell, target = inputs
    states, _, _, _ = LSTM(
        model, letter, lengths, (first_hidden, first_cell), letters, hidden, scope="lstm", forget_bias=1.0
    )
    score = brew.fc(model, states, "score", dim_in=hidden, dim_out=letters, axis=2)
    rows, _ = model.net.Reshape(score, ["rows", "rows_shape"], shape=[-1, letters])
    loss = classified(model, rows, target)
    model.AddGradientOperators([loss])
    optimizer.build_adagrad(model, base_learning_rate=0.1)
    return model, {
        "letter": np.eye(letters, dtype=np.float32)[GENERATOR.randint(0, letters, (steps, batch))],
        "lengths": np.full(batch, steps, np.int32),
        "hidden": np.zeros((1, batch, hidden), np.float32),
        "cell": np.zeros((1, batch, hidden), np.float32),
        "target": labels(steps * batch, letters),
    }


def resnet():
    """Three blocks of two convolutions, with batch normalization and a sum; batches of 16 of 16 x 16."""
    model = model_helper.ModelHelper(name="resnet")

    def normalized(blob, name, dim_in, dim_out):
        blob = brew.conv(model, blob, name, dim_in, dim_out, kernel=3, pad=1, no_bias=True)
        return brew.spatial_bn(model, blob, name + "_bn", dim_out, is_test=False)

    blob = normalized("data", "stem", 3, 16)
    blob = brew.relu(model, blob, blob)
    for at in range(3):
        inner = normalized(blob, f"block{at}_a", 16, 16)
        inner = normalized(brew.relu(model, inner, inner), f"block{at}_b", 16, 16)
        blob = brew.sum(model, [inner, blob], f"block{at}_sum")
        blob = brew.relu(model, blob, f"block{at}")
    blob = brew.average_pool(model, blob, "pooled", kernel=16)
    loss = classified(model, brew.fc(model, blob, "score", 16, 10))
    model.AddGradientOperators([loss])
    optimizer.build_sgd(model, base_learning_rate=0.01, policy="fixed", momentum=0.9)
    return model, {"data": uniform(16, 3, 16, 16), "label": labels(16, 10)}


MODELS = {
    "MLP, batch 32": (mlp, 200),
    "LeNet, batch 64": (lenet, 10),
    "sparse, table of 100,000 x 32": (sparse, 50),
    "LSTM, 25 steps of 16 x 100": (lstm, 20),
    "ResNet-like, 7 convolutions": (resnet, 10),
}


def main():
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    for title, (build, calls) in MODELS.items():
        if wanted and build.__name__ not in wanted:
            continue
        workspace.ResetWorkspace()
        model, batch = build()
        workspace.RunNetOnce(model.param_init_net)

        def step(model=model, batch=batch):
            for name, array in batch.items():
                workspace.FeedBlob(name, array)
            workspace.RunNet(model.net)
            return float(workspace.FetchBlob("loss"))

        for name, array in batch.items():
            workspace.FeedBlob(name, array)

        def first(model=model, step=step):
            workspace.CreateNet(model.net)
            return step()

        once(f"{title}: CreateNet and first step", first)
        repeated(f"{title}: step", step, fewer(calls))


if __name__ == "__main__":
    main()
