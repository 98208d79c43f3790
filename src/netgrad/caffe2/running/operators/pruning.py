"""The gradient of a layer that loses its weights while it is trained."""

from __future__ import annotations

import math

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_STEPS = 100  # from one time that weights are pruned to the next


@runs("FCGradient_Prune")
def _pruning_gradient(call: Call) -> None:
    """The gradients of W, b and X, and every hundredth run the weights that go.

    It reads X (M, K), W (N, K), the mask of W, dY, the gradients of W added up, a list of places, a threshold
    and a share; it writes dW, db, then W, the mask, the sum and the list in place, and dX if wanted. dW is
    zero where the mask is. As long as more than the share of the mask is left, it is added to the sum; but
    each hundredth time, those weights whose sum is not zero and below the threshold become zero, as do their
    dW and mask. Their places, counted through W, go to the front of the list, and the sum starts again.
    """
    read, written = call.definition.input, call.definition.output
    if list(written[2:6]) != [read[at] for at in (1, 2, 4, 5)]:
        raise call.error(
            "it prunes in place, so that its outputs 2 to 5 have to be its inputs 1, 2, 4 and 5; a backward "
            "pass that keeps what it reads gives them new names. Write the operator into the net, or use FC"
        )
    x, dy = call.array(0), call.array(3)
    w, mask, total, places = (call.array(at).copy() for at in (1, 2, 4, 5))
    if x.ndim < 1 or dy.ndim not in (1, 2) or w.ndim < 2 or not mask.shape == total.shape == w.shape:
        raise call.error("it needs samples, and weights whose mask and sum of gradients have their shape")
    if x.ndim == 1:
        x_rows, dy_rows = x[None], dy.reshape(1, -1)
    else:
        x_rows, dy_rows = x.reshape(len(x), -1), dy
    if (len(x_rows), len(w)) != dy_rows.shape or x_rows.shape[1] != math.prod(w.shape[1:]):
        raise call.error(
            f"X of shape {list(x.shape)} and W of {list(w.shape)} give no Y like dY: {list(dy.shape)}"
        )
    dw = (dy_rows.T @ x_rows).reshape(w.shape)
    dw[mask == 0] = 0
    if mask.mean() > call.scalar(7):
        runs_so_far = call.memory["runs"] = call.memory.get("runs", 0) + 1
        if runs_so_far % _STEPS:
            total += dw
        else:
            chosen = (total != 0) & (np.abs(total) < call.array(6).reshape(-1)[0])
            found = np.flatnonzero(chosen)
            places = np.zeros_like(w)
            places.reshape(-1)[: len(found)] = found
            for array in (dw, w, mask):
                array[chosen] = 0
            total[...] = 0
    for at, value in enumerate((dw, dy_rows.sum(0), w, mask, total, places)):
        call.write(at, value)
    if len(written) > 6:
        call.write(6, (dy_rows @ w.reshape(len(w), -1)).reshape(x.shape))
