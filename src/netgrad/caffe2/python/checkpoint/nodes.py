"""Checkpoints of a job on several nodes: one per node and epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.python.checkpoint.manager import CheckpointManager, db_name, manager_of
from netgrad.caffe2.python.checkpoint.metadata import CheckpointMetadata
from netgrad.caffe2.python.session import Session
from netgrad.caffe2.python.task import Node, Task, TaskGroup, WorkspaceType

logger = logging.getLogger(__name__)


class MultiNodeCheckpointManager(CheckpointMetadata):
    """Saves the workspaces of several nodes between the epochs of a job, and loads them."""

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any = None) -> None:
        """Say where checkpoints are; see `CheckpointManager`."""
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_managers: list[tuple[str, CheckpointManager]] | None = None

    def _managers(self, nodes: Sequence[str] | None = None) -> list[tuple[str, CheckpointManager]]:
        """The managers by node, which are made when nodes are named first."""
        if self._node_managers is None:
            assert nodes is not None, "there are no managers yet: init makes them"
            self._node_managers = [(node, manager_of(node, self._db_prefix, self._db_type)) for node in nodes]
        known = [node for node, _ in self._node_managers]
        assert nodes is None or known == list(nodes), f"the nodes were {known}, and now are {nodes}"
        return self._node_managers

    def _task_group(self, task_of: Callable[[CheckpointManager], Task]) -> TaskGroup:
        managers = self._managers()
        group = TaskGroup(WorkspaceType.GLOBAL)
        with group:
            for node, manager in managers:
                with Node(node):
                    task_of(manager)
        return group

    def init(
        self,
        nodes: Sequence[str],
        retrieve_from_epoch: int | None = None,
        path_prefix: str | None = None,
        path_type: str | None = None,
    ) -> TaskGroup:
        """Tasks that find out which blobs are saved; see `CheckpointManager.init`."""
        self._managers(nodes)
        return self._task_group(
            lambda manager: manager.init(
                retrieve_from_epoch=retrieve_from_epoch, path_prefix=path_prefix, path_type=path_type
            )
        )

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> TaskGroup:
        """Tasks that load all blobs from the checkpoints of an epoch."""
        return self._task_group(lambda manager: manager.load(epoch, path_prefix, path_type))

    def save(self, epoch: int) -> TaskGroup:
        """Tasks that save the blobs as the checkpoints of an epoch."""
        return self._task_group(lambda manager: manager.save(epoch))

    def load_blobs_locally(
        self, nodes: Sequence[str], blob_names: Sequence[Any], epoch: int, session: Session
    ) -> bool:
        """Load some blobs from the checkpoints of all nodes into the workspace of a session.

        Args:
            nodes: The nodes.
            blob_names: The blobs.
            epoch: The epoch of the checkpoints.
            session: What loads them.

        Returns:
            Whether there are such checkpoints.
        """
        for _, manager in self._managers(nodes):
            existence = manager.check_db_exists(epoch)
            session.run(existence)
            if not existence.outputs()[0].fetch():
                logger.info("there is no checkpoint %s", manager._current_db_name)
                return False
            session.run(manager.load_blobs_from_checkpoint(blob_names, epoch))
        return True

    def get_ckpt_db_name(self, node_name: str, epoch: int) -> str | None:
        """The path of the checkpoint of a node, or None if there is no such node."""
        for node, manager in self._managers():
            if str(node) == node_name:
                return db_name(epoch, manager._node_name, manager._db_prefix)
        return None

    def collect_checkpoint_stats(self, stats: dict[str, Any]) -> None:
        """Add those of all nodes; see `CheckpointManager`."""
        for _, manager in self._managers():
            manager.collect_checkpoint_stats(stats)
