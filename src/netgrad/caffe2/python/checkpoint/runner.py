"""Running jobs from their start, or on from a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python.checkpoint.job import Job
from netgrad.caffe2.python.session import Session
from netgrad.caffe2.python.task import TaskGroup

logger = logging.getLogger(__name__)


class UploadTaskGroupBuilder:
    """Says how checkpoints are taken elsewhere; a class that does it derives from this one."""

    def build(self, epoch: int, checkpoint_manager: Any) -> TaskGroup:
        """The tasks that do it behind the last epoch.

        Raises:
            NotImplementedError: Always, here.
        """
        raise NotImplementedError(f"{type(self).__name__} doesn't say how checkpoints are uploaded")


class JobRunner:
    """Runs a job.

    Attributes:
        job: The job.
        checkpoint_manager: What saves its workspaces at the start and behind each epoch, or None.
        resume_from_epoch: The epoch behind whose checkpoint it goes on, or None for the start.
        upload_task_group_builder: What takes the checkpoints elsewhere at the end, or None.
    """

    def __init__(
        self,
        job: Job,
        checkpoint_manager: Any = None,
        resume_from_epoch: int | None = None,
        upload_task_group_builder: UploadTaskGroupBuilder | None = None,
    ) -> None:
        self.job = job
        self.checkpoint_manager = checkpoint_manager
        self.resume_from_epoch = resume_from_epoch
        self.upload_task_group_builder = upload_task_group_builder

    def train(self, session: Session) -> int:
        """Run the job, and return the number of its last epoch, which counts from 1.

        What starts the job runs only if it doesn't go on from a checkpoint.

        Raises:
            RunError: Something can't run, or the checkpoint can't be loaded.
        """
        manager, job = self.checkpoint_manager, self.job
        if manager is not None:
            manager.set_params(nodes=job.nodes_to_checkpoint())
            self.resume_from_epoch = manager.get_resume_from_epoch_id(self.resume_from_epoch)
        resumed = self.resume_from_epoch
        if resumed is None:
            session.run(job.init_group)
        else:
            logger.info("the job goes on behind epoch %d", resumed)
        if manager is not None:
            session.run(manager.init(job.nodes_to_checkpoint(), retrieve_from_epoch=resumed))
            if resumed is None:
                self.save_checkpoints(0, session)
            else:
                session.run(manager.load(resumed))
                manager.report_checkpoint_stats("checkpoint_load")
        epoch = self._epochs(0 if resumed is None else resumed, session)
        if self.upload_task_group_builder is not None:
            session.run(self.upload_task_group_builder.build(epoch, manager))
        session.run(job.download_group)
        session.run(job.exit_group)
        return epoch

    __call__ = train

    def _epochs(self, epoch: int, session: Session) -> int:
        """Run epochs behind ``epoch`` until a stop condition holds; the number of the last one."""
        while True:
            epoch += 1
            session.run(self.job.epoch_group)
            stops = [output.fetch() for output in self.job.stop_conditions]
            logger.info("epoch %d has ended", epoch)
            if self.checkpoint_manager is not None:
                self.save_checkpoints(epoch, session)
            if any(stops):
                return epoch

    def load_blobs_from_checkpoints(self, blob_names: Sequence[Any], epoch: int, session: Session) -> bool:
        """Load some blobs from the checkpoints of all nodes into the workspace of a session.

        Returns:
            Whether there are checkpoints of that epoch.

        Raises:
            ValueError: The job has no checkpoints.
        """
        if self.checkpoint_manager is None:
            raise ValueError("Checkpoint manager is None")
        loaded: bool = self.checkpoint_manager.load_blobs_locally(
            self.job.nodes_to_checkpoint(), blob_names, epoch, session
        )
        if loaded:
            self.checkpoint_manager.report_checkpoint_stats("checkpoint_partial_load")
        return loaded

    def save_checkpoints(self, epoch: int, session: Session) -> None:
        """Save the checkpoint of an epoch. One that can't be written is a warning, and the job goes on.

        Raises:
            ValueError: The job has no checkpoints.
        """
        if self.checkpoint_manager is None:
            raise ValueError("Checkpoint manager is None")
        manager = self.checkpoint_manager
        try:
            if not manager.cp_accessible(epoch=None):
                logger.warning("checkpoints can't be reached: that of epoch %d is not written", epoch)
                return
            session.run(manager.save(epoch))
            manager.write_checkpoint_metadata(epoch)
            manager.report_checkpoint_stats("checkpoint_save")
        except Exception as error:  # a job that has run for days isn't lost for a full disk
            logger.warning("Unable to write checkpoint for epoch %d. Error=%s", epoch, error)
