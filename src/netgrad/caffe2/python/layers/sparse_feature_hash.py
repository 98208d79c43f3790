"""Hashed ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import IdList, IdScoreList, ModelLayer
from netgrad.caffe2.python.layers.tags import Tags


class SparseFeatureHash(ModelLayer):
    """Lists with ids below a limit: by a hash, by the rest of a division, or by that of a quotient."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        seed: int = 0,
        modulo: int | None = None,
        use_hashing: bool = True,
        use_divide_mod: bool = False,
        divisor: int | None = None,
        name: str = "sparse_feature_hash",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Lists of ids, also with scores.
            seed: Of the hash.
            modulo: The limit; if None what is known of the ids says it.
            use_hashing: Whether ids are hashed.
            use_divide_mod: Whether they are divided by ``divisor`` before the rest is taken.
            divisor: What they are divided by.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert not (use_hashing and use_divide_mod), (
            "ids are either hashed or divided: use_hashing and use_divide_mod exclude each other"
        )
        self.seed = seed
        self.use_hashing = use_hashing
        self.use_divide_mod = use_divide_mod
        if use_divide_mod:
            assert (divisor or 0) >= 1, f"divisor is 1 or more, not {divisor}"
            self.divisor = self.create_param(
                param_name="divisor",
                shape=[1],
                initializer=("GivenTensorInt64Fill", {"values": np.array([divisor])}),
                optimizer=model.NoOptim,
            )
        self.has_scores = schema.equal_schemas(input_record, IdScoreList)
        assert self.has_scores or schema.equal_schemas(input_record, IdList), (
            f"lists of ids are hashed, not {input_record!r}"
        )
        known = self._ids(input_record).metadata
        self.modulo = modulo or self.extract_hash_size(known)
        assert self.modulo >= 1, f"modulo is 1 or more, not {self.modulo}"
        with core.NameScope(name):
            output = schema.NewRecord(model.net, IdScoreList if self.has_scores else IdList)
        limited = (known or schema.Metadata())._replace(categorical_limit=self.modulo)
        self._ids(output).set_metadata(limited)
        if input_record.lengths.metadata:
            output.lengths.set_metadata(input_record.lengths.metadata)
        self.output_schema = output
        self.tags.add(Tags.CPU_ONLY)

    def _ids(self, record: Any) -> Any:
        return record.keys if self.has_scores else record.items

    def extract_hash_size(self, metadata: Any) -> int:
        """The limit that is known of ids.

        Raises:
            AssertionError: None is.
        """
        wanted = metadata and metadata.feature_specs and metadata.feature_specs.desired_hash_size
        limit = wanted or (metadata and metadata.categorical_limit)
        assert limit, "what ids are below is not known: give modulo, or metadata with a hash size or limit"
        return int(limit)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record, output = self.input_record, self.output_schema
        net.Copy(record.lengths(), output.lengths())
        if self.has_scores:
            net.Copy(record.values(), output.values())
        ids, hashed = self._ids(record)(), self._ids(output)()
        if self.use_hashing:
            net.IndexHash(ids, hashed, seed=self.seed, modulo=self.modulo)
            return
        if self.use_divide_mod:
            ids = net.Div([ids, self.divisor], [net.NextScopedBlob("quotient")])
        net.Mod(ids, hashed, divisor=self.modulo, sign_follow_divisor=True)
