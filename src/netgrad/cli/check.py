"""`netgrad check`: hold a model's gradient against central differences."""

from __future__ import annotations

from netgrad.cli.console import print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import InitOption, ShapeOption, TypeOption, read_any
from netgrad.cli.options import (
    InputOption,
    JsonOption,
    ModelArgument,
    OfOption,
    WrtOption,
    names,
    read_arrays,
)


@verb
def check(
    model: ModelArgument,
    inputs: InputOption = None,
    wrt: WrtOption = None,
    of: OfOption = None,
    init: InitOption = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
    json: JsonOption = False,
) -> ExitStatus:
    """Check the gradient of a model against central differences; exit status 1 if they disagree.

    Inputs that are not given are drawn at random. An example:

    netgrad check model.onnx --wrt image --input image=photo.npy
    """
    from netgrad.transforms.check import check as check_model

    arrays = read_arrays(inputs)
    loaded = read_any(model, init, shape, dtype, arrays=arrays, of=names(of))
    report = check_model(loaded, arrays or None, wrt=names(wrt), of=names(of))
    if json:
        print_json({"version": 1, **report.to_dict()})
    else:
        print(report)
    return ExitStatus.DONE if report.ok else ExitStatus.ANSWER_IS_NO
