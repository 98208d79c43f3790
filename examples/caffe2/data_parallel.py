"""A small residual net on handwritten digits, trained on several devices: each gets a part of every batch.

python -m netgrad.caffe2 examples/caffe2/data_parallel.py [epochs] [devices]
"""

import sys

import numpy as np
from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace
from sklearn.datasets import load_digits

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
DEVICES = list(range(int(sys.argv[2]) if len(sys.argv) > 2 else 2))
BATCH = 64


def add_input(model):
    """Nothing: the parts of the batch are fed to the devices' blobs."""


def convolution(model, blob, name, channels, is_test):
    """A convolution and its batch normalization."""
    conv = brew.conv(model, blob, f"{name}_conv", channels, channels, kernel=3, pad=1)
    return brew.spatial_bn(model, conv, f"{name}_bn", channels, epsilon=1e-3, is_test=is_test)


def residual(model, blob, name, channels, is_test):
    """Two convolutions, added to what they get."""
    inner = convolution(model, blob, f"{name}_1", channels, is_test)
    inner = convolution(model, brew.relu(model, inner, inner), f"{name}_2", channels, is_test)
    total = brew.sum(model, [blob, inner], f"{name}_sum")
    return brew.relu(model, total, total)


def add_net(model, is_test):
    """8 x 8 pixels become 10 numbers."""
    conv = brew.conv(model, "data", "conv1", 1, 16, kernel=3, pad=1)
    blob = brew.relu(model, conv, conv)
    blob = residual(model, blob, "block1", 16, is_test)
    blob = brew.max_pool(model, blob, "pool1", kernel=2, stride=2)
    blob = residual(model, blob, "block2", 16, is_test)
    blob = brew.average_pool(model, blob, "average", kernel=4, stride=1)
    return brew.fc(model, blob, "pred", 16, 10)


def add_training(model, loss_scale):
    """The losses of one device, scaled so that those of all add up to that of the whole batch."""
    softmax, loss = model.net.SoftmaxWithLoss([add_net(model, is_test=False), "label"], ["softmax", "loss"])
    brew.accuracy(model, [softmax, "label"], "accuracy")
    return [model.net.Scale(loss, "scaled_loss", scale=loss_scale)]


def add_testing(model, loss_scale):
    """The accuracy of one device's part."""
    softmax = brew.softmax(model, add_net(model, is_test=True), "softmax")
    brew.accuracy(model, [softmax, "label"], "accuracy")
    return []


def add_optimizer(model):
    """One optimizer for all devices."""
    optimizer.add_weight_decay(model, 1e-4)
    return optimizer.build_sgd(model, 0.05, policy="step", stepsize=40, gamma=0.8, momentum=0.9)


def feed(model, images, labels):
    """Each device gets its part."""
    for name, array in (("data", images), ("label", labels)):
        for device, part in zip(DEVICES, np.array_split(array, len(DEVICES)), strict=True):
            option = core.DeviceOption(model._device_type, device)
            workspace.FeedBlob(f"{model._device_prefix}_{device}/{name}", part, device_option=option)


def mean(name):
    """The mean of a blob over the devices."""
    return np.mean([workspace.FetchBlob(f"cpu_{device}/{name}") for device in DEVICES])


digits = load_digits()
images = (digits.images[:, None] / 16).astype(np.float32)
labels = digits.target.astype(np.int32)
generator = np.random.default_rng(0)
shuffled = generator.permutation(len(images))
held_out, rest = shuffled[:360], shuffled[360:]

train_model = model_helper.ModelHelper(name="train", arg_scope={"order": "NCHW"})
data_parallel_model.Parallelize_CPU(
    train_model,
    input_builder_fun=add_input,
    forward_pass_builder_fun=add_training,
    optimizer_builder_fun=add_optimizer,
    devices=DEVICES,
    combine_spatial_bn=True,
)
train_model.param_init_net.set_rand_seed(seed=1)
test_model = model_helper.ModelHelper(name="test", arg_scope={"order": "NCHW"}, init_params=False)
data_parallel_model.Parallelize_CPU(
    test_model,
    input_builder_fun=add_input,
    forward_pass_builder_fun=add_testing,
    devices=DEVICES,
)

feed(train_model, images[rest[:BATCH]], labels[rest[:BATCH]])
workspace.RunNetOnce(train_model.param_init_net)
workspace.CreateNet(train_model.net)
workspace.CreateNet(test_model.net)

for epoch in range(EPOCHS):
    order = generator.permutation(rest)
    losses = []
    for start in range(0, len(order) - BATCH + 1, BATCH):
        rows = order[start : start + BATCH]
        feed(train_model, images[rows], labels[rows])
        workspace.RunNet(train_model.net)
        losses.append(mean("loss"))
    feed(test_model, images[held_out], labels[held_out])
    workspace.RunNet(test_model.net)
    print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}, held out {mean('accuracy'):.4f}")

difference = max(
    np.abs(workspace.FetchBlob(f"cpu_0/{name}") - workspace.FetchBlob(f"cpu_{device}/{name}")).max()
    for name in train_model._param_names
    for device in DEVICES
)
print(f"largest difference between devices: {difference}")
checkpoint = sorted(str(blob) for blob in data_parallel_model.GetCheckpointParams(train_model))
print(f"a checkpoint has {len(checkpoint)} blobs, of {checkpoint[0].split('/')[0]} and the counter")
