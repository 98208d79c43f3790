"""Operators that ONNX Runtime's optimizer fuses, in terms of the standard operators that they stand for.

An exported model that was optimized holds them in the domain ``com.microsoft``. The definitions are those of
the kernels' documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. There
is a file per family; a definition is a function that writes it for one node.
"""

# Importing a family declares its definitions.
from netgrad.onnx.fused import activations as activations
from netgrad.onnx.fused import attention as attention
from netgrad.onnx.fused import group_query_attention as group_query_attention
from netgrad.onnx.fused import norms as norms
from netgrad.onnx.fused import products as products
from netgrad.onnx.fused import quantized as quantized
from netgrad.onnx.fused import rotary as rotary
from netgrad.onnx.fused import softmax as softmax
from netgrad.onnx.fused import windows as windows
from netgrad.onnx.fused.definition import NotYetKnownError as NotYetKnownError
from netgrad.onnx.fused.definition import fused_definition as fused_definition
from netgrad.onnx.fused.definition import fused_formula as fused_formula
from netgrad.onnx.fused.definition import fused_operators as fused_operators
from netgrad.onnx.fused.definition import is_fused as is_fused
