"""Keys of the nets, plans and lists of blobs of saved models, and names of blobs that loading uses."""

from __future__ import annotations

from dataclasses import dataclass

from netgrad.caffe2.load import META_KEY, READER_BLOB


@dataclass(frozen=True)
class PredictorConsts:
    """The constants, each under its name."""

    META_NET_DEF: str = META_KEY
    PREDICTOR_DBREADER: str = READER_BLOB
    PARAMETERS_BLOB_TYPE: str = "PARAMETERS_BLOB_TYPE"
    INPUTS_BLOB_TYPE: str = "INPUTS_BLOB_TYPE"
    OUTPUTS_BLOB_TYPE: str = "OUTPUTS_BLOB_TYPE"
    GLOBAL_INIT_NET_TYPE: str = "GLOBAL_INIT_NET_TYPE"
    PREDICT_INIT_NET_TYPE: str = "PREDICT_INIT_NET_TYPE"
    PREDICT_NET_TYPE: str = "PREDICT_NET_TYPE"
    SINGLE_PREDICTOR: str = "SINGLE_PREDICTOR"
    MULTI_PREDICTOR: str = "MULTI_PREDICTOR"
    TRAIN_INIT_PLAN_TYPE: str = "TRAIN_INIT_PLAN_TYPE"
    TRAIN_PLAN_TYPE: str = "TRAIN_PLAN_TYPE"


predictor_constants = PredictorConsts()
