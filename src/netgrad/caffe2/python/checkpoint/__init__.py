"""Jobs that train in epochs, and checkpoints between them."""

from netgrad.caffe2.python.checkpoint.job import Job, epoch_limiter
from netgrad.caffe2.python.checkpoint.manager import CheckpointManager, db_name, get_ckpt_filename
from netgrad.caffe2.python.checkpoint.nodes import MultiNodeCheckpointManager
from netgrad.caffe2.python.checkpoint.runner import JobRunner, UploadTaskGroupBuilder

__all__ = [
    "CheckpointManager",
    "Job",
    "JobRunner",
    "MultiNodeCheckpointManager",
    "UploadTaskGroupBuilder",
    "db_name",
    "epoch_limiter",
    "get_ckpt_filename",
]
