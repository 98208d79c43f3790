"""Batches of images out of databases, and what is done to the images before."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from netgrad.caffe2.caffe2_pb2 import TensorProto, TensorProtos
from netgrad.caffe2.caffe_pb2 import Datum
from netgrad.caffe2.python import brew, core, model_helper, utils, workspace
from netgrad.caffe2.running import images
from netgrad.core.errors import NetgradWarning

Array = np.ndarray[Any, Any]
_RANDOM = np.random.default_rng(0)


def _pixels(height: int, width: int, channels: int = 3) -> Array:
    return _RANDOM.integers(0, 256, (height, width, channels), dtype=np.uint8)


def _encoded(image: Array, kind: str = "PNG", **options: Any) -> bytes:
    """A file of an image in blue, green, red."""
    file = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(image[:, :, ::-1])).save(file, kind, **options)
    return file.getvalue()


def _tensor(value: Array | bytes) -> TensorProto:
    if isinstance(value, bytes):
        return TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[value])
    if value.dtype == np.uint8 and value.ndim > 1:
        return TensorProto(data_type=TensorProto.BYTE, dims=value.shape, byte_data=value.tobytes())
    return utils.NumpyArrayToCaffe2Tensor(value)


def _reader(path: Path, records: Sequence[Sequence[Array | bytes] | bytes]) -> None:
    database = workspace.C.create_db("minidb", str(path), workspace.C.Mode.write)
    transaction = database.new_transaction()
    for at, record in enumerate(records):
        value = (
            record
            if isinstance(record, bytes)
            else TensorProtos(protos=[_tensor(value) for value in record]).SerializeToString()
        )
        transaction.put(f"{at:03}", value)
    transaction.commit()
    database.close()
    workspace.RunOperatorOnce(core.CreateOperator("CreateDB", [], "reader", db=str(path), db_type="minidb"))


def _read(records: int, *more: str, **arguments: Any) -> tuple[Array, ...]:
    outputs = ["image", "label", *more]
    arguments = {"batch_size": records, "crop": 4, "scale": 4, "is_test": 1, **arguments}
    device = core.DeviceOption(0, random_seed=1)
    workspace.RunOperatorOnce(
        core.CreateOperator("ImageInput", ["reader"], outputs, device_option=device, **arguments)
    )
    return tuple(workspace.FetchBlob(name) for name in outputs)


LABEL = np.array([7], np.int32)


def test_encoded_images_and_pixels_are_the_same(tmp_path: Path) -> None:
    image = _pixels(4, 4)
    _reader(tmp_path / "data", [[_encoded(image), LABEL], [image, np.array([2], np.int32)]])
    found, labels = _read(2)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [image, image])
    np.testing.assert_array_equal(labels, [7, 2])
    assert labels.dtype == np.int32


def test_numbers_are_normalized(tmp_path: Path) -> None:
    image = _pixels(4, 4)
    _reader(tmp_path / "data", [[image, LABEL]])
    plain = image.astype(np.float32)
    np.testing.assert_allclose(_read(1, mean=128.0, std=64.0)[0][0], (plain - 128) / 64)
    mean, std = [1.0, 2.0, 3.0], [2.0, 4.0, 5.0]
    found, _ = _read(1, mean_per_channel=mean, std_per_channel=std)
    np.testing.assert_allclose(found[0], (plain - mean) / std, rtol=1e-6)


def test_grey_and_colour(tmp_path: Path) -> None:
    image, grey = _pixels(4, 4), _pixels(4, 4, 1)
    _reader(tmp_path / "data", [[image, LABEL], [grey[:, :, 0], LABEL], [_encoded(image), LABEL]])
    found, _ = _read(3, color=0)
    assert found.shape == (3, 4, 4, 1)
    weighted = image @ [0.114, 0.587, 0.299]
    np.testing.assert_allclose(found[0, :, :, 0], weighted, atol=0.51)
    np.testing.assert_allclose(found[2, :, :, 0], weighted, atol=1.01)
    np.testing.assert_array_equal(found[1], grey)
    found, _ = _read(3)
    np.testing.assert_array_equal(found[1], np.repeat(grey, 3, 2))


def test_sizes(tmp_path: Path) -> None:
    image = np.repeat(np.repeat(_pixels(4, 6), 2, 0), 2, 1)  # each pixel four times: 8 x 12
    small = image[::2, ::2].astype(np.float32)
    _reader(tmp_path / "data", [[image, LABEL]])
    np.testing.assert_array_equal(_read(1)[0][0], small[:, 1:5])  # the shorter side is 4, and the middle cut
    squeezed = _read(1, warp=1)[0][0]
    np.testing.assert_allclose(squeezed[0, 0], (2 * small[0, 0] + small[0, 1]) / 3, atol=0.51)
    large = _read(1, scale=-1, minsize=6)[0][0]  # it is large enough
    np.testing.assert_array_equal(large, image[2:6, 4:8])
    large = _read(1, scale=-1, minsize=16, crop=16)[0][0]
    np.testing.assert_array_equal(large, np.repeat(np.repeat(image, 2, 0), 2, 1)[:, 4:20])
    box = _read(1, bounding_ymin=2, bounding_xmin=4, bounding_height=4, bounding_width=4)[0][0]
    np.testing.assert_array_equal(box, image[2:6, 4:8])


def test_a_record_has_a_box_of_its_own(tmp_path: Path) -> None:
    image = _pixels(6, 8)
    _reader(tmp_path / "data", [[image, LABEL, np.array([1, 2, 4, 4], np.int32)]])
    np.testing.assert_array_equal(_read(1)[0][0], image[1:5, 2:6])


def test_parts_are_drawn(tmp_path: Path) -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16)
    _reader(tmp_path / "data", [[image, LABEL]])
    found, _ = _read(200, color=0, is_test=0, mirror=1, scale=16)
    corners = {(int(one[0, 0, 0]), int(one[0, 3, 0] - one[0, 0, 0])) for one in found}
    assert {step for _, step in corners} == {3, -3}
    assert len(corners) > 60  # of 2 x 13 x 13
    found, _ = _read(50, color=0, is_test=0, mirror=1, scale=16, scale_jitter_type=1)
    assert len({one.tobytes() for one in found}) > 40
    straight = {one[0, 3, 0] > one[0, 0, 0] for one in found}
    assert straight == {True, False}
    found, _ = _read(50, color=0, is_test=0, scale=-1, random_scale=[16, 32])
    sizes = {round(float(one[3, 0, 0] - one[0, 0, 0])) for one in found}
    assert len(sizes) > 5
    assert min(sizes) < 32 < max(sizes) <= 48  # rows differ by 16, and by 8 in the twofold size


def test_colours_are_drawn(tmp_path: Path) -> None:
    image = _pixels(4, 4)
    _reader(tmp_path / "data", [[image, LABEL]])
    found, _ = _read(20, is_test=0, color_lighting=1, color_lighting_std=0.1)
    shifts = found - image
    np.testing.assert_allclose(shifts, shifts[:, :1, :1] + np.zeros_like(shifts), atol=1e-4)
    assert len({float(shift[0, 0, 0]) for shift in shifts}) == 20
    # brightness alone: all numbers by one factor
    found, _ = _read(20, is_test=0, color_jitter=1, img_saturation=0.0, img_contrast=0.0)
    factors = found.sum((1, 2, 3)) / image.sum()
    np.testing.assert_allclose(found, factors[:, None, None, None] * image, rtol=1e-3)
    assert 0.6 <= factors.min() < 0.9 < 1.1 < factors.max() <= 1.4
    # contrast alone keeps the mean grey value, saturation the grey value of each pixel
    weights = np.array([0.114, 0.587, 0.299])
    found, _ = _read(5, is_test=0, color_jitter=1, img_saturation=0.0, img_brightness=0.0)
    np.testing.assert_allclose((found @ weights).mean((1, 2)), (image @ weights).mean(), rtol=1e-3)
    found, _ = _read(5, is_test=0, color_jitter=1, img_contrast=0.0, img_brightness=0.0)
    np.testing.assert_allclose(found @ weights, np.stack([image @ weights] * 5), atol=0.01)


@pytest.mark.parametrize(
    ("tensors", "arguments", "expected"),
    [
        ([np.array([1, 3], np.int32)], {"label_type": 1, "num_labels": 4}, [0, 1, 0, 1]),
        ([np.array([0.5, 2.0], np.float32)], {"label_type": 2, "num_labels": 2}, [0.5, 2]),
        (
            [np.array([2, 0], np.int32), np.array([0.25, 0.75], np.float32)],
            {"label_type": 3, "num_labels": 3},
            [0.75, 0, 0.25],
        ),
        ([np.array([3], np.int32), np.array([0.5], np.float32)], {"label_type": 4}, 3),
        ([np.array([1.5, 2.5], np.float32)], {"label_type": 5, "num_labels": 2}, [1.5, 2.5]),
    ],
)
def test_labels(tensors: list[Array], arguments: dict[str, int], expected: Any, tmp_path: Path) -> None:
    _reader(tmp_path / "data", [[_pixels(4, 4), *tensors]])
    np.testing.assert_array_equal(_read(1, **arguments)[1], [expected])


def test_what_else_a_record_holds(tmp_path: Path) -> None:
    more = [np.array([5], np.int64), np.array([1, 2, 3], np.float32)]
    _reader(tmp_path / "data", [[_pixels(4, 4), LABEL, *more]] * 2)
    *_, first, second = _read(2, "first", "second", output_sizes=[1, 3])
    np.testing.assert_array_equal(first, [[5], [5]])
    np.testing.assert_array_equal(second, [[1, 2, 3]] * 2)


def test_records_of_the_older_framework(tmp_path: Path) -> None:
    image = _pixels(4, 4)
    raw = Datum(channels=3, height=4, width=4, data=image.transpose(2, 0, 1).tobytes(), label=3)
    packed = Datum(data=_encoded(image), encoded=True, label=4)
    _reader(tmp_path / "data", [raw.SerializeToString(), packed.SerializeToString()])
    found, labels = _read(2, use_caffe_datum=1)
    np.testing.assert_array_equal(found, [image, image])
    np.testing.assert_array_equal(labels, [3, 4])


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    image = np.zeros((8, 4, 3), np.uint8)
    image[:4] = 255
    exif = PIL.Image.Exif()
    exif[0x0112] = 3  # upside down
    assert images.decoded(_encoded(image, "JPEG", exif=exif), colour=True) is not None
    upright = images.decoded(_encoded(image, "JPEG", exif=exif), colour=True)
    np.testing.assert_allclose(upright, image[::-1], atol=20)


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    _reader(tmp_path / "data", [[b"no image", LABEL], [_encoded(_pixels(4, 4)), LABEL]])
    with pytest.warns(NetgradWarning, match="1 of 2 images for blob 'image' can't be decoded"):
        found, _ = _read(2)
    assert not found[0].any()
    with pytest.raises(RuntimeError, match="1 of 2 images can't be decoded"):
        _read(2, max_decode_error_ratio=0.25)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"crop": 0}, "crop must be positive"),
        ({"minsize": 4}, "scale, or minsize, and not both"),
        ({"scale": 3}, "must not be below crop"),
        ({"mean_per_channel": [1.0, 2.0, 3.0]}, "mean and std have as many numbers"),
        ({"label_type": 1}, "needs num_labels"),
        ({"label_type": 6}, "no such label_type"),
        ({"label_type": 2, "num_labels": 3}, "a record has 1 labels, not 3"),
        ({"label_type": 1, "num_labels": 7}, "a label that is not below 7"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    _reader(tmp_path / "data", [[_pixels(4, 4), LABEL]])
    with pytest.raises(RuntimeError, match=rf"ImageInput\(reader\).*{re.escape(said)}"):
        _read(**{"records": 1, **arguments})


def test_records_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    _reader(tmp_path / "data", [[_pixels(4, 4, 2), LABEL]])
    with pytest.raises(RuntimeError, match="must begin with an encoded image"):
        _read(1)
    with pytest.raises(RuntimeError, match="holds 2 tensors, and 3 are needed"):
        _read(1, "more")


def test_a_model_reads_images(tmp_path: Path) -> None:
    """As training programs do: the images become NCHW, and a convolution reads them."""
    _reader(tmp_path / "data", [[_encoded(_pixels(9, 12)), LABEL]] * 3)
    model = model_helper.ModelHelper("reads", arg_scope={"order": "NCHW"})
    data, _ = brew.image_input(
        model, ["reader"], ["data", "label"], batch_size=2, mean=128.0, std=128.0, scale=8, crop=8, mirror=1
    )
    brew.conv(model, data, "c", 3, 5, 3)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 2)
    assert workspace.FetchBlob("c").shape == (2, 5, 6, 6)
    assert np.abs(workspace.FetchBlob("data")).max() <= 1


def test_an_operator_without_a_reader_has_its_own(tmp_path: Path) -> None:
    _reader(tmp_path / "data", [[_pixels(4, 4), np.array([at], np.int32)] for at in range(3)])
    net = core.Net("own")
    path = str(tmp_path / "data")
    net.ImageInput([], ["image", "label"], db=path, db_type="minidb", batch_size=2, scale=4, crop=4)
    workspace.CreateNet(net)
    workspace.RunNet(net, 2)
    np.testing.assert_array_equal(workspace.FetchBlob("label"), [2, 0])
