"""Nodes of a net's graph: operators and the tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import DeviceOption, OperatorDef
from netgrad.caffe2.running.errors import RunError


class NeuralNetOperator:
    """An operator of some type."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        """The operator's type."""
        return self._name


class NeuralNetData:
    """A tensor: one value of a blob."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        """The name of the blob."""
        return self._name


class Annotation:
    """What is known of a node besides its neighbours."""

    def __init__(self) -> None:
        self._device = ""
        self._device_type = 0
        self._levels: list[str] = []
        self._key: Node | None = None
        self._length: Node | None = None
        self._operator: OperatorDef | None = None
        self._option: DeviceOption | None = None

    def getDevice(self) -> str:
        """The name of the device, a free text."""
        return self._device

    def setDevice(self, device: str) -> None:
        """Set the name of the device."""
        self._device = device

    def getDeviceType(self) -> int:
        """The kind of the device, a free number."""
        return self._device_type

    def setDeviceType(self, device_type: int) -> None:
        """Set the kind of the device."""
        self._device_type = device_type

    def getComponentLevels(self) -> list[str]:
        """The names of the components that the node is in."""
        return list(self._levels)

    def setComponentLevels(self, levels: Sequence[str]) -> None:
        """Set the names of the components that the node is in."""
        self._levels = list(levels)

    def getKeyNode(self) -> Node | None:
        """The node of the keys that go with this one."""
        return self._key

    def setKeyNode(self, node: Node) -> None:
        """Set the node of the keys that go with this one."""
        self._key = node

    def getLengthNode(self) -> Node | None:
        """The node of the lengths that go with this one."""
        return self._length

    def setLengthNode(self, node: Node) -> None:
        """Set the node of the lengths that go with this one."""
        self._length = node

    def hasDeviceOption(self) -> bool:
        """Whether a device has been set."""
        return self._option is not None

    @property
    def device_option(self) -> DeviceOption:
        """A copy of the device."""
        option = DeviceOption()
        if self._option is not None:
            option.CopyFrom(self._option)
        return option

    @device_option.setter
    def device_option(self, option: DeviceOption) -> None:
        self._option = DeviceOption()
        self._option.CopyFrom(option)
        if self._operator is not None:
            self._operator.device_option.CopyFrom(option)

    @property
    def operator_def(self) -> OperatorDef:
        """A copy of the operator's definition.

        Raises:
            RunError: The node is no operator.
        """
        if self._operator is None:
            raise RunError("only operators have a definition: this annotation is none of an operator")
        definition = OperatorDef()
        definition.CopyFrom(self._operator)
        return definition

    @operator_def.setter
    def operator_def(self, definition: OperatorDef) -> None:
        self._operator = OperatorDef()
        self._operator.CopyFrom(definition)
        if definition.HasField("device_option"):
            self.device_option = definition.device_option


class Edge:
    """An edge from one node to another."""

    def __init__(self, tail: Node, head: Node) -> None:
        self.tail = tail
        self.head = head


class Node:
    """A node of a graph.

    Attributes:
        incoming: The edges that end here, in the order of an operator's inputs.
        outgoing: The edges that begin here, in the order of an operator's outputs.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        self.incoming: list[Edge] = []
        self.outgoing: list[Edge] = []
        self._annotation = Annotation()
        if isinstance(value, NeuralNetOperator):
            self._annotation.operator_def = OperatorDef(type=value.getName())

    def isOperator(self) -> bool:
        """Whether the node is an operator."""
        return isinstance(self.value, NeuralNetOperator)

    def isTensor(self) -> bool:
        """Whether the node is a tensor."""
        return isinstance(self.value, NeuralNetData)

    def getType(self) -> str:
        """``Operator``, ``Tensor``, or ``Unknown`` in a graph of another kind."""
        return "Operator" if self.isOperator() else "Tensor" if self.isTensor() else "Unknown"

    def getName(self) -> str:
        """The operator's type, or the tensor's name."""
        return str(self.value.getName() if self.isOperator() or self.isTensor() else self.value)

    def getOperator(self) -> NeuralNetOperator:
        """The operator of the node."""
        self._need("Operator")
        operator: NeuralNetOperator = self.value
        return operator

    def getTensor(self) -> NeuralNetData:
        """The tensor of the node."""
        self._need("Tensor")
        tensor: NeuralNetData = self.value
        return tensor

    def getInputs(self) -> list[Node]:
        """The tensors that the operator reads, in order."""
        self._need("Operator")
        return [edge.tail for edge in self.incoming]

    def getOutputs(self) -> list[Node]:
        """The tensors that the operator writes, in order."""
        self._need("Operator")
        return [edge.head for edge in self.outgoing]

    def hasProducer(self) -> bool:
        """Whether an operator writes the tensor."""
        self._need("Tensor")
        return bool(self.incoming)

    def getProducer(self) -> Node:
        """The operator that writes the tensor.

        Raises:
            RunError: There is none.
        """
        if not self.hasProducer():
            raise RunError(f"no operator writes the tensor '{self.getName()}'")
        return self.incoming[0].tail

    def getConsumers(self) -> list[Node]:
        """The operators that read the tensor."""
        self._need("Tensor")
        return [edge.head for edge in self.outgoing]

    def getOperatorPredecessors(self) -> list[Node]:
        """The operators that write what this one reads."""
        found = [edge.tail for tensor in self.getInputs() for edge in tensor.incoming]
        return list(dict.fromkeys(found))

    def getOperatorSuccessors(self) -> list[Node]:
        """The operators that read what this one writes."""
        found = [edge.head for tensor in self.getOutputs() for edge in tensor.outgoing]
        return list(dict.fromkeys(found))

    def getAnnotation(self) -> Annotation:
        """What is known of the node besides its neighbours; changes of it count."""
        return self._annotation

    def setAnnotation(self, annotation: Annotation) -> None:
        """Set what is known of the node; an operator keeps its definition if the annotation has none."""
        if self.isOperator() and annotation._operator is None:
            annotation.operator_def = self._annotation.operator_def
        self._annotation = annotation

    name = property(getName)
    type = property(getType)
    operator = property(getOperator)
    tensor = property(getTensor)
    inputs = property(getInputs)
    outputs = property(getOutputs)
    producer = property(getProducer)
    consumers = property(getConsumers)
    annotation = property(getAnnotation, setAnnotation)

    def _need(self, kind: str) -> None:
        if self.getType() != kind:
            raise RunError(f"the node '{self.getName()}' is no {kind}, but: {self.getType()}")
