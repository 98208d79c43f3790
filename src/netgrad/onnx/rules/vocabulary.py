"""The few operators that the backward pass itself writes, in ONNX's words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.half import HALF
from netgrad.onnx.sequences import full_like, total
from netgrad.onnx.view import Structure, TensorInfo

_FEW_TERMS = 4  # so many gradients of a half type are added in that type

_SMALL = 4096  # elements; ones of so few are stored rather than written by an operator


class OnnxVocabulary:
    """Start gradients, zeros and sums over one graph's values (a `netgrad.core.vocabulary.Vocabulary`).

    Args:
        types: What is known of every forward value, by name.
        opset: Version of the default domain that the graph uses.
    """

    def __init__(self, types: Mapping[str, TensorInfo], opset: int) -> None:
        self._types = types
        self._opset = opset

    def ones(self, blob: str, out: str, device: Any = None) -> list[Operator]:
        """``out`` = ones with the shape and element type of ``blob``."""
        info = self._types.get(blob, TensorInfo())
        sizes = [dim for dim in info.shape or () if isinstance(dim, int)]
        known = info.shape is not None and len(sizes) == len(info.shape)
        known = known and info.structure is Structure.TENSOR
        if info.dtype is not None and known and math.prod(sizes) <= _SMALL:
            content = ir.tensor(np.ones(sizes).astype(info.dtype.numpy()))
            return [Operator("Constant", (), (out,), {"value": content})]
        return self._full(blob, out, 1.0)

    def zeros(self, blob: str, out: str, device: Any = None) -> list[Operator]:
        """``out`` = zeros with the shape and element type of ``blob``."""
        return self._full(blob, out, 0.0)

    def sum(self, terms: Sequence[str], out: str, device: Any = None) -> list[Operator]:
        """``out`` = the sum of the terms, in their order."""
        return [Operator("Add" if len(terms) == 2 else "Sum", tuple(terms), (out,))]

    def sum_like(self, blob: str, terms: Sequence[str], out: str, device: Any = None) -> list[Operator]:
        """``out`` = the sum of the terms, each of the structure of ``blob``."""
        info = self._types.get(blob, TensorInfo())
        if info.structure is Structure.TENSOR:
            return self.sum(terms, out, device)
        builder = Builder(self._opset, out)
        return _renamed(builder, total(builder, [builder.value(term, info.plain) for term in terms]), out)

    def copy(self, blob: str, out: str, device: Any = None) -> list[Operator]:
        """``out`` = ``blob``."""
        return [Operator("Identity", (blob,), (out,))]

    def size_in_bytes(self, blob: str) -> int | None:
        """Size of a forward value in bytes, None where a dim is unknown."""
        info = self._types.get(blob)
        if info is None or info.dtype is None or info.shape is None or info.structure is not Structure.TENSOR:
            return None
        dims = [dim for dim in info.shape if isinstance(dim, int)]
        if len(dims) != len(info.shape):
            return None
        return math.ceil(math.prod(dims) * info.dtype.itemsize)

    def fold(self, op: Operator, output_index: int, partial: str) -> Operator | None:
        """A Gemm without its C input, adding ``partial`` through it; None for any other operator.

        Without C a Gemm ignores its ``beta``; with C it would scale ``partial``, so ``beta`` must be 1.
        """
        free = op.type == "Gemm" and not op.domain and len(op.inputs) == 2 and output_index == 0
        if free and op.attributes.get("beta", 1.0) == 1.0:
            return Operator(
                op.type, (*op.inputs, partial), op.outputs, op.attributes, op.domain, op.device, op.name
            )
        return None

    def sums_wide(self, blob: str, terms: int) -> bool:
        """Whether there are so many gradients of a half type that float32 must add them.

        In float16 a sum of ones ends at 2048, in bfloat16 at 256.
        """
        if terms <= _FEW_TERMS or blob not in self._types:
            return False
        info = self._types[blob]
        return info.dtype in HALF and info.structure is Structure.TENSOR

    def widened(self, term: str, out: str, device: Any = None) -> list[Operator]:
        """``out`` = ``term`` in float32."""
        return [Operator("Cast", (term,), (out,), {"to": int(ir.DataType.FLOAT)})]

    def narrowed(self, total: str, blob: str, out: str, device: Any = None) -> list[Operator]:
        """``out`` = ``total`` in the element type of ``blob``."""
        dtype = self._types[blob].dtype
        assert dtype is not None, "only sums of a known type are wide"
        return [Operator("Cast", (total,), (out,), {"to": int(dtype)})]

    def _full(self, blob: str, out: str, number: float) -> list[Operator]:
        builder = Builder(self._opset, out)
        info = self._types.get(blob, TensorInfo())
        like = builder.value(blob, info)
        if like.dtype is None:
            like = Value(builder, blob, TensorInfo(ir.DataType.FLOAT, info.shape))
        return _renamed(builder, full_like(builder, like, number), out)


def _renamed(builder: Builder, result: Value, out: str) -> list[Operator]:
    """What was written, with ``out`` as the name of the result."""
    last = builder.operators.pop()
    assert last.outputs == (result.name,), "the result is written by the last operator"
    return [*builder.operators, Operator(last.type, last.inputs, (out,), last.attributes, last.domain)]
