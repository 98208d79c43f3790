"""Writing a model with its parameters to one database, and reading it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption, MetaNetDef, NetDef, PlanDef
from netgrad.caffe2.python import core, scope, workspace
from netgrad.caffe2.python.predictor import predictor_py_utils as utils
from netgrad.caffe2.python.predictor import serde
from netgrad.caffe2.python.predictor_constants import predictor_constants
from netgrad.caffe2.running.workspace import Workspace


class _Meta(NamedTuple):
    predict_net: NetDef | PlanDef
    parameters: list[str]
    inputs: list[str]
    outputs: list[str]
    shapes: dict[str, Sequence[int]]
    name: str
    extra_init_net: core.Net | None
    global_init_net: core.Net | None
    net_type: str | None
    num_workers: int | None
    trainer_prefix: str | None


class PredictorExportMeta(_Meta):
    """What is to be known of a model to save it.

    Attributes:
        predict_net: The net that predicts.
        parameters: The blobs that are saved with it.
        inputs: The blobs that it is given.
        outputs: The blobs that it gives.
        shapes: Shapes of inputs and outputs; of those that aren't here the workspace's blobs say it.
        name: Tells several models apart.
        extra_init_net: Runs behind the net that fills inputs and outputs.
        global_init_net: Runs behind the net that loads the parameters.
        net_type: The type of the saved net.
        num_workers: How many threads it may use.
        trainer_prefix: Tells trainers apart.
    """

    def __new__(
        cls,
        predict_net: Any,
        parameters: Iterable[Any],
        inputs: Iterable[Any],
        outputs: Iterable[Any],
        shapes: Mapping[str, Sequence[int]] | None = None,
        name: str = "",
        extra_init_net: core.Net | None = None,
        global_init_net: core.Net | None = None,
        net_type: str | None = None,
        num_workers: int | None = None,
        trainer_prefix: str | None = None,
    ) -> PredictorExportMeta:
        """Describe a model; blobs are names or references, the net an object or message.

        Raises:
            AssertionError: An input is there twice, a parameter is an input or output, or the net is
                something else.
        """
        read, written, kept = ([str(blob) for blob in blobs] for blobs in (inputs, outputs, parameters))
        assert len(set(read)) == len(read), f"All inputs to the predictor should be unique: {read}"
        for kind, blobs in (("inputs", read), ("outputs", written)):
            both = sorted(set(kept) & set(blobs))
            assert not both, f"Parameters and {kind} are required to be disjoint. Intersection: {both}"
        net = predict_net.Proto() if isinstance(predict_net, core.Net | core.Plan) else predict_net
        assert isinstance(net, NetDef | PlanDef), f"a net or a plan, not {type(predict_net).__name__}"
        return super().__new__(
            cls,
            net,
            kept,
            read,
            written,
            dict(shapes or {}),
            name,
            extra_init_net,
            global_init_net,
            net_type,
            num_workers,
            trainer_prefix,
        )

    def inputs_name(self) -> str:
        """The key of the inputs."""
        return utils.get_comp_name(predictor_constants.INPUTS_BLOB_TYPE, self.name)

    def outputs_name(self) -> str:
        """The key of the outputs."""
        return utils.get_comp_name(predictor_constants.OUTPUTS_BLOB_TYPE, self.name)

    def parameters_name(self) -> str:
        """The key of the parameters."""
        return utils.get_comp_name(predictor_constants.PARAMETERS_BLOB_TYPE, self.name)

    def global_init_name(self) -> str:
        """The key of the net that loads the parameters."""
        return utils.get_comp_name(predictor_constants.GLOBAL_INIT_NET_TYPE, self.name)

    def predict_init_name(self) -> str:
        """The key of the net that fills inputs and outputs."""
        return utils.get_comp_name(predictor_constants.PREDICT_INIT_NET_TYPE, self.name)

    def predict_net_name(self) -> str:
        """The key of the net that predicts."""
        return utils.get_comp_name(predictor_constants.PREDICT_NET_TYPE, self.name)

    def train_init_plan_name(self) -> str:
        """The key of the plan that starts a training."""
        return utils.get_comp_name(predictor_constants.TRAIN_INIT_PLAN_TYPE, self.name)

    def train_plan_name(self) -> str:
        """The key of the plan that trains."""
        return utils.get_comp_name(predictor_constants.TRAIN_PLAN_TYPE, self.name)


def get_predictor_exporter_helper(submodelNetName: str) -> PredictorExportMeta:
    """A description of no model, which only says the keys for one of that name."""
    return PredictorExportMeta(core.Net(submodelNetName), [], [], [], name=submodelNetName)


def _global_init_net(predictor_export_meta: PredictorExportMeta) -> NetDef:
    """The net that loads the parameters from the reader of the database."""
    net = core.Net("global-init")
    net.Load(_unscoped([predictor_constants.PREDICTOR_DBREADER]), _unscoped(predictor_export_meta.parameters))
    net.Proto().external_output.extend(predictor_export_meta.parameters)
    if predictor_export_meta.global_init_net:
        net.AppendNet(predictor_export_meta.global_init_net)
    utils.AddModelIdArg(predictor_export_meta, net.Proto())
    return net.Proto()


def get_meta_net_def(
    predictor_export_meta: PredictorExportMeta, ws: Workspace | None = None, db_type: str | None = None
) -> MetaNetDef:
    """The message of a model: its nets, and which blobs are what.

    Args:
        predictor_export_meta: The model.
        ws: The workspace whose blobs say missing shapes; the current one without it.
        db_type: Not used.

    Raises:
        Exception: The shape of an input or output isn't known.
    """
    meta, described = predictor_export_meta, MetaNetDef()
    init_net = utils.create_predict_init_net(ws or workspace.C.Workspace.current, meta)
    utils.AddNet(described, meta.predict_init_name(), init_net)
    utils.AddNet(described, meta.global_init_name(), _global_init_net(meta))
    utils.AddNet(described, meta.predict_net_name(), utils.create_predict_net(meta))
    utils.AddBlobs(described, meta.parameters_name(), meta.parameters)
    utils.AddBlobs(described, meta.inputs_name(), meta.inputs)
    utils.AddBlobs(described, meta.outputs_name(), meta.outputs)
    return described


def set_model_info(meta_net_def: MetaNetDef, project_str: str, model_class_str: str, version: str) -> None:
    """Note what model it is."""
    assert isinstance(meta_net_def, MetaNetDef), f"a message of a model, not {type(meta_net_def).__name__}"
    meta_net_def.modelInfo.project = project_str
    meta_net_def.modelInfo.modelClass = model_class_str
    meta_net_def.modelInfo.version = version


def save_to_db(
    db_type: str,
    db_destination: str,
    predictor_export_meta: PredictorExportMeta,
    use_ideep: bool = False,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Write a model and its parameters, which are in the current workspace, to a database.

    Args:
        db_type: The kind of database.
        db_destination: Its path.
        predictor_export_meta: The model.
        use_ideep: No difference: there is one kind of tensors.
        *args: See `get_meta_net_def`.
        **kwargs: Likewise.

    Raises:
        RunError: A parameter isn't there, or the database can't be written.
    """
    described = get_meta_net_def(predictor_export_meta, *args, **kwargs)
    content = serde.serialize_protobuf_struct(described)
    device = core.DeviceOption(CPU)
    workspace.FeedBlob(predictor_constants.META_NET_DEF, content, device)
    save = core.CreateOperator(
        "Save",
        _unscoped([predictor_constants.META_NET_DEF, *predictor_export_meta.parameters]),
        [],
        device_option=device,
        absolute_path=True,
        db=db_destination,
        db_type=db_type,
    )
    workspace.RunOperatorOnce(save)


def load_from_db(
    filename: str, db_type: str, device_option: DeviceOption | None = None, *args: Any, **kwargs: Any
) -> MetaNetDef:
    """The message of a model in a database; its nets load the parameters from the reader that this creates.

    Args:
        filename: The path of the database.
        db_type: Its kind.
        device_option: Where the operators of its nets run; without it where the device scope says, if any.
        *args: Not used.
        **kwargs: Not used.

    Raises:
        RunError: There is no such database, or it holds no model.
    """
    reader, blob = _unscoped([predictor_constants.PREDICTOR_DBREADER, predictor_constants.META_NET_DEF])
    workspace.RunOperatorOnce(
        core.CreateOperator("CreateDB", [], [reader], db=filename, db_type=db_type, absolute_path=True)
    )
    workspace.RunOperatorOnce(core.CreateOperator("Load", [reader], [blob]))
    described = serde.deserialize_protobuf_struct(workspace.FetchBlob(blob), MetaNetDef)
    device = device_option if device_option is not None else scope.CurrentDeviceScope()
    if device is not None:
        for pair in described.nets:
            for op in pair.value.op:
                op.device_option.CopyFrom(device)
    return described


def prepare_prediction_net(
    filename: str, db_type: str, device_option: DeviceOption | None = None
) -> core.Net:
    """Load a model into the current workspace; the net that predicts, which is created there.

    Args:
        filename: The path of the database.
        db_type: Its kind.
        device_option: See `load_from_db`.

    Raises:
        RunError: See `load_from_db`.
    """
    described = load_from_db(filename, db_type, device_option)
    workspace.RunNetOnce(utils.GetNet(described, predictor_constants.GLOBAL_INIT_NET_TYPE))
    workspace.RunNetOnce(utils.GetNet(described, predictor_constants.PREDICT_INIT_NET_TYPE))
    net = core.Net(utils.GetNet(described, predictor_constants.PREDICT_NET_TYPE))
    workspace.CreateNet(net)
    return net


def _unscoped(names: Iterable[str]) -> list[core.BlobReference]:
    return [core.BlobReference(name) for name in names]
