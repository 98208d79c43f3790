"""What layers are made with, in one place: the class, its parameters, the registry, and records of ids."""

from netgrad.caffe2.python.layers.model_layer import InstantiationContext, ModelLayer
from netgrad.caffe2.python.layers.parameter import LayerParameter, LayerPsParam
from netgrad.caffe2.python.layers.records import (
    AccessedFeatures,
    IdList,
    IdListWithEvicted,
    IdScoreList,
    IdScoreListWithEvicted,
    almost_equal_schemas,
    get_avg_length,
    get_categorical_limit,
    get_key,
    is_request_only_scalar,
    set_request_only,
)
from netgrad.caffe2.python.layers.registry import (
    create_layer,
    get_layer_class,
    layer_exists,
    register_layer,
    registered_layers,
)

__all__ = [
    "AccessedFeatures",
    "IdList",
    "IdListWithEvicted",
    "IdScoreList",
    "IdScoreListWithEvicted",
    "InstantiationContext",
    "LayerParameter",
    "LayerPsParam",
    "ModelLayer",
    "almost_equal_schemas",
    "create_layer",
    "get_avg_length",
    "get_categorical_limit",
    "get_key",
    "get_layer_class",
    "is_request_only_scalar",
    "layer_exists",
    "register_layer",
    "registered_layers",
    "set_request_only",
]
