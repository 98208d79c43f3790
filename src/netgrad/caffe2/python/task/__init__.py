"""Tasks: steps that run once on a node, in groups that run at once. What scripts know as ``task``."""

from netgrad.caffe2.python.task.cluster import Cluster, Node, WorkspaceType
from netgrad.caffe2.python.task.group import TaskGroup
from netgrad.caffe2.python.task.outputs import TaskOutput, TaskOutputList
from netgrad.caffe2.python.task.setup import SetupNets, add_setup_steps, get_setup_nets
from netgrad.caffe2.python.task.task import Task, final_output

__all__ = [
    "Cluster",
    "Node",
    "SetupNets",
    "Task",
    "TaskGroup",
    "TaskOutput",
    "TaskOutputList",
    "WorkspaceType",
    "add_setup_steps",
    "final_output",
    "get_setup_nets",
]
