"""Functions and operators as layers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema, scope, workspace
from netgrad.caffe2.python.layers.layers import ModelLayer

_logger = logging.getLogger(__name__)


class Functional(ModelLayer):
    """A layer without parameters, whose operators a function adds."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_names_or_num: Any,
        function: Callable[..., Any],
        name: str = "functional",
        output_dtypes: Any = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A record; blobs in lists and dictionaries, too.
            output_names_or_num: The number of outputs, their names, a name, or a record of blobs. The output
                is a column if there is one that isn't in a list, and a struct else.
            function: Called with a net, the input and the output record, and the further arguments.
            name: Its name.
            output_dtypes: The outputs' types and shapes, or one for all. Without them they are found as far
                as they can be, by running the shapes of the input with batches of no examples.
            tags: See `ModelLayer`.
            **kwargs: Further arguments of the function.
        """
        input_record = schema.as_record(input_record)
        super().__init__(model, name, input_record, tags=tags, **kwargs)
        self._function = function
        self._kwargs = kwargs
        if isinstance(output_names_or_num, schema.Field):
            self.output_schema = output_names_or_num.clone(keep_blobs=True)
            return
        is_struct = isinstance(output_names_or_num, list)
        with scope.NameScope(self.name, reset=True):
            if isinstance(output_names_or_num, int):
                is_struct = output_names_or_num != 1
                columns = schema.RawTuple(output_names_or_num)
            else:
                names = output_names_or_num if is_struct else [output_names_or_num]
                columns = schema.Struct(*[(one, np.void) for one in names])
            record = schema.NewRecord(model.net, columns)
        self.output_schema = record if is_struct else record[0]
        scalars = self._output_schema.all_scalars()
        if output_dtypes is None:
            self._infer_types(scalars)
            return
        dtypes = output_dtypes if isinstance(output_dtypes, list) else [output_dtypes] * len(scalars)
        assert len(dtypes) == len(scalars), f"{len(scalars)} outputs have not {len(dtypes)} types"
        for dtype, scalar in zip(dtypes, scalars, strict=True):
            scalar.set_type(dtype)

    def _infer_types(self, scalars: list[Any]) -> None:
        """Set the types of the outputs whose first axis is the batch, and of those without axes."""
        net = core.Net("_temp_type_and_shape_inference_net")
        try:
            schema.InitEmptyRecord(net, self.input_record, enforce_types=True)
        except TypeError as error:
            _logger.warning("the types of what layer %s gives are not known: %s", self.name, error)
            return
        self._function(net, self.input_record, self._output_schema, **self._kwargs)
        shapes, types = workspace.InferShapesAndTypes([net], {})
        for scalar in scalars:
            shape = shapes.get(scalar())
            if shape is None or (shape and shape[0] != 0):
                _logger.warning("the type of %s of layer %s is not known", scalar(), self.name)
                continue
            base = schema.dtype_for_core_type(types[scalar()])
            scalar.set_type((base, tuple(shape[1:])))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        self._function(net, self.input_record, self.output_schema, **self._kwargs)
