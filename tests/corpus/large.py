"""A model of more than 2 GB passes through load, grad, save and run, without being held twice in memory.

    python -m tests.corpus.large [folder]

Nine matrices of 256 MiB, in a file of external data with holes: each has a small random block, and zeros
elsewhere, so that NumPy can compute the gradient from the blocks alone. Every stage is a process of its own,
whose peak of memory (the mapped file counts, too) is given as a multiple of the weights. Takes about 7 GB of
disk and a minute.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import netgrad

WIDTH, LAYERS, BLOCK = 8192, 9, 64
WEIGHTS = LAYERS * WIDTH * WIDTH * 4
"""Bytes of all weights."""

MOST = {"load, grad, save": 1.5, "run": 2.5}
"""The most memory that each stage may take, as a multiple of the weights.

A run holds the weights and the gradients by all of them, which are as large.
"""

STAGES = tuple(MOST)


def _blocks() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [0.2 * rng.standard_normal((BLOCK, BLOCK)).astype(np.float32) for _ in range(LAYERS)]


def _input() -> np.ndarray:
    x = np.zeros((1, WIDTH), np.float32)
    x[0, :BLOCK] = np.random.default_rng(1).standard_normal(BLOCK)
    return x


def write_model(folder: Path) -> None:
    """h0 = x, h(k+1) = Tanh(h(k) W(k)); the last h is the output."""
    nodes, tensors = [], []
    with (folder / "large.data").open("wb") as data:
        for k, block in enumerate(_blocks()):
            start = k * WIDTH * WIDTH * 4
            for row, numbers in enumerate(block):
                data.seek(start + row * WIDTH * 4)
                data.write(numbers.tobytes())
            nodes.append(helper.make_node("MatMul", [f"h{k}", f"w{k}"], [f"p{k}"], name=f"product{k}"))
            nodes.append(helper.make_node("Tanh", [f"p{k}"], [f"h{k + 1}"], name=f"tanh{k}"))
            tensor = TensorProto(
                name=f"w{k}", dims=(WIDTH, WIDTH), data_type=TensorProto.FLOAT, data_location=1
            )
            for key, value in {
                "location": "large.data",
                "offset": start,
                "length": WIDTH * WIDTH * 4,
            }.items():
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
        data.truncate(WEIGHTS)
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info(f"h{LAYERS}", TensorProto.FLOAT, ["n", WIDTH])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    (folder / "large.onnx").write_bytes(model.SerializeToString())


def differentiate(folder: Path) -> None:
    """Load, differentiate by all weights, save."""
    gradient = netgrad.grad(netgrad.load(folder / "large.onnx"))
    netgrad.save(gradient, folder / "gradient.onnx")


def run(folder: Path) -> None:
    """Run the saved gradient model and compare two gradients with NumPy's.

    Raises:
        AssertionError: They differ.
    """
    found = netgrad.run(folder / "gradient.onnx", {"h0": _input()}, ["w0_grad", "w1_grad"])
    blocks = [block.astype(np.float64) for block in _blocks()]
    states = [_input()[0, :BLOCK].astype(np.float64)]
    for block in blocks:
        states.append(np.tanh(states[-1] @ block))
    cotangent = np.ones(BLOCK)
    for k in reversed(range(LAYERS)):
        cotangent = cotangent * (1 - states[k + 1] ** 2)
        if k < 2:
            got = found.pop(f"w{k}_grad")
            want = np.outer(states[k], cotangent)
            np.testing.assert_allclose(got[:BLOCK, :BLOCK], want, rtol=1e-3, atol=1e-6 * np.abs(want).max())
            assert not got[BLOCK:].any(), "rows that no number of the input reaches have no gradient"
        cotangent = blocks[k] @ cotangent


def peak() -> int:
    """Bytes of memory that this process had at most, mapped files included."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage, this does not count what the parent process had
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(folder: Path) -> dict[str, float]:
    """Pass the model through all stages; the peak of memory of each, as a multiple of the weights.

    Raises:
        subprocess.CalledProcessError: A stage failed; its output says why.
    """
    write_model(folder)
    found = {}
    for stage in STAGES:
        command = [sys.executable, "-m", "tests.corpus.large", str(folder), stage]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[stage] = int(done.stdout) / WEIGHTS
    return found


def main(folder_for_files: str | None = None) -> int:
    """Pass the model through all stages and print what they took; returns the exit status."""
    with tempfile.TemporaryDirectory(dir=folder_for_files) as folder:
        found = measure(Path(folder))
    for stage, times in found.items():
        print(
            f"{WEIGHTS / 1e9:.1f} GB of weights, {stage}: {times:.2f} times as much memory, of {MOST[stage]}"
        )
    return 0 if all(times <= MOST[stage] for stage, times in found.items()) else 1


if __name__ == "__main__":
    if len(sys.argv) > 2:  # one stage, for `measure`
        {STAGES[0]: differentiate, STAGES[1]: run}[sys.argv[2]](Path(sys.argv[1]))
        print(peak())
        sys.exit(0)
    sys.exit(main(*sys.argv[1:]))
