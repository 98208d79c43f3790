"""Regions of detectors with feature pyramids: collected from all levels, and given out to them by size."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


def _collected(call: Call) -> Array:
    """The best regions of all levels: first the regions of each, then their scores."""
    count = call.argument("rpn_max_level", 6) - call.argument("rpn_min_level", 2) + 1
    inputs = len(call.definition.input)
    if inputs != 2 * count:
        raise call.error(
            f"it reads regions and scores of {count} levels (rpn_min_level to rpn_max_level), and has "
            f"{inputs} inputs"
        )
    regions = np.concatenate([call.array(at) for at in range(count)])
    scores = np.concatenate([call.array(count + at).reshape(-1) for at in range(count)])
    if regions.ndim != 2 or regions.shape[1] != 5 or len(scores) != len(regions):
        raise call.error(f"regions {list(regions.shape)} and scores {list(scores.shape)} don't fit")
    best = np.argsort(-scores, kind="stable")[: call.argument("rpn_post_nms_topN", 2000)]
    result: Array = regions[best]
    return result


def _distribute(call: Call, regions: Array, first: int) -> None:
    """Write the regions of each level, and where each region is among them all, from output ``first`` on.

    A region of the canonical size is of the canonical level, one of twice the size of the next (Lin et al.,
    Feature pyramid networks for object detection, equation 1).
    """
    lowest, plus = call.argument("roi_min_level", 2), call.argument("legacy_plus_one", 1)
    levels = call.argument("roi_max_level", 5) - lowest + 1
    if len(call.definition.output) != first + levels + 1:
        raise call.error(
            f"it writes the regions of {levels} levels (roi_min_level to roi_max_level) and an order, "
            f"and has {len(call.definition.output)} outputs"
        )
    scale, usual = call.argument("roi_canonical_scale", 224), call.argument("roi_canonical_level", 4)
    sizes = np.sqrt(np.prod(regions[:, 3:5] - regions[:, 1:3] + plus, axis=1))
    level = np.floor(usual + np.log2(sizes / scale + np.float32(1e-6)))
    level = np.clip(level, lowest, lowest + levels - 1)
    order = []
    for number in range(levels):
        own = np.flatnonzero(level == lowest + number)
        call.write(first + number, regions[own])
        order.append(own)
    call.write(first + levels, np.argsort(np.concatenate(order), kind="stable").astype(np.int32))


@runs("CollectRpnProposals")
def _collect(call: Call) -> None:
    call.write(0, _collected(call))


@runs("DistributeFpnProposals")
def _give_out(call: Call) -> None:
    regions = call.array(0)
    if regions.ndim != 2 or regions.shape[1] not in (4, 5):
        raise call.error(f"regions have 5 columns, or 4 without the number of the image, not {regions.shape}")
    if regions.shape[1] == 4:
        regions = np.concatenate([np.zeros((len(regions), 1), regions.dtype), regions], 1)
    _distribute(call, regions, 0)


@runs("CollectAndDistributeFpnRpnProposals")
def _collect_and_give_out(call: Call) -> None:
    regions = _collected(call)
    call.write(0, regions)
    _distribute(call, regions, 1)
