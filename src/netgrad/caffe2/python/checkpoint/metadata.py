"""What the checkpoints of one node and those of several have in common: a place, and a metadata handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CheckpointMetadata:
    """Where checkpoints are, and what an object that keeps a list of them elsewhere is told.

    Args:
        db_prefix: The folder.
        db_type: The kind of database.
        metadata_handler: An object with ``write(epoch=)``, ``last_epoch(user_epoch=)``, ``set_params(...)``,
            ``cp_accessible(epoch)`` and ``report(action_name, stats)``, or None.
    """

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any) -> None:
        self._db_prefix = db_prefix
        self._db_type = db_type
        self._metadata_handler = metadata_handler
        self._path_prefix: str | None = None
        self._path_type: str | None = None

    def collect_checkpoint_stats(self, stats: dict[str, Any]) -> None:
        """Add the times of the last loads or saves, in nanoseconds, to ``stats`` under their paths."""
        raise NotImplementedError

    def report_checkpoint_stats(self, action_name: str) -> None:
        """Tell the metadata handler, if there is one, how long the last loads or saves have taken."""
        stats: dict[str, Any] = {}
        self.collect_checkpoint_stats(stats)
        if self._metadata_handler is not None:
            self._metadata_handler.report(action_name, stats)

    def write_checkpoint_metadata(self, epoch: int) -> None:
        """Tell the metadata handler, if there is one, that there is a checkpoint of an epoch."""
        if self._metadata_handler is not None:
            self._metadata_handler.write(epoch=epoch)

    def get_resume_from_epoch_id(self, user_epoch: int | None = None) -> int | None:
        """The epoch behind which a job goes on: what the metadata handler says, or ``user_epoch``."""
        if self._metadata_handler is None:
            return user_epoch
        epoch: int | None = self._metadata_handler.last_epoch(user_epoch=user_epoch)
        return epoch

    def set_params(
        self, nodes: Sequence[str], path_prefix: str | None = None, path_type: str | None = None
    ) -> None:
        """Say where checkpoints of another job are; the metadata handler, if there is one, is told all."""
        self._path_prefix, self._path_type = path_prefix or self._path_prefix, path_type or self._path_type
        if self._metadata_handler is not None:
            self._metadata_handler.set_params(
                db_prefix=self._db_prefix,
                db_type=self._db_type,
                node_names=self._node_names(nodes),
                path_prefix=self._path_prefix,
                path_type=self._path_type,
            )

    def cp_accessible(self, epoch: int | None = None) -> bool:
        """Whether checkpoints can be reached: what the metadata handler says, or yes."""
        return self._metadata_handler is None or bool(self._metadata_handler.cp_accessible(epoch))

    def _node_names(self, nodes: Sequence[str]) -> list[str]:
        """Whose checkpoints these are."""
        return [str(node) for node in nodes]
