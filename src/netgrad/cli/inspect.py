"""`netgrad inspect`: what is differentiable in a model, and what its gradient costs."""

from __future__ import annotations

from typing import Any

from netgrad.cli.console import print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import InitOption, ShapeOption, TypeOption, is_net, read_any, read_net
from netgrad.cli.options import (
    JsonOption,
    ModelArgument,
    OfOption,
    StopOption,
    StraightThroughOption,
    WrtOption,
    chosen,
    names,
)
from netgrad.core.errors import InvalidArgumentError


@verb
def inspect(
    model: ModelArgument,
    wrt: WrtOption = None,
    of: OfOption = None,
    stop: StopOption = None,
    straight_through: StraightThroughOption = None,
    init: InitOption = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
    json: JsonOption = False,
) -> ExitStatus:
    """Show which operators have a gradient, where gradients accumulate, the parameters and the cost.

    A Caffe2 net is shown in Caffe2's terms; with --shape, as the ONNX model that it is converted to.
    An example:
    netgrad inspect model.onnx --json
    """
    choices = chosen(stop, straight_through)
    report: Any
    if is_net(model, init) and not shape:
        if any(choices.values()):
            raise InvalidArgumentError(
                "--stop and --straight-through are for ONNX models",
                hint="give the shape of each input (--shape), to inspect the net as an ONNX model",
            )
        from netgrad.transforms.inspect_net import inspect_net

        report = inspect_net(read_net(model, init), wrt=names(wrt), of=names(of))
    else:
        from netgrad.transforms.inspect import inspect as inspect_model

        loaded = read_any(model, init, shape, dtype, of=names(of))
        report = inspect_model(loaded, wrt=names(wrt), of=names(of), **choices)
    if json:
        print_json({"version": 1, **report.to_dict()})
    else:
        print(report)
    return ExitStatus.DONE
