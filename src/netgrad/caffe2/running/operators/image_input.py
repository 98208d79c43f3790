"""Batches of images out of databases."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.caffe_pb2 import Datum
from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.images import (
    Floats,
    Image,
    decoded,
    in_channels,
    jittered,
    lit,
    random_part,
    resized,
)
from netgrad.caffe2.running.operators.databases import RecordReader, own_reader, protos_of
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.tensors import to_array
from netgrad.core.errors import NetgradWarning

_BROKEN = np.zeros((224, 224, 3), np.uint8)
"""What stands for an image that can't be decoded, as in the original."""

# values of the argument label_type
_SINGLE, _SPARSE, _DENSE, _WEIGHTED_SPARSE, _SINGLE_WEIGHTED, _EMBEDDING = range(6)
_LABEL_TYPES = (np.dtype(np.int32), np.dtype(np.float32))
_MORE_TYPES = (*_LABEL_TYPES, np.dtype(np.int64), np.dtype(np.uint8))


class _Record:
    """What a record holds.

    Attributes:
        image: The encoded image or the pixels.
        tensors: The tensors behind it, the label first.
    """

    def __init__(self, image: bytes | Image, tensors: list[Array]) -> None:
        self.image = image
        self.tensors = tensors


@runs("ImageInput")
def _image_input(call: Call) -> None:
    """The next records: images (batch, crop, crop, channels) as float, labels, and what else records hold.

    With ``use_gpu_transform`` the images are (batch, channels, crop, crop), in ``output_type``.
    """
    settings = _Settings(call)
    reader = call.value(0) if call.definition.input else own_reader(call)
    if not isinstance(reader, RecordReader):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateDB")
    records = [_record(call, settings, reader) for _ in range(settings.batch)]
    broken = 0
    images: list[Floats] = []
    for record in records:
        image = decoded(record.image, settings.colour) if isinstance(record.image, bytes) else record.image
        if image is None:
            broken += 1
            image = _BROKEN
        box = record.tensors[settings.behind] if len(record.tensors) > settings.behind else settings.box
        images.append(settings.pixels(in_channels(image, 3 if settings.colour else 1), box))
    if broken:
        _warn_of(call, broken, settings.batch)
    batch = np.stack(images)
    if call.argument("use_gpu_transform", 0):
        half = call.argument("output_type", "float") in ("float16", TensorProto.FLOAT16)
        batch = batch.transpose(0, 3, 1, 2).astype(np.float16 if half else np.float32)
    call.write(0, batch)
    call.write(1, np.stack([settings.label(record.tensors) for record in records]))
    for at in range(2, len(call.definition.output)):
        column = [record.tensors[settings.first + at - 3] for record in records]
        call.write(at, np.stack([_column(call, at, one, settings.sizes[at - 2]) for one in column]))


def _warn_of(call: Call, broken: int, batch: int) -> None:
    if broken / batch > call.argument("max_decode_error_ratio", 1.0):
        raise call.error(f"{broken} of {batch} images can't be decoded")
    warnings.warn(
        f"{broken} of {batch} images for blob '{call.definition.output[0]}' can't be decoded and are black; "
        "max_decode_error_ratio makes that an error",
        NetgradWarning,
        stacklevel=2,
    )


def _column(call: Call, at: int, tensor: Array, size: int) -> Array:
    name = call.definition.output[at]
    if tensor.dtype not in _MORE_TYPES:
        raise call.error(f"the tensors for output '{name}' are {tensor.dtype}, which it doesn't take")
    if tensor.size != size:
        raise call.error(
            f"a tensor for output '{name}' has {tensor.size} elements, not {size} (output_sizes)"
        )
    return tensor.reshape(-1)


def _record(call: Call, settings: _Settings, reader: RecordReader) -> _Record:
    key, value = reader.next()
    if call.argument("use_caffe_datum", 0):
        datum = Datum.FromString(value)
        image: Any = datum.data
        if not datum.encoded:
            shape = datum.channels, datum.height, datum.width
            if shape[0] not in (1, 3) or len(datum.data) != np.prod(shape):
                raise call.error(f"record '{key}' has no {shape[0]} x {shape[1]} x {shape[2]} pixels")
            image = np.frombuffer(datum.data, np.uint8).reshape(shape).transpose(1, 2, 0)
        return _Record(image, [np.array(datum.label, np.int32)])
    first, *others = protos_of(call, key, value)
    least = settings.first - 1 + len(call.definition.output) - 2
    if len(others) < least:
        raise call.error(f"record '{key}' holds {1 + len(others)} tensors, and {1 + least} are needed")
    tensors = [to_array(proto) for proto in others]
    if first.data_type == TensorProto.STRING:
        return _Record(first.string_data[0], tensors)
    pixels = to_array(first)
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3):
        raise call.error(
            f"record '{key}' must begin with an encoded image, or with bytes (height, width) or "
            f"(height, width, 3); it has {first.data_type} of {pixels.shape}"
        )
    return _Record(pixels, tensors)


class _Settings:
    """What the operator's arguments ask for.

    Attributes:
        batch: How many images.
        colour: Whether images have three channels.
        first: The place of the first further tensor in a record, after image, label and weights.
        behind: That of the box in the image, counted from the label, if a record has one.
        box: Top, left, height and width of the box of images without an own one; None: the whole image.
        sizes: How many elements the further outputs have.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        argument = call.argument
        self.batch: int = argument("batch_size", 0)
        self.colour = bool(argument("color", 1))
        self._test = bool(argument("is_test", 0))
        self._scale: int = argument("scale", -1)
        self._least: int = argument("minsize", -1)
        self._range: tuple[int, ...] = argument("random_scale", (-1, -1))
        self._drawn = len(self._range) == 2 and -1 not in self._range
        if self._drawn:
            self._least = self._range[0]
        self._crop: int = argument("crop", -1)
        self._kind: int = argument("label_type", _SINGLE)
        self._labels: int = argument("num_labels", 0)
        weighted = self._kind in (_WEIGHTED_SPARSE, _SINGLE_WEIGHTED)
        self.first = 3 if weighted else 2
        more = len(call.definition.output) - 2
        self.behind = self.first - 1 + more
        self.sizes: tuple[int, ...] = argument("output_sizes", ()) or (1,) * more
        box = [argument(f"bounding_{side}", -1) for side in ("ymin", "xmin", "height", "width")]
        self.box = None if min(box) < 0 else np.array(box)
        self._mean = np.array(argument("mean_per_channel", (argument("mean", 0.0),)), np.float32)
        self._deviation = np.array(argument("std_per_channel", (argument("std", 1.0),)), np.float32)
        self._check(more)

    def _check(self, more: int) -> None:
        size = self._scale if self._scale > 0 else self._least
        faults = {
            "batch_size must be positive": self.batch <= 0,
            "crop must be positive": self._crop <= 0,
            "it takes scale, or minsize, and not both": (self._scale > 0) == (self._least > 0),
            "random_scale holds the smallest and the largest size": len(self._range) != 2
            or self._range[1] < self._range[0],
            f"scale or minsize, {size}, must not be below crop, {self._crop}": size < self._crop,
            "mean and std have as many numbers: one, or one per channel": self._mean.shape
            != self._deviation.shape
            or self._mean.size not in (1, 3 if self.colour else 1),
            "output_sizes has a size for each output behind the label": len(self.sizes) != more,
            "there is no such label_type": not _SINGLE <= self._kind <= _EMBEDDING,
            "this label_type needs num_labels": self._kind not in (_SINGLE, _SINGLE_WEIGHTED)
            and self._labels <= 0,
            "records of the older framework (use_caffe_datum) have one label, and nothing behind it": bool(
                self._call.argument("use_caffe_datum", 0)
            )
            and (more > 0 or self._kind not in (_SINGLE, _SINGLE_WEIGHTED)),
        }
        for said, wrong in faults.items():
            if wrong:
                raise self._call.error(said)

    def pixels(self, image: Image, box: Array | None) -> Floats:
        """The part of an image that is wanted, in its size, as numbers."""
        random = self._call.random()
        if box is not None:
            top, left, height, width = (int(side) for side in box.reshape(-1))
            if top + height <= image.shape[0] and left + width <= image.shape[1]:
                image = image[top : top + height, left : left + width]
        jitter = self._call.argument("scale_jitter_type", 0) == 1 and not self._test
        part = random_part(image, self._crop, random) if jitter else None
        image = self._scaled(image, random) if part is None else part
        found = self._cut(image, random).astype(np.float32)
        if self.colour and not self._test:
            found = self._recoloured(found, random)
        normal: Floats = (found - self._mean) / self._deviation
        return normal

    def _scaled(self, image: Image, random: np.random.Generator) -> Image:
        """The shorter side (with ``warp`` both) in the size that is asked for, or in at least that size."""
        height, width = image.shape[:2]
        size = self._scale if self._scale > 0 else self._least
        if self._drawn:
            size = int(random.integers(self._range[0], self._range[1], endpoint=True))
        wanted = size, size
        if not self._call.argument("warp", 0):
            longer = max(height, width) * size // min(height, width)
            wanted = (longer, size) if height > width else (size, longer)
        if wanted == (height, width) or (self._scale <= 0 and wanted[0] <= height and wanted[1] <= width):
            return image
        return resized(image, *wanted)

    def _cut(self, image: Image, random: np.random.Generator) -> Image:
        """A square of the size ``crop``: in tests the middle, else any, mirrored every other time."""
        top, left = ((side - self._crop) // 2 for side in image.shape[:2])
        if not self._test:
            top, left = (random.integers(side - self._crop, endpoint=True) for side in image.shape[:2])
        part = image[top : top + self._crop, left : left + self._crop]
        mirrored = not self._test and self._call.argument("mirror", 0) and random.random() < 0.5
        return part[:, ::-1] if mirrored else part

    def _recoloured(self, pixels: Floats, random: np.random.Generator) -> Floats:
        argument = self._call.argument
        if argument("color_jitter", 0):
            saturation, brightness, contrast = (
                argument(f"img_{name}", 0.4) for name in ("saturation", "brightness", "contrast")
            )
            pixels = jittered(pixels, (saturation, brightness, contrast), random)
        if argument("color_lighting", 0):
            pixels = lit(pixels, argument("color_lighting_std", 0.1), random)
        return pixels

    def label(self, tensors: list[Array]) -> Array:
        """A record's label: a number, or a row of ``num_labels`` numbers."""
        label = tensors[0].reshape(-1)
        if label.dtype not in _LABEL_TYPES:
            raise self._call.error(f"labels are int32 or float, not {label.dtype}")
        if self._kind in (_SINGLE, _SINGLE_WEIGHTED):
            if label.size != 1:
                raise self._call.error(f"a record has {label.size} labels, and label_type asks for one")
            return label.reshape(())
        if self._kind in (_DENSE, _EMBEDDING):
            if label.size != self._labels:
                raise self._call.error(f"a record has {label.size} labels, not {self._labels} (num_labels)")
            return label
        places = label.astype(np.int64)
        if places.size and (places.min() < 0 or places.max() >= self._labels):
            raise self._call.error(f"a record has a label that is not below {self._labels} (num_labels)")
        weights = tensors[1].reshape(-1) if self._kind == _WEIGHTED_SPARSE else np.ones(1, label.dtype)
        row = np.zeros(self._labels, weights.dtype)
        row[places] = weights
        return row
