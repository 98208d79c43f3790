"""What is set or noted for a whole net."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.caffe2_pb2 import CUDA, IDEEP, MKLDNN, DeviceOption
from netgrad.caffe2.python.core.tracebacks import operator_tracebacks
from netgrad.caffe2.python.native import workspaces
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.observers import Observer, make_observer


class NetSettings:
    """The part of a net that has to do with all of its operators: devices, seeds, observers, notes."""

    def RunAllOnGPU(self: Any, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        """Set the net's device, and that of its step nets; with ``use_cudnn`` also the operators' engine."""
        nets = [self._net]
        while nets:
            net = nets.pop()
            net.device_option.CopyFrom(DeviceOption(device_type=CUDA, device_id=gpu_id))
            for op in net.op:
                if use_cudnn:
                    op.engine = "CUDNN"
                if op.type == "RecurrentNetwork":
                    nets.extend(argument.n for argument in op.arg if argument.name == "step_net")

    def RunAllOnMKL(self: Any) -> None:
        """Set the net's device."""
        self._net.device_option.CopyFrom(DeviceOption(device_type=MKLDNN))

    def RunAllOnIDEEP(self: Any) -> None:
        """Set the net's device."""
        self._net.device_option.CopyFrom(DeviceOption(device_type=IDEEP))

    def PopulateProtoWithFileName(self: Any) -> None:
        """Name the operators after the place in the script that has added them: ``file:line:function``."""
        places = operator_tracebacks.get(self.Name(), {})
        for index, op in enumerate(self.Proto().op):
            if places.get(index):
                op.name = ":".join(str(part) for part in places[index][0])

    def set_rand_seed(
        self: Any, seed: int = 100, sequence_seed: bool = True, seed_on_op_def: bool = False
    ) -> None:
        """Seed the operators, one by one or all alike: in their device options or an argument ``seed``."""
        for count, op in enumerate(self._net.op):
            own = seed + count if sequence_seed else seed
            if seed_on_op_def:
                op.arg.add(name="seed", i=own)
            else:
                op.device_option.random_seed = own

    def AddObserver(self: Any, observer_type: str) -> Observer:
        """Watch the runs of this net, which was created in the current workspace.

        Raises:
            RunError: It was not created there, or there are no observers of that type.
        """
        created = workspaces.current().net(self.Name())
        created.observers.append(make_observer(observer_type, created))
        return created.observers[-1]

    def RemoveObserver(self: Any, observer: Observer) -> None:
        """Watch the net's runs no more.

        Raises:
            RunError: It was not created, or the observer is none of it.
        """
        observers = workspaces.current().net(self.Name()).observers
        if observer not in observers:
            raise RunError(f"net {self.Name()} has no such observer")
        observers.remove(observer)

    def NumObservers(self: Any) -> int:
        """How many observers the net has."""
        return len(workspaces.current().net(self.Name()).observers)

    def add_attribute(self: Any, name: str, obj: Any) -> None:
        """Note ``obj`` under a name."""
        self._attributes.setdefault(name, []).append(obj)

    def get_attributes(self: Any, name: str) -> list[Any]:
        """What was noted under a name."""
        found: list[Any] = self._attributes.get(name, [])
        return found
