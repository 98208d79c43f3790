"""The leaves of a schema: one column each."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np

from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.schema.field import Field

_logger = logging.getLogger(__name__)


class FeatureSpec(NamedTuple):
    """What is known of the features in a column; free for scripts to use."""

    feature_type: Any = None
    feature_names: Any = None
    feature_ids: Any = None
    feature_is_request_only: Any = None
    desired_hash_size: Any = None
    feature_to_index: Any = None


class Metadata(NamedTuple):
    """What is known of the values of a column.

    Attributes:
        categorical_limit: Values are integers below it.
        expected_value: A value that they are expected to have.
        feature_specs: A `FeatureSpec`.
    """

    categorical_limit: Any = None
    expected_value: Any = None
    feature_specs: Any = None


class Scalar(Field):
    """One column: a tensor whose first axis goes over its values, which all have one type and inner shape.

    Attributes:
        dtype: NumPy's type of one value, with its shape; `numpy.void` where it isn't known.
    """

    dtype: np.dtype[Any]

    def __init__(self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None) -> None:
        """Start a column.

        Args:
            dtype: A type of NumPy, or a tuple of one and the shape of a value.
            blob: Its values: a `BlobReference`, an array, or with a type also a list or number.
            metadata: What is known of its values.

        Raises:
            TypeError: A shape is given without a type.
            AssertionError: The values are neither a reference nor an array, and there is no type; or metadata
                and type don't agree.
        """
        self._metadata: Metadata | None = None
        self.set(dtype, blob, metadata, unsafe=True)
        super().__init__([])

    def _children(self) -> list[tuple[str, Field]]:
        return []

    def field_names(self) -> list[str]:
        """One empty name: a scalar is named by what it is in."""
        return [""]

    def field_type(self) -> np.dtype[Any]:
        """The type of a value, with its shape."""
        return self.dtype

    def all_scalars(self) -> list[Scalar]:
        """Itself."""
        return [self]

    def has_blobs(self) -> bool:
        """Whether it has values."""
        return self._blob is not None

    def clone(self, keep_blobs: bool = True) -> Scalar:
        """A copy, with its values or without them."""
        return Scalar(self._given_dtype, self._blob if keep_blobs else None, self._metadata)

    def get(self) -> Any:
        """Its values.

        Raises:
            AssertionError: It has none.
        """
        assert self._blob is not None, "Value is not set for this field."
        return self._blob

    def __call__(self) -> Any:
        """Its values, as `get`."""
        return self.get()

    def id(self) -> int:
        """Its place among the columns of the outermost field."""
        return self._first_column()

    # ---- what is set ---------------------------------------------------------------------------------

    @property
    def metadata(self) -> Metadata | None:
        """What is known of its values."""
        return self._metadata

    def set_metadata(self, value: Metadata) -> None:
        """Say what is known of its values.

        Raises:
            AssertionError: It is no `Metadata`, or gives a limit of values that aren't integers.
        """
        assert isinstance(value, Metadata), f"metadata must be Metadata, got {type(value).__name__}"
        self._metadata = value
        self._check_metadata()

    def set_value(self, blob: Any, throw_on_type_mismatch: bool = False, unsafe: bool = False) -> None:
        """Give it values, and keep its type.

        Args:
            blob: As for the construction.
            throw_on_type_mismatch: Whether an array of another element type is refused, not cast.
            unsafe: Whether there is no warning.

        Raises:
            AssertionError: The values are refused.
        """
        if throw_on_type_mismatch and self.dtype.base != np.void:
            assert isinstance(blob, np.ndarray), f"an array is needed to check its type, not {blob!r}"
            assert blob.dtype.base == self.dtype.base, (
                f"values of type {self.dtype.base} are needed, not {blob.dtype}"
            )
        self.set(self._given_dtype, blob, unsafe=unsafe)

    def set_type(self, dtype: Any) -> None:
        """Give it another type, and keep its values."""
        self._given_dtype = dtype
        self.dtype = np.dtype(np.void if dtype is None else dtype)
        self._check_metadata()

    def set(
        self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None, unsafe: bool = False
    ) -> None:
        """Set type and values anew, as the construction does; without ``unsafe`` a warning is logged.

        Others may hold the same field, and it is meant to be changed only by who has just made it.
        """
        if not unsafe:
            _logger.warning("a Scalar should be changed by who has just made it only: pass unsafe=True then")
        self._given_dtype = dtype
        found = None if dtype is None else _dtype(dtype, blob)
        if blob is not None and not isinstance(blob, BlobReference):
            blob = _values(found, blob)
            if found is not None and found.base != np.void and blob.ndim > 1:
                found = np.dtype((found.base, blob.shape[1:]))
        self.dtype = np.dtype(np.void) if found is None else found
        assert not self.dtype.fields, "a Scalar has no structured type: use from_dtype for a Struct"
        self._blob = blob
        if metadata is not None:
            self.set_metadata(metadata)
        self._check_metadata()

    def _check_metadata(self) -> None:
        if self._metadata is None or self._metadata.categorical_limit is None or self.dtype == np.void:
            return
        assert np.issubdtype(self.dtype.base, np.integer), (
            f"`categorical_limit` can be specified only in integral fields but got {self.dtype}"
        )

    def _lines(self) -> list[str]:
        return [f"Scalar({self.dtype!r}, {self._blob!r}, {self._metadata!r})"]


def _dtype(dtype: Any, blob: Any) -> np.dtype[Any]:
    """NumPy's type; a shape of one is kept, which NumPy itself drops."""
    if isinstance(dtype, tuple) and len(dtype) == 2:
        if dtype[0] is np.void:
            raise TypeError(
                f"values of a shape {dtype[1]} without a type can't be a Scalar (values {blob!r}): "
                "see whether the operator that writes them knows the types of its inputs"
            )
        if dtype[1] == 1:
            dtype = (dtype[0], (1,))
    found: np.dtype[Any] = np.dtype(dtype)
    return found


def _values(dtype: np.dtype[Any] | None, blob: Any) -> np.ndarray[Any, Any]:
    """Values as an array of a type, with one axis at least where they were no array."""
    if isinstance(blob, np.ndarray):
        if dtype is None or dtype.base == np.void:
            return blob
        if blob.dtype == object and dtype.base.kind == "U":  # texts are bytes in blobs
            texts = [text.decode() if isinstance(text, bytes) else str(text) for text in blob.reshape(-1)]
            return np.array(texts, dtype.base).reshape(blob.shape)
        return np.asarray(blob, dtype=dtype.base)
    typed = dtype is not None and dtype.base != np.void
    assert typed, f"without a type, values are references or arrays, not {type(blob).__name__}"
    assert dtype is not None
    array = np.array(blob, dtype=dtype.base)
    if array.size == 0:
        return array.reshape((0, *dtype.shape))
    return array.reshape(1) if array.ndim == 0 else array
