"""Products of embeddings."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class PairwiseSimilarity(ModelLayer):
    """The products of all pairs of embeddings of an example, in one vector."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dim: int,
        pairwise_similarity_func: str = "dot",
        name: str = "pairwise_similarity",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Embeddings: the columns ``x_embeddings`` and ``y_embeddings``, or ``all_embeddings``
                for both; and ``indices_to_gather``, if only some of the products are wanted.
            output_dim: How many products there are.
            pairwise_similarity_func: ``dot``, or ``cosine_similarity`` for products of unit vectors.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Struct), (
            f"a Struct with embeddings is compared, not {input_record!r}"
        )
        assert ("all_embeddings" in input_record) ^ (
            "x_embeddings" in input_record and "y_embeddings" in input_record
        ), "the record has all_embeddings, or else x_embeddings and y_embeddings"
        is_one = "all_embeddings" in input_record
        self.x_embeddings = input_record["all_embeddings" if is_one else "x_embeddings"]
        self.y_embeddings = input_record["all_embeddings" if is_one else "y_embeddings"]
        self.indices_to_gather = input_record.get("indices_to_gather", None)
        for column in (self.x_embeddings, self.y_embeddings, self.indices_to_gather):
            assert column is None or isinstance(column, schema.Scalar), (
                f"embeddings and indices are columns, not {column!r}"
            )
        self.pairwise_similarity_func = pairwise_similarity_func
        self.output_schema = schema.Scalar(
            (self.x_embeddings.field_type().base, (output_dim,)), self.get_next_blob_reference("output")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators.

        Raises:
            NotImplementedError: There is no such similarity.
        """
        pair = [self.x_embeddings(), self.y_embeddings()]
        if self.pairwise_similarity_func == "cosine_similarity":
            pair = [net.Normalize(blob, axis=1) for blob in pair]
        elif self.pairwise_similarity_func != "dot":
            raise NotImplementedError(
                f"pairwise_similarity_func={self.pairwise_similarity_func} is not valid"
            )
        name = self.get_next_blob_reference(f"{pair[0]}_matmul")
        products = net.BatchMatMul(pair, [name], trans_b=1)
        if self.indices_to_gather is None:
            net.Flatten(products, self.output_schema())
            return
        flat = net.Flatten(products, products + "_flatten")
        net.BatchGather([flat, self.indices_to_gather()], self.output_schema())
