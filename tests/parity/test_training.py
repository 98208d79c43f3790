"""Training steps against PyTorch's: the same network, weights, batches and optimizer, 20 steps.

Two float32 programs that compute the same do not give the same bits, and differences grow from step to step.
What rounding is worth is therefore measured: PyTorch runs the training in float64, too, and netgrad's
distance from that has to be of the size of PyTorch's own distance in float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.train import losses
from netgrad.train.loop import Trainer
from netgrad.train.optimizers import Optimizer, adam, sgd
from netgrad.train.step import training_step
from tests.parity.nets import Pair, perceptron, residual, transformer

torch = pytest.importorskip("torch", reason="parity with PyTorch needs torch (make parity)")

STEPS = 20
Array = np.ndarray

OPTIMIZERS: dict[str, tuple[Callable[[], Optimizer], Callable[[Any], Any]]] = {
    "sgd": (
        lambda: sgd(0.05, momentum=0.9, weight_decay=1e-3),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3),
    ),
    "nesterov": (
        lambda: sgd(0.02, momentum=0.8, nesterov=True),
        lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.8, nesterov=True),
    ),
    "adam": (
        lambda: adam(0.003, weight_decay=1e-3),
        lambda parameters: torch.optim.Adam(parameters, lr=0.003, weight_decay=1e-3),
    ),
    # the residual network has gradients of rounding's size, which Adam's default epsilon scales up to whole
    # steps: PyTorch itself ends 13 % apart in float32 and float64
    "adam with a large epsilon": (
        lambda: adam(0.01, epsilon=1e-3),
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, eps=1e-3),
    ),
}

RUNS = [
    *[(perceptron, optimizer) for optimizer in ("sgd", "nesterov", "adam")],
    *[(residual, optimizer) for optimizer in ("sgd", "nesterov", "adam with a large epsilon")],
    *[(transformer, optimizer) for optimizer in ("sgd", "nesterov", "adam")],
]


def by_torch(pair: Pair, make: Callable[[Any], Any], dtype: Any) -> tuple[list[float], dict[str, Array]]:
    """Losses and final parameters of PyTorch, under the names of the ONNX model."""
    module = copy.deepcopy(pair.module).to(dtype).train()
    optimizer = make(module.parameters())
    seen = []
    for x, labels in pair.batches:
        given = torch.from_numpy(x)
        scores = module(given.to(dtype) if given.is_floating_point() else given)
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(float(loss.detach()))
    final: dict[str, Array] = {}
    state = module.state_dict()
    for key, names in pair.names.items():
        for name, part in zip(names, np.split(state[key].numpy(), len(names)), strict=True):
            if name is not None:
                final[name] = part
    return seen, final


def by_netgrad(pair: Pair, optimizer: Optimizer) -> tuple[list[float], dict[str, Array]]:
    names = [name for parts in pair.names.values() for name in parts if name and "running" not in name]
    step = training_step(
        pair.model,
        loss=losses.cross_entropy("scores"),
        optimizer=optimizer,
        trainable=names,
        mode="train",
    )
    trainer = Trainer(step, threads=1)
    seen = [trainer.step({pair.input: x, "labels": labels})["loss"] for x, labels in pair.batches]
    return seen, trainer.parameters()


def distance(one: Array, other: Array) -> float:
    """Euclidean norm of the difference relative to that of ``other``."""
    difference = np.linalg.norm((one.astype(np.float64) - other.astype(np.float64)).ravel())
    return float(difference / max(np.linalg.norm(other.astype(np.float64).ravel()), 1e-30))


@pytest.mark.parametrize(
    ("network", "optimizer"), RUNS, ids=[f"{network.__name__}-{optimizer}" for network, optimizer in RUNS]
)
def test_twenty_steps_agree(
    network: Callable[[int], Pair], optimizer: str, record_property: Callable[[str, object], None]
) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    pair = network(STEPS)
    ours, theirs = OPTIMIZERS[optimizer]
    exact_losses, exact = by_torch(pair, theirs, torch.float64)
    single_losses, single = by_torch(pair, theirs, torch.float32)
    our_losses, our = by_netgrad(pair, ours())
    assert set(our) == set(single)
    trained = {name for name in our if "running" not in name}
    worst = max(distance(our[name], single[name]) for name in trained)
    losses_apart = np.abs(np.subtract(our_losses, single_losses)) / np.abs(single_losses)
    record_property("largest relative difference of a parameter", worst)
    record_property("largest relative difference of a loss", float(losses_apart.max()))
    print(
        f"{network.__name__} {optimizer}: parameters {worst:.1e}, losses {losses_apart.max():.1e}, "
        f"from float64: netgrad {max(distance(our[name], exact[name]) for name in trained):.1e}, "
        f"PyTorch {max(distance(single[name], exact[name]) for name in trained):.1e}"
    )
    assert our_losses[0] == pytest.approx(exact_losses[0], rel=1e-6)
    rounding = max(distance(single[name], exact[name]) for name in trained)
    for name in trained:
        assert distance(our[name], exact[name]) <= 4 * rounding + 1e-6, name
    apart = np.abs(np.subtract(our_losses, exact_losses)).max()
    assert apart <= 4 * np.abs(np.subtract(single_losses, exact_losses)).max() + 1e-6


def test_running_statistics_agree() -> None:
    """ONNX carries the variance of the batch on, PyTorch the unbiased one: n / (n - 1) of it."""
    torch.manual_seed(0)
    pair = residual(1)
    ours, theirs = OPTIMIZERS["sgd"]
    want = by_torch(pair, theirs, torch.float64)[1]
    got = by_netgrad(pair, ours())[1]
    sizes = {"1": 8 * 12 * 16, "4": 8 * 6 * 8, "5": 8 * 3 * 4}
    seen = 0
    for name in (each for each in got if "running" in each):
        value = got[name].astype(np.float64)
        if name.endswith("running_var"):
            n = sizes[name.split(".")[0]]
            value = 0.9 + (value - 0.9) * n / (n - 1)  # both begin with ones, of which 0.9 stays
        np.testing.assert_allclose(value, want[name], rtol=2e-5, atol=2e-6, err_msg=name)
        seen += 1
    assert seen == 10
