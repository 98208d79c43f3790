"""Building nets: operators, their gradients, copies, messages, and creating them in a workspace."""

from caffe2.python import brew, core, model_helper, workspace
from measure import fewer, once

SIZE = fewer(10_000)
LAYERS = fewer(50)


def chain():
    """Every operator reads what the one before wrote."""
    net = core.Net("chain")
    blob = net.AddExternalInput("x")
    for _ in range(SIZE // 2):
        blob = net.Add([net.Relu(blob), blob])
    return net, blob


def fan_out():
    """One blob with many readers, which one operator sums."""
    net = core.Net("fan_out")
    blob = net.AddExternalInput("x")
    return net, net.Sum([net.Relu(blob) for _ in range(SIZE - 1)])


def convolutions():
    """A model of convolutions, each with bias and ReLU."""
    model = model_helper.ModelHelper(name="convolutions")
    blob = "data"
    for layer in range(LAYERS):
        blob = brew.conv(model, blob, f"conv{layer}", 3 if layer == 0 else 8, 8, kernel=3, pad=1)
        blob = brew.relu(model, blob, blob)
    model.net.AveragedLoss(blob, "loss")
    return model


def main():
    for build in (chain, fan_out):
        title = f"{build.__name__.replace('_', '-')} of {SIZE} operators"
        net, last = once(f"{title}: build", build)
        once(f"{title}: AddGradientOperators", lambda: net.AddGradientOperators([last]))  # noqa: B023
        once(f"{title}: Clone", lambda: net.Clone("clone"))  # noqa: B023
        once(f"{title}: SerializeToString", lambda: net.Proto().SerializeToString())  # noqa: B023
    model = once(f"brew, {LAYERS} convolutions: build", convolutions)
    once(f"brew, {LAYERS} convolutions: AddGradientOperators", lambda: model.AddGradientOperators(["loss"]))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateBlob("data")
    once(f"brew, {LAYERS} convolutions: CreateNet", lambda: workspace.CreateNet(model.net))


if __name__ == "__main__":
    main()
