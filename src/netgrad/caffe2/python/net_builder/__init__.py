"""Programs that build nets and steps: ``ops`` adds to the net builder that is active."""

from netgrad.caffe2.python.net_builder.builder import NetBuilder
from netgrad.caffe2.python.net_builder.operations import Operations, ops

__all__ = ["NetBuilder", "Operations", "ops"]
