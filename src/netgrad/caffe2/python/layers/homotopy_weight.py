"""Weights that go from one problem to another one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class HomotopyWeight(ModelLayer):
    """``a x + b y``: the weight ``a`` falls with the iterations from its maximum, and ``a + b`` stays.

    Attributes:
        gamma: See ``solve_inv_lr_params``.
        power: Likewise.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "homotopy_weight",
        min_weight: float = 0.0,
        max_weight: float = 1.0,
        half_life: float = 1e6,
        quad_life: float = 3e6,
        atomic_iter: Any = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The blobs x and y.
            name: Its name.
            min_weight: What a goes to, and b starts with.
            max_weight: What a starts with, and b goes to.
            half_life: The iteration in which a is in the middle.
            quad_life: The iteration in which a quarter of the way is left.
            atomic_iter: A counter of iterations; one of its own if None.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        blobs = input_record.field_blobs()
        assert len(blobs) == 2, f"two blobs are weighted, not {len(blobs)}"
        assert max_weight > min_weight, f"max_weight {max_weight} has to be above min_weight {min_weight}"
        self.x, self.y = blobs
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("homotopy_weight"))
        self.use_external_iter = atomic_iter is not None
        self.atomic_iter = atomic_iter if self.use_external_iter else self.create_atomic_iter()
        self.scale = float(max_weight - min_weight)
        self.offset = model.add_global_constant(f"{self.name}_offset_1dfloat", float(min_weight))
        self.gamma, self.power = self.solve_inv_lr_params(half_life, quad_life)

    def solve_inv_lr_params(self, half_life: float, quad_life: float) -> tuple[float, float]:
        """``gamma`` and ``power`` of ``(1 + gamma n)^-power`` that is 1/2 and 1/4 at two iterations.

        With ``x = 1 + gamma half_life`` the first says ``x^power = 2``, so that the second needs
        ``1 + gamma quad_life = x^2``, of which ``x = quad_life / half_life - 1``.

        Raises:
            AssertionError: There are none: the second one is at most twice the first one.
        """
        assert half_life > 0, f"half_life has to be positive, not {half_life}"
        assert quad_life > 2 * half_life, f"quad_life {quad_life} has to be above 2 * {half_life}"
        base = quad_life / half_life - 1.0
        return (base - 1.0) / half_life, math.log(2.0) / math.log(base)

    def create_atomic_iter(self) -> Any:
        """Make a counter of iterations."""
        self.mutex = self.create_param(
            param_name=f"{self.name}_mutex",
            shape=None,
            initializer=("CreateMutex",),
            optimizer=self.model.NoOptim,
        )
        return self.create_param(
            param_name=f"{self.name}_atomic_iter",
            shape=[1],
            initializer=("ConstantFill", {"value": 0, "dtype": core.DataType.INT64}),
            optimizer=self.model.NoOptim,
        )

    def update_weight(self, net: Any) -> tuple[Any, Any]:
        """Add what computes both weights."""
        alpha, beta, rate, rest, scaled, scaled_rest = (
            net.NextScopedBlob(name)
            for name in (
                "alpha",
                "beta",
                "lr",
                "complementary_lr",
                "scaled_lr",
                "scaled_complementary_lr",
            )
        )
        if not self.use_external_iter:
            net.AtomicIter([self.mutex, self.atomic_iter], [self.atomic_iter])
        net.LearningRate(
            [self.atomic_iter], [rate], policy="inv", gamma=self.gamma, power=self.power, base_lr=1.0
        )
        net.Sub([self.model.global_constants["ONE"], rate], [rest])
        net.Scale([rate], [scaled], scale=self.scale)
        net.Scale([rest], [scaled_rest], scale=self.scale)
        net.Add([scaled, self.offset], [alpha])
        net.Add([scaled_rest, self.offset], [beta])
        return alpha, beta

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        alpha, beta = self.update_weight(net)
        net.WeightedSum([self.x, alpha, self.y, beta], self.output_schema())
