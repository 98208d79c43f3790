"""The translators of Caffe's layers by type, and the translation of a whole model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto, TensorProtos
from netgrad.caffe2.caffe_pb2 import NetParameter, NetState
from netgrad.caffe2.python import core, utils
from netgrad.caffe2.python.caffe_translator.padding import without_legacy_pad

log = logging.getLogger("caffe_translator")

Translated: TypeAlias = "tuple[OperatorDef | Sequence[OperatorDef] | None, Sequence[TensorProto]]"
Translator: TypeAlias = "Callable[..., Translated]"


def _meets(state: Any, rule: Any) -> bool:
    """Whether a state of a net is one that a rule of a layer speaks of."""
    stages = set(state.stage)
    return (
        not (rule.HasField("phase") and rule.phase != state.phase)
        and not (rule.HasField("min_level") and state.level < rule.min_level)
        and not (rule.HasField("max_level") and state.level > rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def _is_there(state: Any, layer: Any) -> bool:
    """Whether a layer is part of a net in a state: by its rules, of either kind."""
    if layer.include:
        return any(_meets(state, rule) for rule in layer.include)
    return not any(_meets(state, rule) for rule in layer.exclude)


def _dims_of(caffe_net: Any) -> list[int]:
    """The shape of a net's input, as far as the net says it."""
    if caffe_net.input_dim:
        return list(caffe_net.input_dim)
    if caffe_net.input_shape:
        return list(caffe_net.input_shape[0].dim)
    if caffe_net.layer and caffe_net.layer[0].input_param.shape:
        return list(caffe_net.layer[0].input_param.shape[0].dim)
    return []


class TranslatorRegistry:
    """The translators by type of layer.

    A translator is called with the layer, its trained arrays, whether the net is for testing, and by keyword
    the net and parameters so far and the shape of the input. It gives operators and their parameters.
    """

    registry_: ClassVar[dict[str, Translator]] = {}

    @classmethod
    def Register(cls, op_name: str) -> Callable[[Translator], Translator]:
        """Register the translator of a type of layer."""

        def register(function: Translator) -> Translator:
            cls.registry_[op_name] = function
            return function

        return register

    @classmethod
    def TranslateLayer(
        cls, layer: Any, pretrained_blobs: Sequence[Any], is_test: bool, **kwargs: Any
    ) -> tuple[list[OperatorDef], Sequence[TensorProto]]:
        """The operators of a layer, and their parameters.

        Raises:
            KeyError: There is no translator for layers of its type.
        """
        if layer.type not in cls.registry_:
            raise KeyError(
                f"layer {layer.name!r} has the type {layer.type!r}, which is not translated; there are "
                f"{', '.join(sorted(cls.registry_))}"
            )
        found, parameters = cls.registry_[layer.type](layer, list(pretrained_blobs), is_test, **kwargs)
        if found is None:
            return [], parameters
        return ([found] if isinstance(found, OperatorDef) else list(found)), parameters

    @classmethod
    def TranslateModel(
        cls,
        caffe_net: NetParameter,
        pretrained_net: NetParameter,
        is_test: bool = False,
        net_state: NetState | None = None,
        remove_legacy_pad: bool = False,
        input_dims: Sequence[int] | None = None,
    ) -> tuple[NetDef, TensorProtos]:
        """A model of Caffe as a net and its parameters.

        Args:
            caffe_net: The net, in the new style (its field ``layer``).
            pretrained_net: The net with what it was trained to, in either style.
            is_test: Whether layers behave as when the model is used.
            net_state: Which layers are part of the net; None: those of the test phase.
            remove_legacy_pad: Whether pools and convolutions get plain pads in place of ``legacy_pad``.
            input_dims: The shape of the input, which that needs; without it the net has to say it.

        Raises:
            ValueError: The net is in the old style, or its layers don't match what was trained.
            KeyError: There is no translator for a layer.
        """
        if caffe_net.layers:
            raise ValueError(
                f"the net {caffe_net.name!r} has layers in the old style (its field 'layers'): upgrade it by "
                "Caffe's upgrade_net_proto_text"
            )
        state = NetState() if net_state is None else net_state
        dims = list(input_dims or _dims_of(caffe_net))
        net, net_params = NetDef(name=caffe_net.name), TensorProtos()
        for layer in caffe_net.layer:
            if not _is_there(state, layer):
                log.info("Layer %s is not of this phase, level and stages", layer.name)
                continue
            log.info("Translate layer %s", layer.name)
            both: Iterable[Any] = (*pretrained_net.layer, *pretrained_net.layers)  # of two kinds
            trained = [one for one in both if one.name == layer.name]
            if len(trained) > 1:
                raise ValueError(f"there are {len(trained)} trained layers with the name {layer.name!r}")
            arrays = [utils.CaffeBlobToNumpyArray(blob) for one in trained for blob in one.blobs]
            operators, parameters = cls.TranslateLayer(
                layer, arrays, is_test, net=net, net_params=net_params, input_dims=dims
            )
            net.op.extend(operators)
            net_params.protos.extend(parameters)
        if remove_legacy_pad:
            if not dims:
                raise ValueError("plain pads depend on the shape of the input: give input_dims")
            without_legacy_pad(net, net_params, dims)
        return net, net_params


def TranslateModel(*args: Any, **kwargs: Any) -> tuple[NetDef, TensorProtos]:
    """See `TranslatorRegistry.TranslateModel`."""
    return TranslatorRegistry.TranslateModel(*args, **kwargs)


def ConvertTensorProtosToInitNet(net_params: TensorProtos, input_name: str) -> NetDef:
    """The net that fills the parameters, and the input with one zero.

    Raises:
        RuntimeError: A parameter is not of floats.
    """
    net = NetDef()
    for tensor in net_params.protos:
        if not tensor.float_data:
            raise RuntimeError(f"parameter {tensor.name!r} holds no floats, and only floats can be filled")
        net.op.append(
            core.CreateOperator(
                "GivenTensorFill",
                [],
                [tensor.name],
                arg=[
                    utils.MakeArgument("shape", list(tensor.dims)),
                    utils.MakeArgument("values", tensor.float_data),
                ],
            )
        )
    net.op.append(core.CreateOperator("ConstantFill", [], [input_name], shape=[1]))
    return net
