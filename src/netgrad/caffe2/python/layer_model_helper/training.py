"""What a model of layers adds to its net for training: regularizers, optimizers, modifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import DeviceOption
from netgrad.caffe2.python import core, muji, schema
from netgrad.caffe2.python.modeling.net_modifier import NetModifier
from netgrad.caffe2.python.optimizer import get_param_device
from netgrad.caffe2.python.regularizer import RegularizationBy, Regularizer

_Devices = Mapping[Any, DeviceOption] | None


def _device(param: Any, grad: Any, devices: _Devices) -> DeviceOption:
    """Where a parameter is updated, without what is only for single operators."""
    found = DeviceOption()
    found.CopyFrom(get_param_device(str(param), grad, dict(devices or {}), muji.OnCPU()))
    found.ClearField("extra_info")
    return found


class TrainingSteps:
    """A model's part that adds to nets for training."""

    param_to_optim: dict[str, Any]
    param_to_reg: dict[Any, Any]
    add_loss: Any

    def _init_training(self) -> None:
        self._seed: int | None = None
        self._sequence_seed = True
        self._default_optimizer: Any = None
        self._post_grad_net_modifiers: list[NetModifier] = []
        self._final_net_modifiers: list[NetModifier] = []

    @property
    def default_optimizer(self) -> Any:
        """The optimizer of parameters that have none of their own."""
        return self._default_optimizer

    @default_optimizer.setter
    def default_optimizer(self, optimizer: Any) -> None:
        self._default_optimizer = optimizer

    def NoOptim(self, *args: Any, **kwargs: Any) -> None:
        """The optimizer that leaves a parameter as it is."""

    # ---- seeds -------------------------------------------------------------------------------------

    @property
    def seed(self) -> int | None:
        """The seed of random operators."""
        return self._seed

    @property
    def sequence_seed(self) -> bool:
        """Whether each operator gets the next seed."""
        return self._sequence_seed

    def store_seed(self, seed: int, sequence_seed: bool = True) -> None:
        """Keep a seed for `apply_seed`."""
        self._seed = seed
        self._sequence_seed = sequence_seed

    def apply_seed(self, net: core.Net) -> None:
        """Give the operators of a net the seed, if one was kept."""
        if self._seed:
            net.set_rand_seed(self._seed, self._sequence_seed)

    # ---- modifiers ---------------------------------------------------------------------------------

    def add_post_grad_net_modifiers(self, modifier: NetModifier) -> None:
        """Add a modifier that is applied after the backward pass."""
        _add(modifier, self._post_grad_net_modifiers)

    def add_final_net_modifiers(self, modifier: NetModifier) -> None:
        """Add a modifier that is applied last."""
        _add(modifier, self._final_net_modifiers)

    def apply_post_grad_net_modifiers(
        self,
        trainer_net: core.Net,
        trainer_init_net: core.Net,
        grad_map: Mapping[Any, Any],
        blob_to_device: _Devices = None,
        modify_output_record: bool = False,
    ) -> None:
        """Apply the former to the parameters' gradients; see `NetModifier.modify_net`."""
        of_params = {param: grad_map[param] for param in self.param_to_optim if param in grad_map}
        for modifier in self._post_grad_net_modifiers:
            modifier(trainer_net, trainer_init_net, of_params, blob_to_device, modify_output_record)

    def apply_final_net_modifiers(
        self,
        trainer_net: core.Net,
        trainer_init_net: core.Net,
        grad_map: Mapping[Any, Any],
        blob_to_device: _Devices = None,
        modify_output_record: bool = False,
    ) -> None:
        """Apply the latter; see `NetModifier.modify_net`."""
        for modifier in self._final_net_modifiers:
            modifier(trainer_net, trainer_init_net, grad_map, blob_to_device, modify_output_record)

    # ---- optimizers and regularizers ---------------------------------------------------------------

    def apply_optimizers(
        self,
        train_net: core.Net,
        train_init_net: core.Net,
        grad_map: Mapping[str, Any],
        blob_to_device: _Devices = None,
    ) -> None:
        """Add the updates of all parameters.

        Raises:
            AssertionError: A parameter has no optimizer, and the model has none either.
        """
        for param, optimizer in self.param_to_optim.items():
            assert optimizer is not None, (
                f"parameter {param} has no optimizer: the model's default_optimizer is set before its layer"
            )
            grad = grad_map.get(param)
            with core.DeviceScope(_device(param, grad, blob_to_device)):
                optimizer(train_net, train_init_net, param, grad)

    def apply_regularizers_on_loss(
        self, train_net: core.Net, train_init_net: core.Net, blob_to_device: _Devices = None
    ) -> None:
        """Add the regularizers' terms, as losses of the model; ``blob_to_device`` has no effect on these."""
        for param, regularizer in self._regularized():
            term = regularizer(train_net, train_init_net, param, grad=None, by=RegularizationBy.ON_LOSS)
            if term is not None:
                self.add_loss(schema.Scalar(blob=term), str(term))

    def apply_regularizers_after_optimizer(
        self,
        train_net: core.Net,
        train_init_net: core.Net,
        grad_map: Mapping[str, Any],
        blob_to_device: _Devices = None,
    ) -> None:
        """Add what keeps parameters in their limits."""
        for param, regularizer in self._regularized():
            grad = grad_map.get(str(param))
            with core.DeviceScope(_device(param, grad, blob_to_device)):
                regularizer(train_net, train_init_net, param, grad=grad, by=RegularizationBy.AFTER_OPTIMIZER)

    def _regularized(self) -> list[tuple[Any, Regularizer]]:
        found = [(param, one) for param, one in self.param_to_reg.items() if one is not None]
        for param, regularizer in found:
            assert isinstance(regularizer, Regularizer), (
                f"the regularizer of {param} is no Regularizer, but {regularizer!r}"
            )
        return found


def _add(modifier: NetModifier, modifiers: list[NetModifier]) -> None:
    assert modifier not in modifiers, f"{modifier} is already in {modifiers}"
    assert isinstance(modifier, NetModifier), f"a NetModifier is needed, not {modifier!r}"
    modifiers.append(modifier)
