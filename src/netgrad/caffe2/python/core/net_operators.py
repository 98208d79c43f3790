"""Operators that a net adds in a way of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.core.gradient import GradientSlice
from netgrad.caffe2.python.core.python_operators import token_of


class NetOperators:
    """The part of a net that adds constants, functions of the script and composed operators."""

    def Const(self: Any, array: Any, blob_out: Any = None, dtype: Any = None) -> Any:
        """A fill with the given values.

        A scalar bool becomes a ``ConstantFill``; integers, texts and bools the fill of their type; everything
        else a fill of float32.
        """
        if isinstance(array, bool):
            return self.ConstantFill([], blob_out or 1, dtype=TensorProto.BOOL, value=array)
        values = np.array(array) if dtype is None else np.array(array, dtype=dtype)
        kinds = {"i4": "GivenTensorIntFill", "i8": "GivenTensorInt64Fill", "b1": "GivenTensorBoolFill"}
        fill = kinds.get(values.dtype.str[1:], "GivenTensorFill")
        if values.dtype.kind in "SUO":
            fill = "GivenTensorStringFill"
        listed = [value.item() if isinstance(value, np.generic) else value for value in values.flat]
        if fill == "GivenTensorFill":
            listed = [float(value) for value in listed]
        return getattr(self, fill)([], blob_out or 1, shape=list(values.shape), values=listed)

    def Python(
        self: Any,
        f: Any,
        grad_f: Any = None,
        python_func_type: Any = None,
        pass_workspace: bool = False,
        grad_output_indices: Sequence[int] | None = None,
        grad_input_indices: Sequence[int] | None = None,
    ) -> Callable[..., Any]:
        """A function that adds operators which call a function of the script.

        Args:
            f: The function, see `netgrad.caffe2.python.core.python_operators.token_of`.
            grad_f: What computes input gradients.
            python_func_type: A class with ``forward`` and ``backward`` in their place.
            pass_workspace: Whether they get the workspace behind their arguments.
            grad_output_indices: The outputs whose gradients ``grad_f`` gets; None for all.
            grad_input_indices: The inputs whose gradients it writes; None for all.

        Returns:
            A function of inputs and outputs like those of other operators.
        """
        token = token_of(f, grad_f, python_func_type, pass_workspace, per_operator=True)

        def add(*args: Any, **kwargs: Any) -> Any:
            own = {
                "token": token,
                "grad_output_indices": grad_output_indices,
                "grad_input_indices": grad_input_indices,
            }
            return self._create_and_add("Python", *args, **{**own, **kwargs})

        return add

    def LogInfo(self: Any, *msg_or_blobs: Any) -> None:
        """Print texts and blobs when the net runs."""
        for one in msg_or_blobs:
            blob = one
            if not isinstance(one, BlobReference):
                blob = self.GivenTensorStringFill([], self.NextName("log"), shape=[], values=[one])
            self.Print(blob, [])

    def DeduplicateGradientSlices(self: Any, g: GradientSlice, aggregator: str = "sum") -> GradientSlice:
        """Add operators that aggregate the rows of equal indices; returns a slice without repeated ones."""
        kinds = {"sum": "UnsortedSegmentSum", "mean": "UnsortedSegmentMean"}
        assert aggregator in kinds, f"an aggregator is one of {', '.join(kinds)}, not {aggregator!r}"
        assert isinstance(g, GradientSlice), f"a gradient slice, not {g!r}"
        unique, remapping = self.Unique([g.indices], 2, engine="SparseHash")
        values = getattr(self, kinds[aggregator])([g.values, remapping], 1)
        return GradientSlice(unique, values)
