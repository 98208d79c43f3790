"""`netgrad grad` of a Caffe2 net, in Caffe2's operators."""

from __future__ import annotations

from netgrad.cli.console import note, print_json
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import read_net


def grad_net(
    model: str,
    init: str | None,
    target: str,
    wrt: list[str] | None,
    of: list[str] | None,
    cotangent: str,
    json: bool,
    quiet: bool,
) -> ExitStatus:
    """Write a Caffe2 net with its backward pass in Caffe2's operators."""
    from netgrad.caffe2 import gradient_net, save_net, save_predictor
    from netgrad.caffe2.gradient_net import names_of

    net = read_net(model, init)
    result = gradient_net(net, wrt=wrt, of=of, cotangent=cotangent)  # type: ignore[arg-type]  # checked
    for name in result.unreached:
        note(f"warning: '{name}' does not influence the target: its gradient is zeros")
    predictor = target.lower().endswith(".minidb")
    if predictor:
        save_predictor(result.model, target)
    else:
        save_net(result.model.predict_net, target)
    forward, total = len(net.predict_net.op), len(result.model.predict_net.op)
    outputs = {name: names_of(gradient) for name, gradient in result.outputs.items()}
    if json:
        print_json(
            {
                "version": 1,
                "file": target,
                "operators": {"forward": forward, "total": total},
                "gradients": {
                    name: blobs[0] if len(blobs) == 1 else {"indices": blobs[0], "values": blobs[1]}
                    for name, blobs in outputs.items()
                },
                "cotangents": dict(result.seeds),
                "unreached": list(result.unreached),
                "accumulations": len(result.backward.accumulations),
            }
        )
        return ExitStatus.DONE
    blobs = [blob for found in outputs.values() for blob in found]
    tell(forward, total - forward, blobs, quiet)
    note(f"written to {target}", quiet=quiet)
    note(f"its parameters are written by {init or model}", quiet=quiet or predictor)
    return ExitStatus.DONE


def tell(forward: int, added: int, outputs: list[str], quiet: bool) -> None:
    """Say how many operators there are, and what they give."""
    more = f" and {len(outputs) - 6} more" if len(outputs) > 6 else ""
    note(f"{forward} operators forward, {added} added for the gradient", quiet=quiet)
    note(f"new outputs: {', '.join(outputs[:6])}{more}", quiet=quiet)
