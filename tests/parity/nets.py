"""The same small networks twice: as ONNX models and as PyTorch modules with equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray
FLOAT = TensorProto.FLOAT


class Net:
    """Collects the nodes and weights of an ONNX model in float32."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.count = 0

    def weight(self, name: str, array: Any) -> str:
        self.weights[name] = np.asarray(array, np.float32)
        return name

    def ints(self, values: Sequence[int]) -> str:
        name = f"ints_{'_'.join(str(value) for value in values)}".replace("-", "m")
        self.weights[name] = np.asarray(values, np.int64)
        return name

    def op(self, op_type: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        self.count += 1
        name = output or f"{op_type.lower()}_{self.count}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], **attributes))
        return name

    def model(self, name: str, kind: int, shape: Sequence[int | str], classes: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "parity",
            [helper.make_tensor_value_info(name, kind, shape)],
            [helper.make_tensor_value_info("scores", FLOAT, ["N", classes])],
            [numpy_helper.from_array(array, weight) for weight, array in self.weights.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        return model


@dataclass(frozen=True)
class Pair:
    """A network in both forms.

    Attributes:
        model: The ONNX model, with one input and the output ``scores`` (N, classes).
        module: The PyTorch module.
        names: For each of the module's parameters and buffers that are compared the ONNX initializers that it
            consists of, along its first axis; None stands for a part without counterpart.
        input: Name of the model's input.
        batches: Input and labels for each step.
    """

    model: onnx.ModelProto
    module: Any
    names: dict[str, list[str | None]]
    input: str
    batches: list[tuple[Array, Array]]


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.detach().numpy())


def perceptron(steps: int) -> Pair:
    """Three layers with ReLU and tanh."""
    from torch import nn

    module = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 7))
    net = Net()
    names: dict[str, list[str | None]] = {}
    last = "x"
    for index, activation in ((0, "Relu"), (2, "Tanh"), (4, None)):
        for part in ("weight", "bias"):
            key = f"{index}.{part}"
            names[key] = [net.weight(key, _array(getattr(module[index], part)))]
        last = net.op(
            "Gemm",
            last,
            f"{index}.weight",
            f"{index}.bias",
            transB=1,
            output=None if activation else "scores",
        )
        last = net.op(activation, last) if activation else last
    r = np.random.default_rng(1)
    batches = [(r.normal(size=(16, 20)).astype(np.float32), r.integers(0, 7, 16)) for _ in range(steps)]
    return Pair(net.model("x", FLOAT, ["N", 20], 7), module, names, "x", batches)


def residual(steps: int) -> Pair:
    """A small residual network: convolutions, batch normalisation, two blocks, the second with stride 2."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.down = nn.Conv2d(inside, outside, 1, stride, bias=False) if stride > 1 else None

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return torch.relu(y + (x if self.down is None else self.down(x)))

    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    state = {key: _array(value) for key, value in module.state_dict().items()}
    net = Net()
    names: dict[str, list[str | None]] = {}

    def weight(key: str) -> str:
        names[key] = [net.weight(key, state[key])]
        return key

    def conv(x: str, prefix: str, stride: int, pad: int) -> str:
        return net.op("Conv", x, weight(f"{prefix}.weight"), strides=[stride] * 2, pads=[pad] * 4)

    def norm(x: str, prefix: str) -> str:
        parts = [weight(f"{prefix}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        # 0.9 in the standard's sense is 0.1 in PyTorch's
        return net.op("BatchNormalization", x, *parts, epsilon=1e-5, momentum=0.9)

    x = net.op("Relu", norm(conv("image", "0", 1, 1), "1"))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for prefix, stride in (("4", 1), ("5", 2)):
        y = net.op("Relu", norm(conv(x, f"{prefix}.conv1", stride, 1), f"{prefix}.bn1"))
        y = norm(conv(y, f"{prefix}.conv2", 1, 1), f"{prefix}.bn2")
        skip = x if stride == 1 else conv(x, f"{prefix}.down", stride, 0)
        x = net.op("Relu", net.op("Add", y, skip))
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    net.op("Gemm", x, weight("8.weight"), weight("8.bias"), transB=1, output="scores")
    r = np.random.default_rng(2)
    batches = [(r.normal(size=(8, 3, 12, 16)).astype(np.float32), r.integers(0, 5, 8)) for _ in range(steps)]
    return Pair(net.model("image", FLOAT, ["N", 3, 12, 16], 5), module, names, "image", batches)


def transformer(steps: int) -> Pair:
    """Embedding and positions, two post-norm encoder layers with GELU, mean over time, a linear head."""
    import torch
    from torch import nn

    width, heads, hidden, time, words, classes = 16, 4, 32, 10, 50, 6
    head = width // heads

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.position = nn.Parameter(torch.randn(time, width) * 0.1)
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    width, heads, hidden, dropout=0.0, activation="gelu", batch_first=True
                )
                for _ in range(2)
            )
            self.head = nn.Linear(width, classes)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens) + self.position
            for layer in self.layers:
                x = layer(x)
            return self.head(x.mean(1))

    module = Encoder()
    for layer in module.layers:
        nn.init.normal_(layer.self_attn.in_proj_bias, std=0.1)
    state = {key: _array(value) for key, value in module.state_dict().items()}
    net = Net()
    names: dict[str, list[str | None]] = {}

    def weight(key: str) -> str:
        names[key] = [net.weight(key, state[key])]
        return key

    def linear(x: str, prefix: str) -> str:
        turned = net.op("Transpose", weight(f"{prefix}.weight"), perm=[1, 0])
        return net.op("Add", net.op("MatMul", x, turned), weight(f"{prefix}.bias"))

    def attention(x: str, prefix: str) -> str:
        parts = []
        for k, part in enumerate("qkv"):
            rows = slice(k * width, (k + 1) * width)
            matrix = net.weight(f"{prefix}.{part}.weight", state[f"{prefix}.in_proj_weight"][rows])
            y = net.op("MatMul", x, net.op("Transpose", matrix, perm=[1, 0]))
            if part != "k":
                # the softmax is blind to a bias of the keys: its gradient is rounding noise, which Adam
                # scales up to whole steps, so the model has none
                y = net.op(
                    "Add",
                    y,
                    net.weight(f"{prefix}.{part}.bias", state[f"{prefix}.in_proj_bias"][rows]),
                )
            y = net.op("Reshape", y, net.ints([0, 0, heads, head]))
            parts.append(net.op("Transpose", y, perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
        names[f"{prefix}.in_proj_weight"] = [f"{prefix}.{part}.weight" for part in "qkv"]
        names[f"{prefix}.in_proj_bias"] = [f"{prefix}.q.bias", None, f"{prefix}.v.bias"]
        q, k, v = parts
        scale = net.weight("scale", 1 / np.sqrt(head))
        scores = net.op("Mul", net.op("MatMul", q, k), scale)
        y = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
        y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), net.ints([0, 0, width]))
        return linear(y, f"{prefix}.out_proj")

    def norm(x: str, prefix: str) -> str:
        return net.op(
            "LayerNormalization", x, weight(f"{prefix}.weight"), weight(f"{prefix}.bias"), epsilon=1e-5
        )

    x = net.op("Gather", weight("embedding.weight"), "tokens")
    x = net.op("Add", x, weight("position"))
    for k in range(2):
        prefix = f"layers.{k}"
        x = norm(net.op("Add", x, attention(x, f"{prefix}.self_attn")), f"{prefix}.norm1")
        y = linear(net.op("Gelu", linear(x, f"{prefix}.linear1")), f"{prefix}.linear2")
        x = norm(net.op("Add", x, y), f"{prefix}.norm2")
    x = net.op("ReduceMean", x, net.ints([1]), keepdims=0)
    net.op("Identity", linear(x, "head"), output="scores")
    r = np.random.default_rng(3)
    batches = [(r.integers(0, words, (8, time)), r.integers(0, classes, 8)) for _ in range(steps)]
    return Pair(
        net.model("tokens", TensorProto.INT64, ["N", time], classes), module, names, "tokens", batches
    )
