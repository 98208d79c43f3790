"""Makers of operators that move or join elements without looking at them."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.makers.notation import Line, Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "Flatten": "ResizeLike(G0,I0)->(D0)",
        "FlattenToVec": "ResizeLike(G0,I0)->(D0)",
        "ExpandDims": "Squeeze(G0)->(D0)",
        "Squeeze": "ExpandDims(G0)->(D0)",
        "Expand": "ExpandGradient(G0,I0)->(D0)",
        "QuantDecode": "QuantDecodeGradient(I*,G*)->(D0)",
        "ReversePackedSegs": "ReversePackedSegs(G0,I1)->(D0)",
    }
)


@maker("Concat", "DepthConcat", partial=True, counts=(1,))
def _concat(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "" if grads[0] is None else "Split(G0,O1)->(D*)"


@maker("Split", "DepthSplit", "SplitByLengths")
def _split(op: Operator, grads: Sequence[Gradient | None]) -> str:
    """Pieces without a gradient count as zeros; the original left them out and lost the shape."""
    return "Concat(G*)->(D0,M0)"


@maker("Reshape", partial=True, counts=(1,))
def _reshape(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    return Line("Reshape(G0,O1)->(D0,M0)", copies_arguments=False)


@maker("PrependDim")
def _prepend_dim(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    return Line("MergeDim(G0)->(D0)", copies_arguments=False)


@maker("Transpose")
def _transpose(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    copied = [argument for argument in op.attributes.message.arg if argument.name != "axes"]  # type: ignore[attr-defined]
    if "axes" in op.attributes:
        axes = list(op.attributes["axes"])
        copied.append(make_argument("axes", [axes.index(at) for at in range(len(axes))]))
    return Line("Transpose(G0)->(D0)", copies_arguments=False, arguments=tuple(copied))


@maker("Slice")
def _slice(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "SliceGradient(I0,I1,I2,G0)->(D0)" if len(op.inputs) > 1 else "SliceGradient(I0,G0)->(D0)"


@maker("Tile")
def _tile(op: Operator, grads: Sequence[Gradient | None]) -> str:
    counts = "".join(f",I{at}" for at in range(1, len(op.inputs)))
    return f"TileGradient(G0{counts})->(D0)"


@maker("AddPadding", partial=True, counts=(1,))
def _add_padding(op: Operator, grads: Sequence[Gradient | None]) -> str:
    lengths = ",O1" if len(op.inputs) > 1 else ""
    text = f"RemovePadding(G0{lengths})->(D0)"
    if len(op.inputs) > 2:
        pads = "D2,D3" if len(op.inputs) > 3 else "D2"
        text += f"; GatherPadding(G0{lengths})->({pads})"
    return text


@maker("RemovePadding", partial=True, counts=(1,))
def _remove_padding(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "AddPadding(G0,O1)->(D0)" if len(op.inputs) > 1 else "AddPadding(G0)->(D0)"


@maker("SequenceMask")
def _sequence_mask(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return f"SequenceMask({'G0,I1' if len(op.inputs) > 1 else 'G0'})->(D0){{grad=1}}"


@maker("Cast")
def _cast(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    if "from_type" not in op.attributes:
        raise Refusal("Cast has a gradient only if the argument 'from_type' says what it casts from")
    back = (
        make_argument("to", op.attributes["from_type"]),
        make_argument("from_type", op.attributes["to"]),
    )
    return Line("Cast(G0)->(D0)", copies_arguments=False, arguments=back)
