"""`netgrad train`: train a model on data from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import InitOption, ShapeOption, TypeOption, is_net, read_any
from netgrad.cli.options import (
    JsonOption,
    ModelArgument,
    QuietOption,
    StopOption,
    StraightThroughOption,
    chosen,
    default_output,
    names,
    read_archive,
)
from netgrad.core.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    import numpy as np

    from netgrad.train.losses import Loss
    from netgrad.train.optimizers import Optimizer

_LOSSES = ("cross-entropy", "soft-cross-entropy", "mean-squared-error", "binary-cross-entropy")
_OPTIMIZERS = ("sgd", "adam", "adamw")


@verb
def train(
    model: ModelArgument,
    data: Annotated[
        str,
        typer.Option(
            "--data",
            metavar="FILE.npz",
            help="Arrays named as the model's inputs, and the labels or targets; first axis: samples.",
            show_default=False,
        ),
    ],
    loss: Annotated[
        str,
        typer.Option(
            help="cross-entropy, soft-cross-entropy, mean-squared-error, binary-cross-entropy, or an output "
            "of the model."
        ),
    ] = "cross-entropy",
    of: Annotated[
        str | None,
        typer.Option("--of", help="The output that the loss is computed from. Default: the only one."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Name of the labels or targets in the data. Default: labels, or targets."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="Where to write the trained model. Default: MODEL_trained.onnx."),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option("--validation", metavar="FILE.npz", help="Data to evaluate after each epoch."),
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, adam or adamw.")] = "adam",
    learning_rate: Annotated[float, typer.Option("--learning-rate", "--lr", help="Learning rate.")] = 1e-3,
    momentum: Annotated[float, typer.Option(help="Momentum of sgd.")] = 0.0,
    nesterov: Annotated[
        bool, typer.Option("--nesterov/--no-nesterov", help="Nesterov's momentum for sgd.")
    ] = False,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay. Default: 0; for adamw 0.01.", show_default=False)
    ] = None,
    epochs: Annotated[int, typer.Option(help="How often to go through the data.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Samples per step.")] = 32,
    trainable: Annotated[
        list[str] | None,
        typer.Option(
            "--trainable",
            metavar="NAMES",
            help="Initializers to train, or patterns such as head.*: comma separated, or repeated. "
            "Default: every weight.",
            show_default=False,
        ),
    ] = None,
    training_mode: Annotated[
        bool,
        typer.Option(
            "--training-mode/--as-is",
            help="Put BatchNormalization and Dropout into training mode, or leave them in the model's.",
        ),
    ] = False,
    stop: StopOption = None,
    straight_through: StraightThroughOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of the data and of dropout.")] = 0,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Save to this file after each epoch, and continue from it if it exists."),
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="Save the checkpoint after each so many steps, too.")
    ] = None,
    step_model: Annotated[
        str | None,
        typer.Option(
            "--step-model", metavar="FILE", help="Write the training step here, as an ONNX model of its own."
        ),
    ] = None,
    init: InitOption = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Train a model on the arrays of a .npz file, and write the trained model.

    Stopped and started again with the same --checkpoint, it ends with the same weights to the last bit.

    An example:

    netgrad train model.onnx --data digits.npz --loss cross-entropy --epochs 20 --checkpoint run.safetensors
    """
    from netgrad.train.loop import Trainer
    from netgrad.train.step import training_step

    arrays = read_archive(data)
    held_out = read_archive(validation) if validation is not None else None
    step = training_step(
        read_any(model, init, shape, dtype, arrays=arrays, samples=True, of=None if of is None else [of]),
        loss=_loss(loss, of, labels),
        optimizer=_optimizer(optimizer, learning_rate, momentum, nesterov, weight_decay),
        trainable=names(trainable),
        metrics=["accuracy"] if loss in _LOSSES[:2] else [],
        mode="train" if training_mode else "as-is",
        **chosen(stop, straight_through),
    )
    if step_model is not None:
        step.save(step_model)
        note(f"training step written to {step_model}", quiet=quiet)
    trainer = Trainer(step, seed=seed)
    history = trainer.fit(
        _fed(arrays, step.batch_inputs, data),
        epochs=epochs,
        batch_size=batch_size,
        validation=None if held_out is None else _fed(held_out, step.batch_inputs, validation or ""),
        checkpoint=checkpoint,
        every=every,
        resume=checkpoint is not None,
        progress=False if quiet or json else None,
    )
    target = output or default_output(model, "_trained", ".onnx" if is_net(model, init) else None)
    trainer.export(target)
    last = history[-1]
    if json:
        print_json(
            {
                "version": 1,
                "file": target,
                "steps": trainer.steps,
                "epochs": [
                    {
                        "epoch": record.epoch,
                        "seconds": round(record.seconds, 3),
                        "training": dict(record.training),
                        "validation": None if record.validation is None else dict(record.validation),
                    }
                    for record in history
                ],
            }
        )
        return ExitStatus.DONE
    note(f"{len(step.parameters)} tensors trained in {trainer.steps} steps", quiet=quiet)
    figures = last.validation if last.validation is not None else last.training
    told = "  ".join(f"{name} {value:.4g}" for name, value in figures.items())
    note(f"{'validation' if last.validation is not None else 'training'}: {told}", quiet=quiet)
    note(f"written to {target}", quiet=quiet)
    note(f"next: netgrad run {target} --input ...", quiet=quiet)
    return ExitStatus.DONE


def _loss(loss: str, of: str | None, labels: str | None) -> str | Loss:
    """The loss that the options describe."""
    from netgrad.train import losses

    if loss not in _LOSSES:
        if of is not None or labels is not None:
            hint = nearest(loss, _LOSSES) or f"; the losses are {', '.join(_LOSSES)}"
            raise InvalidArgumentError(
                f"--loss {loss} is an output of the model, which --of and --labels do not go with{hint}"
            )
        return loss
    if loss == "mean-squared-error":
        return losses.mean_squared_error(of, labels or "targets")
    if loss == "binary-cross-entropy":
        return losses.binary_cross_entropy_on_scores(of, labels or "labels")
    return losses.cross_entropy(of, labels or "labels", soft=loss == "soft-cross-entropy")


def _optimizer(
    name: str, rate: float, momentum: float, nesterov: bool, weight_decay: float | None
) -> Optimizer:
    """The optimizer that the options describe."""
    from netgrad.train import optimizers

    if name not in _OPTIMIZERS:
        raise InvalidArgumentError(
            f"--optimizer is '{name}'{nearest(name, _OPTIMIZERS)}; it can be {', '.join(_OPTIMIZERS)}"
        )
    if name == "sgd":
        return optimizers.sgd(rate, momentum, nesterov, weight_decay or 0.0)
    if momentum or nesterov:
        raise InvalidArgumentError(f"--momentum and --nesterov belong to --optimizer sgd, not to {name}")
    make = optimizers.adam if name == "adam" else optimizers.adamw
    return make(rate, weight_decay=weight_decay)


def _fed(
    arrays: dict[str, np.ndarray[Any, Any]], inputs: tuple[str, ...], file: str
) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that the training step takes; others in the file do not matter."""
    missing = [name for name in inputs if name not in arrays]
    if missing:
        raise InvalidArgumentError(
            f"'{file}' has no array '{missing[0]}'{nearest(missing[0], arrays)}",
            hint=f"the step takes {', '.join(inputs)}; the file has {', '.join(arrays) or 'nothing'}",
        )
    return {name: arrays[name] for name in inputs}
