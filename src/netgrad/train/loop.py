"""The training loop: parameters that stay with ONNX Runtime, epochs over data, checkpoints, export."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError, NetgradWarning
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.write import save
from netgrad.runtime.session import Providers, Session
from netgrad.runtime.workspace import Workspace
from netgrad.train import checkpoint as checkpoints
from netgrad.train.data import Batches, Data, as_batches, samples_in
from netgrad.train.export import with_weights
from netgrad.train.report import EpochRecord, reporter
from netgrad.train.schedules import Schedule, constant
from netgrad.train.step import TrainingStep

Array: TypeAlias = npt.NDArray[Any]


class Callback:
    """What may be done between steps and epochs; override what is needed."""

    def after_step(self, trainer: Trainer, values: Mapping[str, float]) -> None:
        """A step is done; ``values`` holds the loss and the metrics of its batch."""

    def after_epoch(self, trainer: Trainer, record: EpochRecord) -> bool | None:
        """An epoch is done; True ends the training."""


class Trainer:
    """Runs a training step over data, and keeps parameters and state between steps.

    Parameters and state lie in buffers of ONNX Runtime, two each: a step reads one and writes the other,
    so nothing is copied between steps.

    Example:
        >>> trainer = netgrad.Trainer(step, seed=1)  # doctest: +SKIP
        >>> trainer.fit({"x": images, "labels": digits}, epochs=5)  # doctest: +SKIP
        >>> trainer.export("trained.onnx")  # doctest: +SKIP

    Attributes:
        training_step: The step.
        seed: Seed of the data's order and of dropout.
        epoch: Number of epochs done.
        batch: Number of batches done of the epoch that is under way.
        history: A record of each epoch done.
    """

    def __init__(
        self,
        step: TrainingStep,
        *,
        providers: Providers | None = None,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """Load the step into ONNX Runtime, with its initial parameters and state.

        Args:
            step: What `netgrad.training_step` made.
            providers: Execution providers in order of preference; the CPU by default.
            threads: Threads that one operator may use; by default as many as there are cores.
            seed: Seed of the data's order and of dropout, at least 0.

        Raises:
            InvalidArgumentError: An unknown provider, or a seed below 0.
            RuntimeFailureError: ONNX Runtime cannot run the step.
        """
        if seed < 0:
            raise InvalidArgumentError(f"`seed` is {seed}; it is at least 0")
        self.training_step = step
        self.seed = seed
        self.epoch = 0
        self.batch = 0
        self.history: list[EpochRecord] = []
        self._options: dict[str, Any] = {"providers": providers, "threads": threads}
        self._sums: dict[str, float] = {}
        self._samples = 0
        self._diverged = False
        self._rate = float(step.initial[step.learning_rate])
        state = {name: array for name, array in step.initial.items() if name != step.learning_rate}
        if step.seed is not None:
            state[step.seed] = np.asarray(seed, np.int64)
        session = Session(step.model, promote=list(step.initial), **self._options)
        self._workspace = Workspace(session, state, step.feedback)
        self._evaluation: Workspace | None = None

    # ---- one step -----------------------------------------------------------------------------------------

    def step(self, batch: Mapping[str, Any], *, learning_rate: float | None = None) -> dict[str, float]:
        """Train on one batch.

        Args:
            batch: An array for each name in `TrainingStep.batch_inputs`.
            learning_rate: By default the one that was used last; at first the optimizer's.

        Returns:
            ``"loss"`` (the sum, if the loss has several elements) and each metric, before the update.

        Raises:
            InvalidArgumentError: Arrays that don't fit.
            RuntimeFailureError: ONNX Runtime failed; parameters and state are as before.
        """
        step = self.training_step
        if learning_rate is not None:
            self._rate = float(learning_rate)
        rate = np.asarray(self._rate, step.initial[step.learning_rate].dtype)
        feeds = {**batch, step.learning_rate: rate}
        results = self._workspace.run(feeds, [step.loss, *step.metrics.values()])
        return _figures(step, results)

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return int(self._workspace.get(self.training_step.step))

    # ---- epochs -------------------------------------------------------------------------------------------

    def fit(
        self,
        data: Data,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        drop_last: bool = False,
        validation: Data | None = None,
        learning_rate: float | Schedule | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        every: int | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> list[EpochRecord]:
        """Train until ``epochs`` epochs are done, those before a resumption included.

        A trainer that was interrupted in the middle of an epoch, saved and loaded goes on with the next
        batch and ends with the same parameters, bit by bit, as one that never stopped, if the data is the
        same.

        Args:
            data: Arrays by input name, with one sample per entry of the first axis; or a tuple of arrays
                in the order of `TrainingStep.batch_inputs`; or something that yields batches (arrays by
                name) each time it is iterated; or a function from the epoch, 0 for the first, to such a
                thing.
            epochs: How many epochs there are in all.
            batch_size: Samples per batch, where the data is arrays.
            shuffle: Whether arrays are gone through in another order each epoch, by the trainer's seed.
            drop_last: Whether to leave out a last batch that is smaller, where the data is arrays.
            validation: Data to evaluate after each epoch, in the same forms.
            learning_rate: A number or a function of the number of steps done (see
                `netgrad.train.schedules`); by default the optimizer's.
            callbacks: Told of every step and epoch.
            checkpoint: A file to save to after each epoch, written whole or not at all.
            every: Save after each so many steps, too.
            resume: Whether to load ``checkpoint`` first, if that file exists.
            progress: None: a progress bar on a terminal, lines elsewhere; False: nothing.

        Returns:
            The records of all epochs done.

        Raises:
            InvalidArgumentError: Arguments or data that don't fit.
            RuntimeFailureError: ONNX Runtime failed.
            NetgradError: The checkpoint cannot be written, or read.

        Warns:
            NetgradWarning: The loss is infinite or no number, or there is nothing to do.
        """
        self._check_fit(epochs, checkpoint, every, resume)
        if resume and checkpoint is not None and os.path.exists(checkpoint):
            self.load(checkpoint)
        elif self.epoch >= epochs:
            warnings.warn(
                f"nothing to do: {self.epoch} epochs are done, and `epochs` asks for {epochs} in all",
                NetgradWarning,
                stacklevel=2,
            )
        inputs = self.training_step.batch_inputs
        batches = as_batches(
            data, inputs, batch_size, seed=self.seed if shuffle else None, drop_last=drop_last
        )
        held_out = None if validation is None else as_batches(validation, inputs, batch_size)
        rate = learning_rate if callable(learning_rate) else None
        if rate is None and learning_rate is not None:
            rate = constant(float(learning_rate))  # type: ignore[arg-type]
        listeners = list(callbacks)
        report = reporter(progress)

        def after_step(values: Mapping[str, float]) -> None:
            report.batch(self.batch, self._means())
            for listener in listeners:
                listener.after_step(self, values)
            if every is not None and checkpoint is not None and self.steps % every == 0:
                self.save(checkpoint)

        try:
            while self.epoch < epochs:
                started = time.perf_counter()
                report.begin(self.epoch + 1, epochs, self.batch, batches.count)
                self._train(batches, rate, after_step)
                record = self._end_epoch(started, held_out)
                report.end(record)
                stop = [listener.after_epoch(self, record) for listener in listeners]
                if checkpoint is not None:
                    self.save(checkpoint)
                if any(stop):
                    break
        finally:
            report.close()
        return list(self.history)

    def evaluate(self, data: Data, *, batch_size: int = 32) -> dict[str, float]:
        """Loss and metrics on data, in inference form and without training.

        Args:
            data: As for `fit`.
            batch_size: Samples per batch, where the data is arrays.

        Returns:
            ``"loss"`` and each metric: means over the batches, weighted by their numbers of samples (for a
            loss that is a sum, too).

        Raises:
            InvalidArgumentError: Data that doesn't fit.
            RuntimeFailureError: ONNX Runtime failed.
        """
        return self._evaluate(as_batches(data, self.training_step.batch_inputs, batch_size))

    # ---- parameters ---------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Array]:
        """Copies of the trained parameters and the carried tensors, by their names in the model."""
        step = self.training_step
        return {name: self._workspace.get(name) for name in (*step.parameters, *step.carried)}

    def export(
        self, path: str | os.PathLike[str] | None = None, *, model: ModelSource | None = None
    ) -> ir.Model:
        """The trained model for inference: the graph that was given, with the trained weights.

        BatchNormalization and Dropout that were given in training mode are put into inference mode.
        Weights inside of model-local functions, which may be called more than once, are exported in the
        prepared form of the model.

        Args:
            path: A file to write it to, whole or not at all.
            model: The model that the step was made from: needed if the step was loaded from a file.

        Raises:
            InvalidArgumentError: The step was loaded from a file and no model was given.
            InvalidModelError: The given model does not have the weights.
            NetgradError: The file cannot be written.
        """
        step = self.training_step
        original = step.original if model is None else load(model)
        if original is None:
            raise InvalidArgumentError(
                "the training step was loaded from a file, which does not hold the model it was made from",
                hint="give that model: export(path, model=...)",
            )
        trained = with_weights(original, step.prepared if model is None else None, self.parameters())
        if path is not None:
            save(trained, path)
        return trained

    # ---- checkpoints --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that `load` needs to go on exactly here, whole or not at all.

        The file is in the safetensors format: parameters, optimizer state, carried tensors and counters by
        the names of the step's inputs; seed, position in the data and history as metadata.

        Raises:
            NetgradError: The file cannot be written.
        """
        facts = {
            "optimizer": self.training_step.optimizer,
            "learning_rate": self._rate,
            "seed": self.seed,
            "epoch": self.epoch,
            "batch": self.batch,
            "samples": self._samples,
            "sums": self._sums,
            "history": [asdict(record) for record in self.history],
        }
        checkpoints.write(checkpoints.Checkpoint(self._workspace.state(), facts), path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on where a trainer of the same step was when it was saved; its seed is taken over.

        Raises:
            InvalidModelError: The file cannot be read, is damaged, or no checkpoint.
            InvalidArgumentError: The checkpoint belongs to another training step; the trainer is unchanged.
        """
        found = checkpoints.read(path)
        current = self._workspace.state()
        problems = checkpoints.differences(found.tensors, current)
        optimizer = found.facts.get("optimizer")
        if optimizer != self.training_step.optimizer:
            problems.insert(0, f"its optimizer is {optimizer}, the step's is {self.training_step.optimizer}")
        if problems:
            more = [f"and {len(problems) - 6} more differences"] if len(problems) > 6 else []
            raise InvalidArgumentError(
                "\n  ".join([f"the checkpoint '{path}' belongs to another step:", *problems[:6], *more])
            )
        facts = found.facts
        history = [EpochRecord(**record) for record in facts["history"]]
        for name, array in found.tensors.items():
            self._workspace.set(name, array)
        self._rate, self.seed = float(facts["learning_rate"]), int(facts["seed"])
        self.epoch, self.batch = int(facts["epoch"]), int(facts["batch"])
        self._samples, self._sums = int(facts["samples"]), dict(facts["sums"])
        self.history = history

    # ---- inside -------------------------------------------------------------------------------------------

    def _check_fit(
        self, epochs: int, checkpoint: str | os.PathLike[str] | None, every: int | None, resume: bool
    ) -> None:
        if epochs < 1:
            raise InvalidArgumentError(f"`epochs` is {epochs}; it is at least 1")
        if checkpoint is None and (every is not None or resume):
            raise InvalidArgumentError("`every` and `resume` need a `checkpoint` file")
        if every is not None and every < 1:
            raise InvalidArgumentError(f"`every` is {every}; it is at least 1")

    def _train(
        self, batches: Batches, rate: Schedule | None, after_step: Callable[[Mapping[str, float]], None]
    ) -> None:
        """Go through what is left of the epoch under way."""
        for batch in batches.epoch(self.epoch, self.batch):
            values = self.step(batch, learning_rate=None if rate is None else rate(self.steps))
            self._count(batch, values)
            if not math.isfinite(values["loss"]) and not self._diverged:
                self._diverged = True
                warnings.warn(
                    f"the loss is {values['loss']} at step {self.steps}: training has diverged (a lower "
                    "learning rate or clipping may help), or the data holds such numbers",
                    NetgradWarning,
                    stacklevel=3,
                )
            after_step(values)

    def _count(self, batch: Mapping[str, Any], values: Mapping[str, float]) -> None:
        """Note a batch that is done."""
        samples = samples_in(batch)
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * samples
        self._samples += samples
        self.batch += 1

    def _means(self) -> dict[str, float]:
        return {name: total / max(self._samples, 1) for name, total in self._sums.items()}

    def _end_epoch(self, started: float, held_out: Batches | None) -> EpochRecord:
        """Note an epoch that is done."""
        validation = None if held_out is None else self._evaluate(held_out)
        record = EpochRecord(
            epoch=self.epoch + 1,
            step=self.steps,
            samples=self._samples,
            seconds=time.perf_counter() - started,
            learning_rate=self._rate,
            training=self._means(),
            validation=validation,
        )
        self.history.append(record)
        self.epoch += 1
        self.batch, self._samples, self._sums = 0, 0, {}
        return record

    def _evaluate(self, batches: Batches) -> dict[str, float]:
        step = self.training_step
        if self._evaluation is None:
            model = step.evaluation()
            kept = [value.name or "" for value in model.graph.inputs if value.name not in step.batch_inputs]
            session = Session(model, promote=kept, **self._options)
            state = self._workspace.state()
            self._evaluation = Workspace(session, {name: state[name] for name in kept}, {})
        else:
            for name in self._evaluation.state():
                self._evaluation.set(name, self._workspace.get(name))
        sums: dict[str, float] = {}
        samples = 0
        for batch in batches.epoch(0):
            results = self._evaluation.run(batch, [step.loss, *step.metrics.values()])
            size = samples_in(batch)
            for name, value in _figures(step, results).items():
                sums[name] = sums.get(name, 0.0) + value * size
            samples += size
        if not samples:
            raise InvalidArgumentError("the data to evaluate has no samples")
        return {name: total / samples for name, total in sums.items()}


def _figures(step: TrainingStep, results: Mapping[str, Array]) -> dict[str, float]:
    """Loss and metrics as numbers."""
    values = {"loss": math.fsum(np.asarray(results[step.loss], np.float64).ravel())}
    for name, output in step.metrics.items():
        values[name] = float(np.asarray(results[output], np.float64).mean())
    return values
