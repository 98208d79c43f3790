"""The nine models that ship inside the onnx package, with weights that make activations worth a look.

The package stores every weight as a ConstantOfShape of one value; with such weights all channels are equal
and the final softmax is flat, so any two computations agree. Here the weights are drawn with the usual scales
(He), and the running statistics of BatchNormalization are those of one forward pass, so that activations stay
of order 1 at any depth.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime

from netgrad.onnx.prepare import prepare
from netgrad.onnx.weights import InitializerRole, initializer_roles

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"

ZOO = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
"""Names of the models, for `zoo_model`."""

_LARGE = 2**16  # bytes


def zoo_path(name: str) -> Path:
    """The file as the onnx package ships it."""
    return FOLDER / f"light_{name}.onnx"


@lru_cache(maxsize=1)  # vgg19 alone has 574 MB of weights
def zoo_model(name: str) -> onnx_ir.Model:
    """The prepared model with random weights, the same at every call; it must not be changed (clone it)."""
    model = prepare(zoo_path(name)).model
    random = np.random.default_rng(zlib.crc32(name.encode()))
    initializers = model.graph.initializers
    for entry in initializer_roles(model):
        value = initializers[entry.name]
        assert value.const_value is not None
        shape = tuple(value.const_value.shape.numpy())
        if entry.is_weight or entry.role.startswith("running"):
            array = _draw(entry, value, shape, random)
            value.const_value = onnx_ir.Tensor(array.astype(np.float32), name=entry.name)
    _set_statistics(model, name)
    return model


def zoo_input(name: str, seed: int = 0) -> dict[str, np.ndarray]:
    """A random batch of one for the model's only input."""
    return _image(zoo_model(name), name, seed)


def _image(model: onnx_ir.Model, name: str, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng([zlib.crc32(name.encode()), seed])
    (value,) = model.graph.inputs
    assert value.shape is not None
    return {value.name or "": random.standard_normal(value.shape.numpy(), dtype=np.float32)}


def _draw(
    entry: InitializerRole, value: onnx_ir.Value, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray:
    normal = random.standard_normal(shape, dtype=np.float32)
    if entry.role == "kernel":
        (conv,) = value.consumers()
        producer = conv.inputs[0].producer() if conv.inputs[0] is not None else None
        # The largest of nine rectified normal numbers has about twice the magnitude of one.
        pooled = producer is not None and producer.op_type in ("MaxPool", "LRN")
        return normal * np.float32((2 / np.prod(shape[1:])) ** 0.5 * (0.5 if pooled else 1.0))
    if entry.role == "matrix":
        (reader,) = value.consumers()
        plain = reader.op_type == "Gemm" and "transB" not in reader.attributes
        fan_in = shape[0] if plain else shape[-1]  # inception_v1 reshapes a (1, 1, N, K) tensor
        return normal * np.float32((1 / fan_in) ** 0.5)
    if entry.role == "running variance":
        return 1 + np.float32(0.2) * np.abs(normal)
    scales = entry.role == "scale" or "Mul" in entry.reason
    return np.float32(0.1) * normal + np.float32(1.0 if scales else 0.0)


def _set_statistics(model: onnx_ir.Model, name: str) -> None:
    """Set running statistics to those of one forward pass in training mode with momentum 0."""
    copy = model.clone()
    sources: dict[str, str] = {}
    for node, original in zip(copy.graph, model.graph, strict=True):
        if node.op_type == "BatchNormalization":
            node.resize_outputs(3)
            node.attributes["training_mode"] = onnx_ir.AttrInt64("training_mode", 1)
            node.attributes["momentum"] = onnx_ir.AttrFloat32("momentum", 0.0)
            for index in (1, 2):
                output, statistic = node.outputs[index], original.inputs[index + 2]
                assert statistic is not None
                output.name = f"{node.name}_statistic_{index}"
                output.dtype, output.shape = onnx_ir.DataType.FLOAT, onnx_ir.Shape(statistic.shape or ())
                copy.graph.outputs.append(output)
                sources[output.name] = statistic.name or ""
    if not sources:
        return
    outputs = run(copy, _image(model, name, 1), list(sources))
    for source, array in zip(sources.values(), outputs, strict=True):
        model.graph.initializers[source].const_value = onnx_ir.Tensor(array, name=source)


def run(
    model: onnx_ir.Model, feeds: Mapping[str, np.ndarray], outputs: list[str] | None = None
) -> list[np.ndarray]:
    """Run a model on ONNX Runtime as it is written, without rewriting its graph.

    Large weights are fed, so that a model of any size is run without being written down.
    """
    copy = model.clone()
    fed = dict(feeds)
    for value in list(copy.graph.initializers.values()):
        if value.const_value is not None and value.const_value.nbytes > _LARGE:
            copy.graph.initializers.pop(value.name or "")
            if not value.is_graph_input():
                copy.graph.inputs.append(value)
            fed[value.name or ""] = value.const_value.numpy()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        onnx_ir.to_proto(copy).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(outputs, fed)
    return results
