"""The table of `make corpus`: every model, as it is shipped, with the proof of its gradients.

    python -m tests.corpus [--only silero,resnet50] [--fetch]

At the end a model of more than 2 GB is made, differentiated and run, and its memory measured. The exit status
is 1 if any model is missing or wrong.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from netgrad.core.errors import NetgradError, NetgradWarning
from tests.corpus import large
from tests.corpus.inputs import Feeds, inputs_of
from tests.corpus.packages import PACKAGED, FetchError, fetch
from tests.corpus.proof import Proof, prove
from tests.onnx.zoo import ZOO, zoo_input, zoo_model, zoo_path

REFUSED = {"k_neighbors_validity": "TreeEnsembleClassifier"}
"""Models that cannot be differentiated, and the operator that the refusal has to name."""

_HEADER = (
    f"{'':28} {'':>5} {'nodes':>23} {'':>6} {'by inputs':>20} {'by weights':>20} {'':>7}\n"
    f"{'model':28} {'opset':>5} {'shipped':>7} {'prepared':>8} {'grad':>6} {'ratio':>6} "
    f"{'relative error':>20} {'relative error':>20} {'seconds':>7}"
)


def _all_proofs(only: list[str]) -> Iterator[tuple[str, Proof | str]]:
    """Each model with its proof, or with what went wrong."""
    for name in ZOO:
        if _wanted(name, only):
            weights = _zoo_weights(name)
            # One group of all weights: a forward pass of these takes seconds.
            yield name, _proof(name, zoo_path(name), [zoo_input(name)], weights, group=len(weights))
    for model in PACKAGED:
        if _wanted(model.name, only):
            if model.path.is_file():
                yield model.name, _proof(model.name, model.path, inputs_of(model.name))
            else:
                yield model.name, "it is not in the cache"


def _wanted(name: str, only: list[str]) -> bool:
    return not only or any(part in name for part in only)


def _zoo_weights(name: str) -> Feeds:
    """Random values for all floating-point tensors: those in the file are all alike."""
    found = {}
    for key, value in zoo_model(name).graph.initializers.items():
        if value.const_value is not None and value.const_value.dtype.is_floating_point():
            found[key] = value.const_value.numpy()
    return found


def _proof(
    name: str, path: Path, points: list[Feeds], parameters: Feeds | None = None, group: int = 16
) -> Proof | str:
    try:
        return prove(name, path, points, parameters, group=group)
    except NetgradError as error:
        message = " ".join(str(error).split())
        if name in REFUSED and REFUSED[name] in message:
            return Proof(name, 0, 0, refused=message)
        return message


def _row(proof: Proof) -> str:
    def part(found: tuple[int, float] | None) -> str:
        return "-" if found is None else f"{found[0]} ok {found[1]:.1e}"

    return (
        f"{proof.name:28} {proof.opset:5} {proof.shipped:7} {proof.prepared:8} {proof.gradient:6} "
        f"{proof.gradient / proof.shipped:6.2f} {part(proof.inputs):>20} {part(proof.weights):>20} "
        f"{proof.seconds:7.1f}"
    )


def main() -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="comma separated parts of names; default: all models")
    parser.add_argument("--fetch", action="store_true", help="only download and check the packages")
    given = parser.parse_args()
    warnings.simplefilter("ignore", NetgradWarning)
    try:
        fetch()
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.fetch:
        return 0
    print(_HEADER, flush=True)
    wrong: list[str] = []
    count = 0
    for name, proof in _all_proofs([part for part in given.only.split(",") if part]):
        count += 1
        if isinstance(proof, str):
            print(f"{name:28} FAILED: {proof[:400]}", flush=True)
            wrong.append(name)
        elif proof.refused:
            print(f"{name:28} refused, as it should be: {proof.refused[:150]}", flush=True)
        elif name in REFUSED:
            print(f"{name:28} FAILED: it is not refused", flush=True)
            wrong.append(name)
        else:
            print(_row(proof), flush=True)
            if proof.still:
                print(f"{'':28} zero: {', '.join(proof.still)}", flush=True)
            for problem in proof.problems:
                print(f"{'':28} WRONG: {problem}", flush=True)
            if proof.problems:
                wrong.append(name)
    if not given.only:
        count += 1
        if large.main():
            wrong.append("the model of more than 2 GB")
    print(f"{count - len(wrong)} of {count} models are right")
    if wrong:
        print(f"not right: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
