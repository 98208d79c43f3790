"""Gradient rule of AffineGrid, which itself gives the positions that it transforms."""

from __future__ import annotations

import numpy as np

from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule


@rule("AffineGrid", attributes=("align_corners",), not_differentiable=(1,))
def affine_grid(op: RuleContext, dy: Value) -> tuple[Value, None]:
    """Y[n, .., i] = sum over j of theta[n, i, j] p[.., j] with p = (position, 1); dtheta = sum of dY p.

    theta is (N, d, d + 1) and Y (N, D.., d) with d = 2 or 3 spatial axes. The positions are what the same
    operator makes of the identity map.

    Source: https://onnx.ai/onnx/operators/onnx__AffineGrid.html.
    """
    build, theta = op.builder, op.required(0)
    d = op.rank(op.output) - 2
    identity = build.expand_like(build.constant(np.eye(d, d + 1)[None], op.floating(theta)), theta)
    positions = op.emit("AffineGrid", identity, op.required(1), align_corners=op.attribute("align_corners"))
    flat = build.op("Reshape", positions, build.ints([0, -1, d]))
    seeds = build.op("Reshape", dy, build.ints([0, -1, d]))
    linear = build.transpose(seeds, [0, 2, 1]) @ flat
    offset = build.unsqueeze(build.reduce_sum(seeds, [1]), [2])
    return build.assume_shape(build.concat([linear, offset], axis=2), theta.shape), None
