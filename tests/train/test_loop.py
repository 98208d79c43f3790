"""The loop: epochs, order, resumption bit by bit, evaluation, reports."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, NetgradError, NetgradWarning
from netgrad.train import checkpoint as checkpoints
from netgrad.train import losses
from netgrad.train.data import ArrayBatches
from netgrad.train.loop import Callback, Trainer
from netgrad.train.optimizers import Optimizer, adam, sgd
from netgrad.train.report import EpochRecord
from netgrad.train.schedules import constant, cosine, step_decay, warmup
from netgrad.train.step import TrainingStep, training_step
from tests.train.models import dropped, perceptron, rng

Arrays = dict[str, np.ndarray]


def data(n: int = 23) -> Arrays:
    """Four classes that a small perceptron can learn: the largest of four fixed linear functions."""
    x = rng(40).normal(size=(n, 3))
    return {"x": x, "labels": (x @ rng(41).normal(size=(3, 4))).argmax(1)}


def make(optimizer: Optimizer | None = None) -> TrainingStep:
    return training_step(
        perceptron(), loss=losses.cross_entropy(), optimizer=optimizer or adam(0.02), metrics=["accuracy"]
    )


def assert_same(one: Trainer, other: Trainer) -> None:
    first, second = one._workspace.state(), other._workspace.state()
    assert set(first) == set(second)
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes(), name
    assert (one.epoch, one.batch, one.steps) == (other.epoch, other.batch, other.steps)


class StopAt(Callback):
    """Raises after a number of steps, as an interrupt would."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def after_step(self, trainer: Trainer, values: Any) -> None:
        if trainer.steps == self.steps:
            raise KeyboardInterrupt


def fit(trainer: Trainer, epochs: int = 3, **more: Any) -> list[EpochRecord]:
    return trainer.fit(data(), epochs=epochs, batch_size=5, progress=False, **more)


def test_training_lowers_the_loss() -> None:
    trainer = Trainer(make(adam(0.05)), threads=1)
    history = trainer.fit(
        data(200), epochs=40, batch_size=20, validation=data(50), learning_rate=0.05, progress=False
    )
    assert [record.epoch for record in history] == list(range(1, 41))
    assert history[-1].training["loss"] < 0.25 * history[0].training["loss"]
    assert history[-1].validation is not None
    assert history[-1].validation["accuracy"] > 0.9
    assert history[-1].step == 400
    assert history[-1].samples == 200


@pytest.mark.parametrize("optimizer", [sgd(0.1, momentum=0.9), adam(0.02)])
@pytest.mark.parametrize("steps", [2, 5, 7, 10, 14])
def test_a_resumed_training_equals_one_that_never_stopped(
    optimizer: Optimizer, steps: int, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"
    step = make(optimizer)
    straight = Trainer(step, threads=1, seed=7)
    whole = fit(straight)  # 5 batches an epoch, the last of 3 samples
    interrupted = Trainer(step, threads=1, seed=7)
    with pytest.raises(KeyboardInterrupt):
        fit(interrupted, checkpoint=path, every=1, callbacks=[StopAt(steps + 1)])
    resumed = Trainer(step, threads=1, seed=99)  # the checkpoint's seed counts
    resumed.load(path)
    assert resumed.steps == steps
    history = fit(resumed)
    assert_same(straight, resumed)
    for got, want in zip(history, whole, strict=True):
        assert got.training == want.training
        assert (got.epoch, got.step, got.samples) == (want.epoch, want.step, want.samples)


def test_resume_continues_from_the_last_checkpoint_and_a_first_run_needs_none(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    step = make()
    straight = Trainer(step, threads=1)
    fit(straight)
    with pytest.raises(KeyboardInterrupt):
        fit(Trainer(step, threads=1), checkpoint=path, every=3, resume=True, callbacks=[StopAt(8)])
    again = Trainer(step, threads=1)
    fit(again, checkpoint=path, every=3, resume=True)
    assert_same(straight, again)
    finished = Trainer(step, threads=1)
    fit(finished, checkpoint=path, resume=True)  # nothing is left to do
    assert_same(straight, finished)


def test_dropout_goes_on_with_the_same_masks(tmp_path: Path) -> None:
    step = training_step(
        dropped(), loss=losses.mean_squared_error("y"), optimizer=sgd(0.1), mode="train", trainable=["w"]
    )
    arrays = {
        "x": rng(42).normal(size=(20, 6)).astype(np.float32),
        "targets": rng(43).normal(size=(20, 6)).astype(np.float32),
    }
    straight = Trainer(step, threads=1, seed=5)
    straight.fit(arrays, epochs=2, batch_size=4, progress=False)
    part = Trainer(step, threads=1, seed=5)
    with pytest.raises(KeyboardInterrupt):
        part.fit(arrays, epochs=2, batch_size=4, progress=False, callbacks=[StopAt(7)])
    part.save(tmp_path / "c")
    rest = Trainer(step, threads=1)
    rest.load(tmp_path / "c")
    rest.fit(arrays, epochs=2, batch_size=4, progress=False)
    assert_same(straight, rest)
    other = Trainer(step, threads=1, seed=6)
    other.fit(arrays, epochs=2, batch_size=4, progress=False, shuffle=False)
    assert other.parameters()["w"].tobytes() != straight.parameters()["w"].tobytes()


def test_a_killed_training_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    program = textwrap.dedent(
        """
        import os, signal, sys
        from netgrad.train.loop import Callback, Trainer
        from tests.train.test_loop import fit, make

        class Kill(Callback):
            def after_step(self, trainer, values):
                if trainer.steps == 9:
                    os.kill(os.getpid(), signal.SIGKILL)

        fit(Trainer(make(), threads=1), checkpoint=sys.argv[1], every=2, callbacks=[Kill()])
        """
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    killed = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=False)
    assert killed.returncode == -9
    assert [each.name for each in tmp_path.iterdir()] == ["run.safetensors"]
    straight, resumed = Trainer(make(), threads=1), Trainer(make(), threads=1)
    resumed.load(path)
    assert resumed.steps == 8
    fit(straight)
    fit(resumed)
    assert_same(straight, resumed)


def test_a_failure_while_writing_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.safetensors"
    trainer = Trainer(make(), threads=1)
    trainer.save(path)
    before = path.read_bytes()
    fit(trainer, 1)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NetgradError, match=r"cannot write '.*run\.safetensors': No space left"):
        trainer.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "other"])
def test_a_damaged_checkpoint_is_one_clear_error(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    trainer = Trainer(make(), threads=1)
    fit(trainer, 1)
    trainer.save(path)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[-3] ^= 1
    elif damage == "other":
        import safetensors.numpy

        content = bytearray(safetensors.numpy.save({"W1": np.zeros((3, 5))}))
    path.write_bytes(
        {"truncated": content[: len(content) // 2], "empty": b"", "text": b"hello"}.get(damage, content)
    )
    other = Trainer(make(), threads=1)
    before = other._workspace.state()
    with pytest.raises(InvalidModelError, match=r"run\.safetensors") as caught:
        other.load(path)
    assert len(str(caught.value).splitlines()) == 1
    for name, array in before.items():
        np.testing.assert_array_equal(other._workspace.get(name), array)


def test_a_checkpoint_of_another_step_is_refused_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    Trainer(make(), threads=1).save(path)
    trainer = Trainer(make(sgd(0.1, momentum=0.5)), threads=1)
    with pytest.raises(InvalidArgumentError) as caught:
        trainer.load(path)
    for part in ("adam(", "sgd(", "no 'W1/momentum'", "and 7 more differences"):
        assert part in str(caught.value)
    wider = training_step(perceptron(hidden=6), loss=losses.cross_entropy(), optimizer=adam(0.1))
    with pytest.raises(
        InvalidArgumentError, match=r"its 'W1' is float64\[3, 5\], the step's is float64\[3, 6\]"
    ):
        Trainer(wider, threads=1).load(path)
    with pytest.raises(InvalidModelError, match="no such file"):
        trainer.load(tmp_path / "nothing")
    with pytest.raises(InvalidArgumentError, match="folder"):
        trainer.save(tmp_path)
    with pytest.raises(NetgradError, match="cannot write"):
        trainer.save(tmp_path / "no" / "such")


def test_a_checkpoint_holds_every_element_type(tmp_path: Path) -> None:
    import ml_dtypes

    kinds = ["float16", "float32", "float64", "int8", "uint16", "int64", "bool"]
    tensors: Arrays = {kind: rng(1).integers(0, 2, size=(2, 3)).astype(kind) for kind in kinds}
    tensors["bfloat16"] = np.asarray([[1.5, -2.0]], ml_dtypes.bfloat16)
    tensors["scalar"] = np.asarray(7, np.int64)
    tensors["empty"] = np.zeros((0, 4), np.float32)
    checkpoints.write(checkpoints.Checkpoint(tensors, {"fact": [1, "a"]}), tmp_path / "c")
    found = checkpoints.read(tmp_path / "c")
    assert found.facts["fact"] == [1, "a"]
    assert not checkpoints.differences(found.tensors, tensors)
    for name, array in tensors.items():
        assert found.tensors[name].tobytes() == array.tobytes(), name


def test_the_differences_of_two_steps_are_listed() -> None:
    found = {"a": np.zeros(3), "c": np.zeros(2, np.float32)}
    wanted = {"a": np.zeros((3, 1)), "b": np.zeros(2)}
    assert checkpoints.differences(found, wanted) == [
        "it has no 'b'",
        "it has 'c', which the step does not",
        "its 'a' is float64[3], the step's is float64[3, 1]",
    ]


def test_asking_for_no_more_epochs_than_are_done_is_no_silent_success() -> None:
    trainer = Trainer(make(), threads=1)
    fit(trainer, 2)
    with pytest.warns(NetgradWarning, match="2 epochs are done"):
        fit(trainer, 2)
    assert trainer.steps == 10
    assert len(fit(trainer, 3)) == 3


def test_a_training_that_diverges_says_so() -> None:
    arrays = data()
    arrays["x"][3] = np.nan
    with pytest.warns(NetgradWarning, match="the loss is nan at step"):
        Trainer(make(), threads=1).fit(arrays, batch_size=5, progress=False)


def test_learning_rate_as_number_and_schedule() -> None:
    used: list[float] = []

    class Watch(Callback):
        def after_step(self, trainer: Trainer, values: Any) -> None:
            used.append(trainer._rate)

    fit(Trainer(make(), threads=1), 1, callbacks=[Watch()])
    assert used == [0.02] * 5
    used.clear()
    fit(Trainer(make(), threads=1), 1, learning_rate=0.5, callbacks=[Watch()])
    assert used == [0.5] * 5
    used.clear()
    fit(Trainer(make(), threads=1), 2, learning_rate=step_decay(1.0, 4, factor=0.5), callbacks=[Watch()])
    assert used == [1.0] * 4 + [0.5] * 4 + [0.25] * 2


def test_schedules() -> None:
    assert [constant(0.3)(step) for step in (0, 100)] == [0.3, 0.3]
    down = cosine(1.0, 10, final=0.2)
    assert down(0) == 1.0
    assert down(5) == pytest.approx(0.6)
    assert down(10) == down(1000) == pytest.approx(0.2)
    rise = warmup(4, down)
    assert [rise(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert rise(4) == down(0)
    assert rise(9) == down(5)
    assert warmup(2, 0.5)(7) == 0.5
    for wrong in (lambda: cosine(1.0, 0), lambda: step_decay(1.0, 0), lambda: warmup(0, 1.0)):
        with pytest.raises(InvalidArgumentError):
            wrong()


def test_a_callback_can_end_the_training() -> None:
    class Stop(Callback):
        def after_epoch(self, trainer: Trainer, record: EpochRecord) -> bool:
            return record.epoch == 2

    trainer = Trainer(make(), threads=1)
    assert len(fit(trainer, 10, callbacks=[Stop(), Callback()])) == 2
    assert trainer.epoch == 2


def test_evaluation_is_the_mean_over_samples_and_changes_nothing() -> None:
    trainer = Trainer(make(), threads=1)
    fit(trainer, 1)
    before = trainer.parameters()
    arrays = data(13)
    by_parts = trainer.evaluate(arrays, batch_size=5)
    at_once = trainer.evaluate(arrays, batch_size=13)
    assert by_parts == pytest.approx(at_once, rel=1e-6)
    p = before
    scores = np.tanh(arrays["x"] @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
    assert at_once["accuracy"] == pytest.approx((scores.argmax(1) == arrays["labels"]).mean())
    for name, array in trainer.parameters().items():
        np.testing.assert_array_equal(array, before[name])
    assert trainer.evaluate(arrays) != Trainer(make(), threads=1).evaluate(arrays)


def test_forms_of_data_give_the_same_training() -> None:
    arrays = data()
    parts = [{name: array[k : k + 5] for name, array in arrays.items()} for k in range(0, 23, 5)]
    forms: list[Any] = [
        arrays,
        (arrays["x"], arrays["labels"]),
        parts,
        lambda epoch: iter(parts),
        ArrayBatches(arrays, 5),
    ]
    trainers = []
    for form in forms:
        trainers.append(Trainer(make(), threads=1))
        trainers[-1].fit(form, epochs=2, batch_size=5, shuffle=False, progress=False)
    for other in trainers[1:]:
        assert_same(trainers[0], other)


def test_an_iterated_epoch_is_continued_behind_the_batches_done(tmp_path: Path) -> None:
    arrays = data()
    parts = [{name: array[k : k + 5] for name, array in arrays.items()} for k in range(0, 23, 5)]
    straight, part = Trainer(make(), threads=1), Trainer(make(), threads=1)
    straight.fit(parts, epochs=2, progress=False)
    with pytest.raises(KeyboardInterrupt):
        part.fit(parts, epochs=2, progress=False, callbacks=[StopAt(8)])
    part.save(tmp_path / "c")
    rest = Trainer(make(), threads=1)
    rest.load(tmp_path / "c")
    rest.fit(parts, epochs=2, progress=False)
    assert_same(straight, rest)


def test_an_iterator_serves_one_epoch_only() -> None:
    def stream() -> Iterator[Arrays]:
        yield data(4)

    with pytest.raises(InvalidArgumentError, match="gives its batches once"):
        Trainer(make(), threads=1).fit(stream(), epochs=2, progress=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": np.zeros((3, 3)), "labels": np.zeros(2, np.int64)}, "'x' 3, 'labels' 2"),
        ({"x": np.zeros((3, 3))}, "input 'labels'"),
        ({"x": np.zeros((3, 3)), "label": np.zeros(3, np.int64)}, "'label'; did you mean 'labels'"),
        ({"x": np.zeros((3, 3)), "labels": np.zeros(3)}, "float64, which is not made int64"),
        ({"x": np.zeros((0, 3)), "labels": np.zeros(0, np.int64)}, "no samples"),
        ({"x": 3.0}, "one number"),
        ({}, "no arrays"),
        ((np.zeros((3, 3)),), "1 arrays, but the step has 2 batch inputs: x, labels"),
        (5, "data is int"),
    ],
)
def test_data_that_does_not_fit_is_named(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Trainer(make(), threads=1).fit(given, progress=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"every": 3}, "need a `checkpoint`"),
        ({"resume": True}, "need a `checkpoint`"),
        ({"every": 0, "checkpoint": "c"}, "every"),
        ({"batch_size": 30, "drop_last": True}, "23 samples, which is not enough for one batch of 30"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Trainer(make(), threads=1).fit(data(), progress=False, **arguments)
    with pytest.raises(InvalidArgumentError, match="seed"):
        Trainer(make(), threads=1, seed=-1)


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    arrays = {"k": np.arange(11)}

    def order(seed: int, epoch: int, start: int = 0) -> list[int]:
        batches = ArrayBatches(arrays, 3, seed=seed)
        return [int(k) for batch in batches.epoch(epoch, start) for k in batch["k"]]

    assert sorted(order(1, 0)) == list(range(11))
    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4
    assert order(1, 4, start=2) == order(1, 4)[6:]
    dropped_last = ArrayBatches(arrays, 3, seed=1, drop_last=True)
    assert dropped_last.count == 3
    assert [len(batch["k"]) for batch in dropped_last.epoch(0)] == [3, 3, 3]


def test_lines_are_printed_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = Trainer(make(), threads=1)
    trainer.fit(data(), epochs=2, batch_size=5, validation=data(4))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("epoch 2  loss ")
    assert "validation loss " in lines[1]
    fit(trainer, 3)
    assert capsys.readouterr().err == ""


def test_a_bar_is_drawn_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Trainer(make(), threads=1).fit(data(), epochs=2, batch_size=5)
    err = capsys.readouterr().err
    assert "epoch 1" in err
    assert "5/5" in err
