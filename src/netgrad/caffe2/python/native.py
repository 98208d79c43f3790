"""What the original has in its native module ``C``, as far as it has a Python form here."""

from __future__ import annotations

from netgrad.caffe2.lowering.registry import LOWERINGS
from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.onnx_import.one_node import NodeConverter
from netgrad.caffe2.running.blob import Blob, Tensor
from netgrad.caffe2.running.databases import (
    Database,
    OpenMode,
    Transaction,
    open_database,
    registered_kinds,
)
from netgrad.caffe2.running.workspace import Workspace


class Workspaces:
    """The workspaces of the process.

    Attributes:
        by_name: All of them.
        name: The name of the current one.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Workspace] = {"default": Workspace()}
        self.name = "default"

    def current(self) -> Workspace:
        """The current one."""
        return self.by_name[self.name]


workspaces = Workspaces()


class _CurrentOf(type):
    @property
    def current(cls) -> Workspace:
        """The current workspace."""
        return workspaces.current()


class _Workspace(Workspace, metaclass=_CurrentOf):
    """A workspace as an object of its own."""


class C:
    """The native module of the original."""

    Workspace = _Workspace
    Blob = Blob
    Tensor = Tensor
    Mode = OpenMode
    DummyName = DummyName
    Caffe2Backend = NodeConverter
    use_mkldnn = False
    has_mkldnn = False
    is_asan: bool
    has_cuda_support: bool
    has_gpu_support: bool
    has_hip_support: bool

    @staticmethod
    def builtin_cpu_supports_avx2() -> bool:
        """Whether operators choose those instructions of the processor: ONNX Runtime chooses by itself."""
        return False

    @staticmethod
    def support_onnx_export(op_type: str) -> bool:
        """Whether operators of a type can be written in ONNX's operators, in some form."""
        return op_type in LOWERINGS

    @staticmethod
    def create_db(db_type: str, name: str, mode: OpenMode) -> Database:
        """Open a database; see `netgrad.caffe2.running.databases.open_database`."""
        return open_database(db_type, name, mode)

    @staticmethod
    def create_transaction(db: Database) -> Transaction:
        """A transaction of a database; see `Database.new_transaction`."""
        return db.new_transaction()

    @staticmethod
    def registered_dbs() -> list[str]:
        """The names of the kinds of databases that there are."""
        return registered_kinds()

    @staticmethod
    def registered_operators() -> list[str]:
        """The names of all operator types."""
        return sorted(registered_types())
