"""A net together with the net that initializes its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.makers.types import is_operator, near_types, registered_types
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.core.shared_gradients import separate_gradients
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo, ParameterTags
from netgrad.caffe2.python.modeling.parameter_sharing import parameter_sharing_context
from netgrad.caffe2.python.optimizer_context import DEFAULT_OPTIM, OptimizerContext
from netgrad.caffe2.python.predictor_part import ExtractPredictorNet as ExtractPredictorNet

_INITIALIZES = "/param_init_net"  # the mark of operators of the initializing net in a complete one


class ModelHelper:
    """Builds a model: layers add operators to ``net``, and the fills of their parameters to the other net.

    Attributes:
        net: The model.
        param_init_net: Writes the parameters.
        param_to_grad: Parameter to gradient, once there are gradients.
        grad_map: Blob to gradient, likewise.
        gradient_ops_added: Whether there are.
        params: The trainable parameters, in order of creation.
        weights: Those that are weights.
        biases: Those that are biases.
    """

    def __init__(
        self,
        name: str | None = None,
        init_params: bool = True,
        allow_not_known_ops: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
        arg_scope: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a model.

        Args:
            name: Its name; without one ``model``.
            init_params: Whether parameters get fills.
            allow_not_known_ops: Whether operators that no helper is for may be added.
            skip_sparse_optim: Whether optimizers leave out parameters whose gradients are rows.
            param_model: Another model whose parameters this one shares.
            arg_scope: Defaults of layers.
        """
        self.name = name or "model"
        self.net = core.Net(self.name)
        shared = param_model
        self.param_init_net: core.Net = (
            shared.param_init_net if shared is not None else core.Net(f"{self.name}_init")
        )
        self.param_to_grad: dict[Any, Any] = {} if shared is None else shared.param_to_grad
        self.params: list[Any] = [] if shared is None else shared.params
        self.weights: list[Any] = [] if shared is None else shared.weights
        self.biases: list[Any] = [] if shared is None else shared.biases
        self._parameters_info: dict[str, ParameterInfo] = {} if shared is None else shared._parameters_info
        self._computed_params: list[Any] = [] if shared is None else shared._computed_params
        self._devices: list[Any] = []
        self.gradient_ops_added = False
        self.init_params = init_params
        self.allow_not_known_ops = allow_not_known_ops
        self.skip_sparse_optim = skip_sparse_optim
        self.grad_map: dict[str, Any] = {}
        self.arg_scope: dict[str, Any] = {
            "order": "NCHW",
            "use_cudnn": True,
            "cudnn_exhaustive_search": False,
            **(arg_scope or {}),
        }

    def get_name(self) -> str:
        """The model's name."""
        return self.name

    # ---- parameters --------------------------------------------------------------------------------

    def create_param(self, param_name: Any, shape: Any, initializer: Any, tags: Any = None) -> Any:
        """Add an initializer's operator, and register the parameter.

        Args:
            param_name: A text gets the name scope, redirected where parameters are shared; a reference is
                taken as it is.
            shape: Its shape.
            initializer: What adds the operator.
            tags: What it is for.

        Returns:
            The blob; an existing parameter of that name if there is one.

        Raises:
            TypeError: The name is something else.
        """
        if isinstance(param_name, core.BlobReference):
            name = str(param_name)
        elif isinstance(param_name, str):
            name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise TypeError(f"a parameter's name is a text or a reference, not {param_name!r}")
        if name in self._parameters_info:
            known = self._parameters_info[name]
            assert list(known.shape) == list(shape), f"parameter {name} exists with another shape"
            return known.blob
        info = initializer.create_param(
            param_name=core.BlobReference(name), init_net=self.param_init_net, shape=shape
        )
        info.optimizer = _optimizer_for(_tags(tags))
        self.AddParameter(info, tags)
        return info.blob

    def AddParameter(self, param: Any, tags: Any = None) -> None:
        """Register a blob as a parameter; with the tag ``COMPUTED_PARAM`` as one that isn't trained."""
        info = param if isinstance(param, ParameterInfo) else ParameterInfo(param_id=None, param=param)
        tagged = _tags(tags)
        self._parameters_info[info.name] = info
        if ParameterTags.COMPUTED_PARAM in tagged:
            self._computed_params.append(info.blob)
            return
        self.params.append(info.blob)
        if ParameterTags.WEIGHT in tagged:
            self.weights.append(info.blob)
        if ParameterTags.BIAS in tagged:
            self.biases.append(info.blob)

    def get_param_info(self, param: Any) -> ParameterInfo | None:
        """What is known of a parameter."""
        return self._parameters_info.get(str(param))

    def add_param_DEPRECATED(
        self, param: Any, key: Any = None, shape: Any = None, length: int | None = None
    ) -> None:
        """Register a parameter in the old way."""
        self.AddParameter(ParameterInfo(len(self._parameters_info), param, key, shape, length))

    @property
    def param_info(self) -> list[ParameterInfo]:
        """What is known of the parameters, in order of creation."""
        return list(self._parameters_info.values())

    def GetParams(self, namescope: str | None = None, top_scope: bool = False) -> list[Any]:
        """The trainable parameters of a name scope and those inside of it.

        Args:
            namescope: The scope; None for the current one, ``''`` for all.
            top_scope: No difference: scopes inside count in any case.
        """
        return _in_scope(self.params, namescope)

    def GetComputedParams(self, namescope: str | None = None) -> list[Any]:
        """The parameters that aren't trained, such as running averages."""
        return _in_scope(self._computed_params, namescope)

    def GetAllParams(self, namescope: str | None = None) -> list[Any]:
        """Both."""
        return self.GetParams(namescope) + self.GetComputedParams(namescope)

    def _Validate(self) -> list[str]:
        """The names of parameters that are registered twice."""
        counts = Counter(str(param) for param in self.params)
        return [name for name, count in counts.items() if count > 1]

    def Validate(self) -> None:
        """Check that no parameter is registered twice.

        Raises:
            AssertionError: One is.
        """
        duplicates = self._Validate()
        assert not duplicates, f"parameters are registered twice: {', '.join(duplicates)}"

    # ---- gradients ---------------------------------------------------------------------------------

    def AddGradientOperators(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Append the backward pass, once; returns the map from blob to gradient.

        Raises:
            RuntimeError: There are gradients already.
        """
        if self.gradient_ops_added:
            raise RuntimeError("the model has its gradients: AddGradientOperators is called once")
        self.Validate()
        self.gradient_ops_added = True
        self.grad_map = self.net.AddGradientOperators(*args, **kwargs)
        separate_gradients(self.net, self.params, self.grad_map)
        self.param_to_grad.update(self.get_param_to_grad(self.params))
        for info in self._parameters_info.values():
            info.grad = self.param_to_grad.get(info.blob)
        return self.grad_map

    def get_param_to_grad(self, params: Sequence[Any]) -> dict[Any, Any]:
        """Parameter to gradient; those without one are left out.

        Raises:
            RuntimeError: There are no gradients yet.
        """
        if not self.gradient_ops_added:
            raise RuntimeError("the model has no gradients yet: call AddGradientOperators")
        return {param: self.grad_map[str(param)] for param in params if str(param) in self.grad_map}

    def GetOptimizationParamInfo(self, params: Sequence[Any] | None = None) -> list[ParameterInfo]:
        """What is known of the parameters that have a gradient; see also ``skip_sparse_optim``."""
        chosen = self.params if params is None else params
        found = []
        for param, grad in self.get_param_to_grad(chosen).items():
            if self.skip_sparse_optim and isinstance(grad, core.GradientSlice):
                continue
            info = self.get_param_info(param)
            if info is None:  # one that was put in ``params`` by hand
                info = ParameterInfo(param_id=None, param=param)
            info.grad = grad
            found.append(info)
        return found

    # ---- nets --------------------------------------------------------------------------------------

    def Proto(self) -> NetDef:
        """The message of the net."""
        return self.net.Proto()

    def InitProto(self) -> NetDef:
        """The message of the initializing net."""
        return self.param_init_net.Proto()

    def GetCompleteNet(self) -> core.Net:
        """One net of both: the operators of the initializing net, which are marked, and then the others."""
        complete = self.param_init_net.Clone(f"{self.name}_complete_net", keep_schema=True)
        for op in complete.Proto().op:
            op.debug_info += _INITIALIZES
        complete.AppendNet(self.net)
        if self.net.Proto().HasField("type"):
            complete.Proto().type = self.net.Proto().type
        return complete

    def ConstructInitTrainNetfromNet(self, net: core.Net) -> None:
        """Take both nets from one that `GetCompleteNet` has put together."""
        marked = [op.debug_info.endswith(_INITIALIZES) for op in net.Proto().op]
        for name, attribute, wanted in (
            ("generated_param_init_net", "param_init_net", True),
            ("generated_net", "net", False),
        ):
            mask = [index for index, is_marked in enumerate(marked) if is_marked == wanted]
            part = net.Clone(f"{net.Name()}/{name}", op_id_mask=mask, update_external_list=True)
            setattr(self, attribute, part)

    def RunAllOnGPU(self, *args: Any, **kwargs: Any) -> None:
        """Set the device of both nets."""
        self.param_init_net.RunAllOnGPU(*args, **kwargs)
        self.net.RunAllOnGPU(*args, **kwargs)

    def CreateDB(self, blob_out: Any, db: str, db_type: str, **kwargs: Any) -> Any:
        """Open a database when the model is initialized."""
        return self.param_init_net.CreateDB([], blob_out, db=db, db_type=db_type, **kwargs)

    def TensorProtosDBInput(
        self, unused_blob_in: Any, blob_out: Any, batch_size: int, db: str, db_type: str, **kwargs: Any
    ) -> Any:
        """Read batches of tensors from a database."""
        assert len(unused_blob_in) == 0, "a reader has no inputs"
        reader = self.param_init_net.CreateDB([], f"dbreader_{db}", db=db, db_type=db_type)
        return self.net.TensorProtosDBInput(reader, blob_out, batch_size=batch_size, **kwargs)

    def GetDevices(self) -> list[Any]:
        """The devices of a data-parallel model."""
        assert self._devices, "use data_parallel_model to run the model on several devices"
        return self._devices

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        if not is_operator(op_type):
            raise AttributeError(f"there is no method or operator {op_type}{near_types(op_type)}")
        if not self.allow_not_known_ops:
            raise AttributeError(f"operator {op_type} is not known to the model")
        function: Callable[..., Any] = getattr(self.net, op_type)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *registered_types()})


def _optimizer_for(tags: Sequence[str]) -> Any:
    """The optimizer in force for a parameter with these tags, or None."""
    context = OptimizerContext.current()
    found = (tag for tag in (*tags, DEFAULT_OPTIM) if context.has_optimizer(tag))
    name = next(found, None)
    return None if name is None else context.get_optimizer(name)


def _tags(tags: Any) -> list[str]:
    if tags is None:
        return []
    return [tags] if isinstance(tags, str) else list(tags)


def _in_scope(params: Sequence[Any], namescope: str | None) -> list[Any]:
    wanted = scope.CurrentNameScope() if namescope is None else namescope
    if wanted and not wanted.endswith("/"):
        wanted += "/"
    return [param for param in params if str(param).startswith(wanted)]
