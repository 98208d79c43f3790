"""`netgrad demo`: the main job on real data, from an untrained model to its artifacts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from netgrad.cli.console import note, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.options import QuietOption

HELD_OUT = 0.2  # share of the digits that the model does not see while it is trained
WANTED_ACCURACY = 0.97
EPOCHS = 14
BATCH_SIZE = 32
LEARNING_RATE = 3e-3


@verb
def demo(
    output: Annotated[
        str, typer.Option("-o", "--output", help="Folder for what the demo makes.")
    ] = "demo-output",
    seed: Annotated[int, typer.Option(help="Seed of the weights, the split and the order of the data.")] = 0,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Differentiate a small convolutional model, check its gradient, train it to read handwritten digits.

    Exit status 1 if the gradient is wrong or the trained model reads fewer than 97 % of the held-out digits.

    An example:

    netgrad demo --output demo-output
    """
    import onnx

    import netgrad
    from netgrad.cli.demo_model import digits, untrained_model
    from netgrad.train import schedules
    from netgrad.train.plots import learning_curve
    from netgrad.transforms.grad import differentiate

    started = time.perf_counter()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    train, held_out = digits(HELD_OUT, seed)
    model = untrained_model(seed)

    print(f"1. The model: {len(model.graph.node)} operators, digits of 8 by 8 pixels in, 10 scores out")
    onnx.save(model, folder / "model.onnx")

    gradient = differentiate(model, wrt=["image"], cotangent="input")
    netgrad.save(gradient.model, folder / "model_grad.onnx")
    print(f"2. Its gradient: {sum(1 for _ in gradient.model.graph) - len(model.graph.node)} more operators")

    sample = {"image": train["image"][:3]}
    report = netgrad.check(model, sample)
    print(f"3. The gradient of every weight against central differences: {'right' if report.ok else 'WRONG'}")
    if not report.ok:
        print(report)

    print("4. Where gradients accumulate:")
    weights = differentiate(model)
    for accumulation in weights.backward.accumulations:
        readers = [weights.forward[c.operator] for c in accumulation.contributions if c.operator is not None]
        uses = ", ".join(f"{reader.type} '{reader.outputs[0]}'" for reader in readers)
        print(f"   {accumulation.blob}: {len(readers)} contributions, from {uses} ({accumulation.strategy})")

    step = netgrad.training_step(
        model,
        loss=netgrad.losses.cross_entropy("scores", "labels"),
        optimizer=netgrad.optimizers.adamw(LEARNING_RATE),
        metrics=["accuracy"],
    )
    step.save(folder / "training_step.onnx")
    print(f"5. Training on {len(train['labels'])} digits, {len(held_out['labels'])} held out", flush=True)
    trainer = netgrad.Trainer(step, seed=seed)
    steps = EPOCHS * -(-len(train["labels"]) // BATCH_SIZE)
    history = trainer.fit(
        train,
        epochs=EPOCHS,
        batch_size=BATCH_SIZE,
        validation=held_out,
        learning_rate=schedules.cosine(LEARNING_RATE, steps, final=LEARNING_RATE / 30),
        progress=False if quiet else None,
    )
    trainer.export(folder / "trained.onnx")
    learning_curve(history, folder / "learning_curve.png", title="Handwritten digits")

    scores = netgrad.run(folder / "trained.onnx", {"image": held_out["image"]})["scores"]
    read = int((scores.argmax(axis=1) == held_out["labels"]).sum())
    accuracy = read / len(held_out["labels"])
    print(f"6. The trained model reads {read} of {len(held_out['labels'])} held-out digits: {accuracy:.1%}")
    note(f"done in {time.perf_counter() - started:.0f} s", quiet=quiet)
    print(f"everything is in {folder}{os.sep}:")
    for path in sorted(folder.iterdir()):
        print(f"  {path.name}")
    return ExitStatus.DONE if report.ok and accuracy >= WANTED_ACCURACY else ExitStatus.ANSWER_IS_NO
