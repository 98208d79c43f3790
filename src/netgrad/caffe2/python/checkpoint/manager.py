"""Checkpoints of one node: tasks that save the blobs of its workspace, and load them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.checkpoint.metadata import CheckpointMetadata
from netgrad.caffe2.python.net_builder import ops
from netgrad.caffe2.python.task import Node, Task, TaskOutput, final_output

logger = logging.getLogger(__name__)


def get_ckpt_filename(node_name: str, epoch: int) -> str:
    """The name of the file of a checkpoint: ``node.epoch``."""
    return f"{node_name}.{epoch}"


def db_name(epoch: int, node_name: str, db_prefix: str, path_prefix: str | None = None) -> str:
    """The path of a checkpoint: in the folder ``db_prefix``, or right behind the text ``path_prefix``."""
    name = get_ckpt_filename(node_name, epoch)
    return f"{path_prefix}{name}" if path_prefix else os.path.join(db_prefix, name)


class CheckpointManager(CheckpointMetadata):
    """Saves the workspace of one node between the epochs of a job, and loads it."""

    BLOB_NAMES = "blob_names"
    """The blob with the names of those that are saved, itself included."""

    def __init__(self, db_prefix: str, node_name: str, db_type: str, metadata_handler: Any = None) -> None:
        """Say where checkpoints are.

        Args:
            db_prefix: The folder.
            node_name: The node.
            db_type: The kind of database.
            metadata_handler: What is told of the checkpoints; see `CheckpointMetadata`.
        """
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_name = node_name
        self._blob_names = core.BlobReference(self.BLOB_NAMES)
        self._names_output: TaskOutput | None = None
        self._current_db_name: str | None = None
        self._current_checkpoint_duration: TaskOutput | None = None

    def init(
        self,
        nodes: list[str] | None = None,
        retrieve_from_epoch: int | None = None,
        path_prefix: str | None = None,
        path_type: str | None = None,
    ) -> Task:
        """A task that finds out which blobs are saved.

        Args:
            nodes: The node, if any are named.
            retrieve_from_epoch: An epoch whose checkpoint says it; without it all blobs that are there.
            path_prefix: See `db_name`.
            path_type: The kind of database there.
        """
        assert nodes is None or len(nodes) == 1, (
            "a CheckpointManager is for a single node; for several take a MultiNodeCheckpointManager"
        )
        with Task(outputs=[self._blob_names]) as task:
            if retrieve_from_epoch is None:
                ops.GetAllBlobNames([], self._blob_names, include_shared=False)
            else:
                name = db_name(retrieve_from_epoch, self._node_name, self._db_prefix, path_prefix)
                ops.Load(
                    [], self._blob_names, db=name, db_type=path_type or self._db_type, absolute_path=True
                )
        self._names_output = task.outputs()[0]
        return task

    def blob_list(self) -> list[Any]:
        """The names of the blobs that are saved.

        Raises:
            AssertionError: The task of `init` wasn't made, or has not run.
        """
        assert self._names_output is not None, "the names are known when the task of init has run"
        names: list[Any] = self._names_output.fetch().tolist()
        return names

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> Task:
        """A task that loads all blobs from the checkpoint of an epoch; `init` has run before."""
        name = db_name(epoch, self._node_name, self._db_prefix, path_prefix)
        return self._timed(
            "checkpoint_load",
            name,
            lambda: ops.Load(
                [],
                _unscoped(self.blob_list()),
                db=name,
                db_type=path_type or self._db_type,
                absolute_path=True,
            ),
        )

    def load_blobs_from_checkpoint(self, blob_names: Iterable[Any], epoch: int) -> Task:
        """A task that loads some blobs from the checkpoint of an epoch, as far as it has them."""
        name = db_name(epoch, self._node_name, self._db_prefix)
        return self._timed(
            "checkpoint_partial_load",
            name,
            lambda: ops.Load(
                [],
                _unscoped(blob_names),
                db=name,
                db_type=self._db_type,
                absolute_path=True,
                allow_incomplete=True,
            ),
        )

    def save(self, epoch: int) -> Task:
        """A task that saves the blobs as the checkpoint of an epoch; `init` has run before."""
        name = db_name(epoch, self._node_name, self._db_prefix)
        return self._timed(
            "checkpoint_save",
            name,
            lambda: ops.Save(
                _unscoped(self.blob_list()), [], db=name, db_type=self._db_type, absolute_path=True
            ),
        )

    def _timed(self, name: str, database: str, add: Callable[[], Any]) -> Task:
        self._current_db_name = database
        with Task(name=name) as task:
            with ops.task_init():
                timer = ops.TimerBegin([], counter_name=self._node_name)
            add()
            with ops.task_exit():
                self._current_checkpoint_duration = final_output(ops.TimerGetAndEnd(timer))
        return task

    def check_db_exists(self, epoch: int) -> Task:
        """A task whose output says whether there is a checkpoint of an epoch."""
        self._current_db_name = db_name(epoch, self._node_name, self._db_prefix)
        with Task() as task:
            exists = ops.Const(False)
            ops.DBExists(
                [], [exists], db_name=self._current_db_name, db_type=self._db_type, absolute_path=True
            )
            task.add_output(exists)
        return task

    def collect_checkpoint_stats(self, stats: dict[str, Any]) -> None:
        """Add the time of the last load or save, in nanoseconds, to ``stats`` under its path."""
        if self._current_db_name is None or self._current_checkpoint_duration is None:
            logger.info("no checkpoint of node %s was loaded or saved", self._node_name)
            return
        stats[self._current_db_name] = self._current_checkpoint_duration.fetch()[0]

    def _node_names(self, nodes: Sequence[str]) -> list[str]:
        return [self._node_name]


def _unscoped(names: Iterable[Any]) -> list[core.BlobReference]:
    return [core.BlobReference(name) for name in names]


def manager_of(node: Any, db_prefix: str, db_type: str) -> CheckpointManager:
    """The manager of a node, which is noted in the current cluster."""
    with Node(node):
        return CheckpointManager(db_prefix, str(node), db_type)
