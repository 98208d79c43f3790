"""The nets of a saved model, and what its message holds by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from netgrad.caffe2.caffe2_pb2 import Argument, MetaNetDef, NetDef, PlanDef
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.running.workspace import Workspace

if TYPE_CHECKING:
    from netgrad.caffe2.python.predictor.predictor_exporter import PredictorExportMeta


def create_predict_net(predictor_export_meta: PredictorExportMeta) -> NetDef:
    """The net that predicts, with the inputs, parameters and outputs that were said, and nothing else set."""
    given = predictor_export_meta.predict_net
    assert isinstance(given, NetDef), "a plan has no net that predicts"
    net = core.Net(given.name or "predict").Proto()
    net.op.extend(given.op)
    net.arg.extend(given.arg)
    net.external_input.extend(predictor_export_meta.inputs + predictor_export_meta.parameters)
    net.external_output.extend(predictor_export_meta.outputs)
    if predictor_export_meta.net_type is not None:
        net.type = predictor_export_meta.net_type
    if predictor_export_meta.num_workers is not None:
        net.num_workers = predictor_export_meta.num_workers
    return net


def create_predict_init_net(ws: Workspace, predictor_export_meta: PredictorExportMeta) -> NetDef:
    """A net that fills inputs and outputs with zeros, so that they are there when the other net is created.

    Args:
        ws: The workspace whose blobs say the shapes that the model doesn't.
        predictor_export_meta: The model.

    Raises:
        Exception: A shape isn't known.
    """
    net = core.Net("predict-init")
    blobs = predictor_export_meta.inputs + predictor_export_meta.outputs
    for blob in blobs:
        shape = predictor_export_meta.shapes.get(blob)
        if shape is None:
            if not ws.has_blob(blob):
                raise Exception(f"{blob} not in workspace but needed for shape: {ws.names()}")
            shape = ws.fetch_blob(blob).shape
        with scope.EmptyDeviceScope():  # the device of the whole net is to count
            net.ConstantFill([], core.BlobReference(blob), shape=list(shape), value=0.0)
    net.Proto().external_input.extend(blobs)
    if predictor_export_meta.extra_init_net:
        net.AppendNet(predictor_export_meta.extra_init_net)
    AddModelIdArg(predictor_export_meta, net.Proto())
    return net.Proto()


def get_comp_name(string: str, name: str) -> str:
    """A key for one of several models: ``string_name``, or ``string`` without a name."""
    return f"{string}_{name}" if name else string


def _value_of(pairs: Iterable[Any], key: str) -> Any:
    return next((pair.value for pair in pairs if pair.key == key), None)


def GetNet(meta_net_def: MetaNetDef, key: str) -> Any:
    """The net of a key, or None."""
    return _value_of(meta_net_def.nets, key)


GetNetOriginal = GetNet


def GetPlan(meta_net_def: MetaNetDef, key: str) -> Any:
    """The plan of a key, or None."""
    return _value_of(meta_net_def.plans, key)


GetPlanOriginal = GetPlan


def GetApplicationSpecificInfo(meta_net_def: MetaNetDef, key: str) -> Any:
    """What the application has noted under a key, or None."""
    return _value_of(meta_net_def.applicationSpecificInfo, key)


def GetBlobs(meta_net_def: MetaNetDef, key: str) -> Any:
    """The blobs of a key; none if there is no such key."""
    found = _value_of(meta_net_def.blobs, key)
    return [] if found is None else found


def GetBlobsByTypePrefix(meta_net_def: MetaNetDef, blob_type_prefix: str) -> list[str]:
    """The blobs of all keys that start so, each once, in the order of their first use."""
    found = (blobs.value for blobs in meta_net_def.blobs if blobs.key.startswith(blob_type_prefix))
    return list(dict.fromkeys(blob for blobs in found for blob in blobs))


def AddBlobs(meta_net_def: MetaNetDef, blob_name: str, blob_def: Iterable[Any]) -> None:
    """Add blobs to those of a key."""
    blobs = _value_of(meta_net_def.blobs, blob_name)
    if blobs is None:
        blobs = meta_net_def.blobs.add(key=blob_name).value
    blobs.extend(str(blob) for blob in blob_def)


def ReplaceBlobs(meta_net_def: MetaNetDef, blob_name: str, blob_def: Iterable[Any]) -> None:
    """Put blobs in the place of those of a key.

    Raises:
        AssertionError: There is no such key.
    """
    blobs = _value_of(meta_net_def.blobs, blob_name)
    assert blobs is not None, f"the model has no blobs {blob_name}"
    del blobs[:]
    blobs.extend(str(blob) for blob in blob_def)


def AddPlan(meta_net_def: MetaNetDef, plan_name: str, plan_def: PlanDef) -> None:
    """Add a plan under a key."""
    meta_net_def.plans.add(key=plan_name, value=plan_def)


def AddNet(meta_net_def: MetaNetDef, net_name: str, net_def: NetDef) -> None:
    """Add a net under a key."""
    meta_net_def.nets.add(key=net_name, value=net_def)


def GetArgumentByName(net_def: Any, arg_name: str) -> Argument | None:
    """The argument of a net, or None."""
    return next((argument for argument in net_def.arg if argument.name == arg_name), None)


def AddModelIdArg(meta_net_def: Any, net_def: NetDef) -> None:
    """Give a net the argument ``model_id`` that the net which predicts has, if it has one."""
    if isinstance(meta_net_def.predict_net, PlanDef):
        return
    found = GetArgumentByName(meta_net_def.predict_net, "model_id")
    if found is None:
        return
    own = GetArgumentByName(net_def, "model_id") or net_def.arg.add()
    own.CopyFrom(found)
