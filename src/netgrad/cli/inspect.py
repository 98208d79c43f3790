"""`netgrad inspect`: what is differentiable in a model, and what its gradient costs."""

from __future__ import annotations

from netgrad.cli.console import print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.options import (
    JsonOption,
    ModelArgument,
    OfOption,
    StopOption,
    StraightThroughOption,
    WrtOption,
    chosen,
    names,
    read_model,
)


@verb
def inspect(
    model: ModelArgument,
    wrt: WrtOption = None,
    of: OfOption = None,
    stop: StopOption = None,
    straight_through: StraightThroughOption = None,
    json: JsonOption = False,
) -> ExitStatus:
    """Show which operators have a gradient, where gradients accumulate, the parameters and the cost.

    An example:
    netgrad inspect model.onnx --json
    """
    from netgrad.transforms.inspect import inspect as inspect_model

    choices = chosen(stop, straight_through)
    report = inspect_model(read_model(model), wrt=names(wrt), of=names(of), **choices)
    if json:
        print_json({"version": 1, **report.to_dict()})
    else:
        print(report)
    return ExitStatus.DONE
