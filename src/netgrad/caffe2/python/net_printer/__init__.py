"""Programs as text, and the faults that can be seen in them."""

from netgrad.caffe2.python.net_printer.analysis import analyze
from netgrad.caffe2.python.net_printer.debugging import debug_net
from netgrad.caffe2.python.net_printer.printing import call, to_string

__all__ = ["analyze", "call", "debug_net", "to_string"]
