"""The loss of logistic regression, with what may be added to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import needs_fields, weighted
from netgrad.caffe2.python.layers.tags import Tags

_LARGEST_EXPONENT = 88.0  # exp() of more is infinite in float32


class BatchLRLoss(ModelLayer):
    """The mean over the batch of the cross entropy of sigmoids; other terms and factors as asked for."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_lr_loss",
        average_loss: bool = True,
        jsd_weight: float = 0.0,
        pos_label_target: float = 1.0,
        neg_label_target: float = 0.0,
        homotopy_weighting: bool = False,
        log_D_trick: bool = False,
        unjoined_lr_loss: bool = False,
        uncertainty_penalty: float = 1.0,
        focal_gamma: float = 0.0,
        stop_grad_in_focal_factor: bool = False,
        task_gamma: float = 1.0,
        task_gamma_lb: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label`` and ``logit``; ``prediction``, the logit's sigmoid, for those
                terms that need it; ``weight``, if examples have one; ``log_variance``, if it is predicted.
            name: Its name.
            average_loss: Whether the loss is the mean; else the sum.
            jsd_weight: Share of the Jensen-Shannon divergence in the loss.
            pos_label_target: What labels above 0.5 are taken for.
            neg_label_target: What others are taken for.
            homotopy_weighting: Whether that share grows from 0, the longer there is training.
            log_D_trick: See the operator ``SigmoidCrossEntropyWithLogits``.
            unjoined_lr_loss: Likewise.
            uncertainty_penalty: Factor of the log-variance that is added to the loss; the loss itself is
                divided by the variance.
            focal_gamma: Power of the distance of prediction and label, which is a factor of the loss.
            stop_grad_in_focal_factor: Whether no gradient goes through that factor.
            task_gamma: Below 1, a factor of the loss that goes on with each iteration.
            task_gamma_lb: What that factor is at least.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        needs_fields(input_record, ("label", schema.Scalar()), ("logit", schema.Scalar()))
        assert 0 <= jsd_weight <= 1, f"jsd_weight is from 0 to 1, not {jsd_weight}"
        assert 0 <= neg_label_target <= pos_label_target <= 1, (
            f"label targets are from 0 to 1, not {neg_label_target} and {pos_label_target}"
        )
        assert not (log_D_trick and unjoined_lr_loss), "either log_D_trick or unjoined_lr_loss, not both"
        assert uncertainty_penalty >= 0, f"uncertainty_penalty is not negative, as {uncertainty_penalty} is"
        self.average_loss = average_loss
        self.homotopy_weighting = homotopy_weighting
        self.pos_label_target = pos_label_target
        self.neg_label_target = neg_label_target
        self.log_D_trick = log_D_trick
        self.unjoined_lr_loss = unjoined_lr_loss
        self.uncertainty_penalty = uncertainty_penalty
        self.focal_gamma = focal_gamma
        self.stop_grad_in_focal_factor = stop_grad_in_focal_factor
        self.jsd_fuse = jsd_weight > 0 or homotopy_weighting
        if self.jsd_fuse or focal_gamma:
            needs_fields(input_record, ("prediction", schema.Scalar()))
        if self.jsd_fuse:
            self.init_weight(jsd_weight, homotopy_weighting)
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))
        self.apply_exp_decay = task_gamma < 1.0
        if self.apply_exp_decay:
            self.task_gamma_cur = self._state("task_gamma_cur", 1.0)
            self.task_gamma = self._state("task_gamma", task_gamma)
            self.task_gamma_lb = self._state("task_gamma_lb", task_gamma_lb)

    def _state(self, name: str, value: float, dtype: int = core.DataType.FLOAT) -> Any:
        """A blob of one number that the operators change."""
        return self.create_param(
            param_name=f"{self.name}_{name}",
            shape=[1],
            initializer=("ConstantFill", {"value": value, "dtype": dtype}),
            optimizer=self.model.NoOptim,
        )

    def init_weight(self, jsd_weight: float, homotopy_weighting: bool) -> None:
        """Make the shares of cross entropy and divergence."""
        if homotopy_weighting:
            self.mutex = self.create_param(
                param_name=f"{self.name}_mutex",
                shape=None,
                initializer=("CreateMutex",),
                optimizer=self.model.NoOptim,
            )
            self.counter = self._state("counter", 0, core.DataType.INT64)
            self.xent_weight = self._state("xent_weight", 1.0)
            self.jsd_weight = self._state("jsd_weight", 0.0)
            return
        self.jsd_weight = self.model.add_global_constant(f"{self.name}_jsd_weight", jsd_weight)
        self.xent_weight = self.model.add_global_constant(f"{self.name}_xent_weight", 1.0 - jsd_weight)

    def update_weight(self, net: Any) -> tuple[Any, Any]:
        """Add what changes the shares with the iterations: half and half after about a billion."""
        net.AtomicIter([self.mutex, self.counter], [self.counter])
        net.LearningRate([self.counter], [self.xent_weight], base_lr=1.0, policy="inv", gamma=1e-6, power=0.1)
        net.Sub([self.model.global_constants["ONE"], self.xent_weight], [self.jsd_weight])
        return self.xent_weight, self.jsd_weight

    def _label(self, net: Any) -> Any:
        # A column that says float32 may hold integers all the same.
        label = net.Cast(self.input_record.label(), net.NextScopedBlob("float_label"), to=core.DataType.FLOAT)
        label = net.ExpandDims(label, net.NextScopedBlob("label_column"), dims=[1])
        if (self.neg_label_target, self.pos_label_target) == (0.0, 1.0):
            return label
        return net.StumpFunc(
            label,
            net.NextScopedBlob("smooth_label"),
            threshold=0.5,
            low_value=self.neg_label_target,
            high_value=self.pos_label_target,
        )

    def _focal(self, net: Any, loss: Any, label: Any) -> Any:
        """The loss times ``|y - p|^gamma`` for labels 0 and 1, and ``(y + p - 2 y p)^gamma`` in between."""
        named = net.NextScopedBlob
        # a number per example, as the loss has: as columns, they would meet each loss of the batch
        prediction = net.FlattenToVec(self.input_record.prediction(), named("flat_prediction"))
        label = net.FlattenToVec(label, named("flat_label"))
        label = net.StopGradient([label], [named("fixed_label")])
        total = net.Add([prediction, label], named("total"))
        product = net.Mul([prediction, label], named("product"))
        twice = net.Scale(product, named("twice_product"), scale=2.0)
        distance = net.Sub([total, twice], named("distance"))
        factor = net.Pow(distance, named("focal_factor"), exponent=float(self.focal_gamma))
        if self.stop_grad_in_focal_factor:
            factor = net.StopGradient([factor], [named("fixed_focal_factor")])
        return net.Mul([loss, factor], named("focal_loss"))

    def _decayed(self, net: Any, loss: Any) -> Any:
        net.Mul([self.task_gamma_cur, self.task_gamma], self.task_gamma_cur)
        factor = net.Max([self.task_gamma_cur, self.task_gamma_lb], net.NextScopedBlob("task_share"))
        return net.Mul([loss, factor], net.NextScopedBlob("decayed_loss"))

    def _with_divergence(self, net: Any, loss: Any, label: Any) -> Any:
        divergence = net.BernoulliJSD(
            [self.input_record.prediction(), label], net.NextScopedBlob("divergence")
        )
        if self.homotopy_weighting:
            self.update_weight(net)
        shares = [loss, self.xent_weight, divergence, self.jsd_weight]
        return net.WeightedSum(shares, net.NextScopedBlob("loss"))

    def _with_uncertainty(self, net: Any, loss: Any) -> Any:
        """``(loss / exp(s) + penalty s) / 2``, where ``s`` is the log-variance."""
        named = net.NextScopedBlob
        variance = net.FlattenToVec(self.input_record.log_variance(), named("flat_log_variance"))
        negative = net.Negative([variance], named("log_precision"))
        limited = net.Clip([negative], named("limited_log_precision"), max=_LARGEST_EXPONENT)
        factor = net.Exp([limited], named("precision"))
        divided = net.Mul([factor, loss], named("precise_loss"))
        penalty = net.Scale(variance, named("penalty"), scale=float(self.uncertainty_penalty))
        return net.Scale(net.Add([divided, penalty], named("loss")), named("loss"), scale=0.5)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        label = self._label(net)
        loss = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.logit(), label],
            net.NextScopedBlob("cross_entropy"),
            log_D_trick=self.log_D_trick,
            unjoined_lr_loss=self.unjoined_lr_loss,
        )
        if self.focal_gamma:
            loss = self._focal(net, loss, label)
        if self.apply_exp_decay:
            loss = self._decayed(net, loss)
        if self.jsd_fuse:
            loss = self._with_divergence(net, loss, label)
        if "log_variance" in self.input_record.fields:
            loss = self._with_uncertainty(net, loss)
        loss = weighted(net, self.input_record, loss, "weighted_cross_entropy")
        reduce = net.AveragedLoss if self.average_loss else net.ReduceFrontSum
        reduce(loss, self.output_schema.field_blobs())
