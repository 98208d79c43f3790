"""A uniform sample of the rows that have come by, each object once if wanted."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.running import packed
from netgrad.caffe2.running.blob import is_tensor, is_text, shape_of
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored import IntegerMap


@runs("ReservoirSampling")
def _reservoir_sampling(call: Call) -> None:
    """Keep ``num_to_collect`` rows, each of all that came by with the same probability.

    It reads the sample, how many rows came by, new rows, and a mutex; and, so that no object has two rows in
    the sample, the number of each new row's object, the map from object to place, and the object at each
    place. The sample and the number are outputs, and so are the map and the objects.
    """
    limit, rows = call.argument("num_to_collect", -1), call.array(2)
    if limit < 1 or rows.ndim < 1:
        raise call.error("it needs rows, and 'num_to_collect' of 1 at least")
    before: Any = call.blob(0).value
    is_there = (is_tensor(before) or is_text(before)) and not packed.is_empty(before)
    sample = list(call.array(0)) if is_there else []
    if sample and before is not None and shape_of(before)[1:] != rows.shape[1:]:
        raise call.error(
            f"rows of shape {list(rows.shape[1:])} don't fit a sample of {list(shape_of(before)[1:])}"
        )
    seen = int(call.scalar(1)) if sample else 0
    objects = _Objects(call, bool(sample)) if len(call.definition.input) > 4 else None
    if objects is not None and len(objects.new) != len(rows):
        raise call.error(f"{len(objects.new)} objects are given for {len(rows)} rows")
    for at, row in enumerate(rows):
        if objects is not None and objects.new[at] in objects.places:
            continue
        place = seen if seen < limit else int(call.random().integers(0, seen + 1))
        seen += 1
        if place < limit:
            sample[place : place + 1] = [row]
            if objects is not None:
                objects.put(objects.new[at], place)
    call.write(0, packed.rows_in_one(sample, rows))
    call.write(1, np.array([seen], np.int64))
    if objects is not None:
        objects.write(call)


class _Objects:
    """Which object has which place in the sample.

    Attributes:
        new: The object of each new row.
        places: The place of each object in the sample.
    """

    def __init__(self, call: Call, goes_on: bool) -> None:
        if len(call.definition.input) != 7 or len(call.definition.output) != 4:
            raise call.error("with objects it reads their map and their places, and writes both")
        known = call.value(5)
        if not isinstance(known, IntegerMap):
            raise call.error(f"input '{call.definition.input[5]}' is no map")
        self.new: list[int] = call.array(4).reshape(-1).tolist()
        self.places = dict(known.entries) if goes_on else {}
        self._at: dict[int, int] = {place: number for number, place in self.places.items()}
        self._map = known

    def put(self, number: int, place: int) -> None:
        """Give the place to an object; the one that had it has none any more."""
        self.places.pop(self._at.get(place, number), None)
        self.places[number] = place
        self._at[place] = number

    def write(self, call: Call) -> None:
        """Write the map and the object at each place."""
        call.put(2, IntegerMap(self._map.key_dtype, self._map.value_dtype, self.places))
        call.write(3, np.array([self._at[place] for place in sorted(self._at)], np.int64))
