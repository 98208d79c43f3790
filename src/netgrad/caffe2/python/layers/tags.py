"""Tags of layers: in which nets they have a part, and where their parameters are placed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from netgrad.caffe2.python import context

_Function = TypeVar("_Function", bound=Callable[..., Any])


class TagContext(context.DefaultManaged):
    """The tags that layers get which are made now."""

    def __init__(self, tags: list[str] | None = None) -> None:
        self.tags = tags or []

    def add_tags(self, tags: list[str]) -> None:
        """Put more tags in force."""
        self.tags.extend(tags)

    def remove_tags(self, tags: list[str]) -> None:
        """Put the last ones out of force.

        Raises:
            AssertionError: Others were put in force after them.
        """
        kept = len(self.tags) - len(tags)
        assert self.tags[kept:] == tags, f"the last tags are {self.tags[kept:]}, not {tags}"
        self.tags = self.tags[:kept]


class Tags:
    """The tags that are known; as a block, or as a decorator, it puts tags in force."""

    EXCLUDE_FROM_TRAIN = "exclude_from_train"
    EXCLUDE_FROM_EVAL = "exclude_from_eval"
    EXCLUDE_FROM_PREDICTION = "exclude_from_prediction"
    EXCLUDE_FROM_ACCUMULATE_PRED = "exclude_from_accumulate_pred"
    TRAIN_ONLY: ClassVar[list[str]] = [
        EXCLUDE_FROM_PREDICTION,
        EXCLUDE_FROM_EVAL,
        EXCLUDE_FROM_ACCUMULATE_PRED,
    ]
    EVAL_ONLY: ClassVar[list[str]] = [
        EXCLUDE_FROM_PREDICTION,
        EXCLUDE_FROM_TRAIN,
        EXCLUDE_FROM_ACCUMULATE_PRED,
    ]
    PREDICTION_ONLY: ClassVar[list[str]] = [
        EXCLUDE_FROM_TRAIN,
        EXCLUDE_FROM_EVAL,
        EXCLUDE_FROM_ACCUMULATE_PRED,
    ]

    PREPROCESSING = "preprocessing"
    PREDICTION_SCHEMA = "prediction_schema"
    FEATURE_TRANSFORM = "feature_transform"
    FEATURE_TRANSFORM_SCHEMA = "feature_transform_schema"
    HANDLE_AS_SPARSE_LAYER = "handle_as_sparse_layer"
    EMPTY_TAG = "empty_tag"

    # Where layers run, and hints for training on several machines.
    PREFER_GPU = "prefer_gpu"
    CPU_ONLY = "cpu_only"
    LOCAL = "local"
    SPARSE_SHARDED = "sparse_sharded"
    SPARSE_DONT_SHARD = "sparse_dont_shard"
    COMPONENT = "component:"
    PIPELINE = "pipeline:"
    HOGWILD_DENSE = "hogwild_dense"
    EXTRA_INFO = "extra_info:"
    DT_TAGS = (SPARSE_SHARDED, SPARSE_DONT_SHARD, COMPONENT, HOGWILD_DENSE)

    def __init__(self, tags: Any) -> None:
        """Take a tag, or a list of them."""
        self.tags: list[str] = list(tags) if isinstance(tags, list | tuple) else [tags]

    def __enter__(self) -> Tags:
        TagContext.current().add_tags(self.tags)
        return self

    def __exit__(self, *args: object) -> None:
        TagContext.current().remove_tags(self.tags)

    def __call__(self, func: _Function) -> _Function:
        """A function that runs with the tags in force."""

        @functools.wraps(func)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return tagged  # type: ignore[return-value]
