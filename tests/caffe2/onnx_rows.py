"""ONNX operators that Caffe2 can express: a row has the inputs and the nodes of a small model.

The nodes write ``y``. ``k = [1,2]`` is a constant of int64, ``k = 2`` one without dims, ``k = 0.5`` of float.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
from onnx import parser

Array = np.ndarray[Any, Any]

I3 = "float[2,3,6,6] x"
# A sequence of 4 rows of 5 numbers for each of 3, states of 2 numbers, and lengths.
_STATES = "float[4,3,5] x, float[1,{gates},5] w, float[1,{gates},2] r, float[1,{both}] b, float[1,3,2] h"
_BOTH = "float[4,3,5] x, float[2,{gates},5] w, float[2,{gates},2] r, float[2,{both}] b, float[2,3,2] h"
_RNN, _GRU, _LSTM = (_STATES.format(gates=2 * k, both=4 * k) for k in (1, 3, 4))
_RNN2, _GRU2, _LSTM2 = (_BOTH.format(gates=2 * k, both=4 * k) for k in (1, 3, 4))
_L = "k = [2,4,1]; l = Cast<to = 6>(k)"
ROWS = [
    *(
        f"float[3,4] x => y = {type_}(x)"
        for type_ in [
            "Abs",
            "Atan",
            "Ceil",
            "Cos",
            "Cosh",
            "Erf",
            "Exp",
            "Floor",
            "Identity",
            "Neg",
            "Reciprocal",
            "Relu",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Tan",
            "Tanh",
            "Gelu",
            "HardSwish",
            "Mish",
            "LogSoftmax",
        ]
    ),
    *(f"float[3,4] x => p = Abs(x); y = {type_}(p)" for type_ in ("Log", "Sqrt")),
    *(f"float[3,4] x => p = Tanh(x); y = {type_}(p)" for type_ in ("Acos", "Asin")),
    *(f"float[2,3,4] x, float[3,1] w => y = {type_}(x, w)" for type_ in ("Add", "Sub", "Mul", "Div")),
    *(f"float[4] x, float[3,4] w => y = {type_}(x, w)" for type_ in ("Add", "Equal", "Greater", "Less")),
    *(f"float[3,4] x, float[3,4] w => y = {type_}(x, w)" for type_ in ("GreaterOrEqual", "LessOrEqual")),
    *(
        f"float[3,4] x, float[4] w => a = Greater(x, w); b = Less(x, x); y = {type_}(a, b)"
        for type_ in ("And", "Or", "Xor")
    ),
    "float[3,4] x, float[4] w => a = Greater(x, w); y = Not(a)",
    "int32[3,4] x, int32[4] w => y = BitwiseAnd(x, w)",
    *(
        f"float[3,4] x, float[4] w, float[3,1] v => y = {type_}(x, w, v)"
        for type_ in ("Sum", "Mean", "Max", "Min")
    ),
    "float[3,4] x, float[3,4] w => y = Max(x, w)",
    "float[3,4] x, float[4] w => c = Greater(x, w); y = Where(c, x, w)",
    "float[3,4] x => p = Abs(x); e = 2.5; y = Pow(p, e)",
    "float[3,4] x, float[4] w => p = Abs(x); y = Pow(p, w)",
    "float[3,4] x => y = LeakyRelu<alpha = 0.3>(x)",
    "float[3,4] x => y = Elu<alpha = 0.3>(x)",
    "float[3,4] x => y = Selu(x)",
    'float[3,4] x => y = Gelu<approximate = "tanh">(x)',
    "float[3,4] x => y = ThresholdedRelu<alpha = 0.3>(x)",
    "float[3,4] x => y = HardSigmoid<alpha = 0.3, beta = 0.4>(x)",
    "float[3,4] x => l = -0.5; y = Clip(x, l)",
    "float[3,4] x => h = 0.5; y = Clip(x, , h)",
    "float[3,4] x => y = Clip(x)",
    "float[3,4] x => y = Dropout(x)",
    "float[3,4] x => y = Cast<to = 7>(x)",
    "int32[3,4] x => d = Constant<value = int32 {3}>(); y = Mod(x, d)",
    "int32[3,4] x => d = Constant<value = int32 {3}>(); y = Mod<fmod = 1>(x, d)",
    "float[2,3,4] x, float[3,1] w => y = PRelu(x, w)",
    "float[3,4] x, float[4] w => y = PRelu(x, w)",
    "float[2,3,4] x, float[1] w => y = PRelu(x, w)",
    # layers
    "float[2,3] x, float[3,4] w, float[4] b => y = Gemm(x, w, b)",
    "float[2,3] x, float[4,3] w, float[4] b => y = Gemm<transB = 1>(x, w, b)",
    "float[3,2] x, float[3,4] w, float[1,4] b => y = Gemm<transA = 1, alpha = 0.5, beta = 2.0>(x, w, b)",
    "float[2,3] x, float[3,4] w, float b => y = Gemm(x, w, b)",
    "float[2,3] x, float[3,4] w => y = Gemm<alpha = 0.5>(x, w)",
    "float[2,3] x, float[3,4] w => y = MatMul(x, w)",
    "float[5,2,3] x, float[3,4] w => y = MatMul(x, w)",
    "float[5,2,3] x, float[5,3,4] w => y = MatMul(x, w)",
    "float[2,3] x, float[3] w => y = MatMul(x, w)",
    f"{I3}, float[4,3,3,3] w, float[4] b => y = Conv(x, w, b)",
    f"{I3}, float[6,1,3,2] w => y = Conv<group = 3, pads = [1,0,2,1], strides = [2,1]>(x, w)",
    f"{I3}, float[4,3,3,2] w => y = Conv<dilations = [1,2]>(x, w)",
    f'{I3}, float[4,3,3,3] w => y = Conv<auto_pad = "SAME_UPPER", strides = [2,2]>(x, w)',
    f'{I3}, float[4,3,2,2] w => y = Conv<auto_pad = "SAME_LOWER">(x, w)',
    f'{I3}, float[4,3,3,3] w => y = Conv<auto_pad = "VALID">(x, w)',
    "float[2,3,8] x, float[4,3,3] w => y = Conv<pads = [1,2]>(x, w)",
    f"{I3}, float[4,3,3,3] w, float[2,18,4,4] o, float[4] b => y = DeformConv(x, w, o, b)",
    f"{I3}, float[4,3,3,3] w, float[2,18,2,2] o => y = DeformConv<strides = [2,2]>(x, w, o)",
    "float[1,2,4,4,4] x, float[3,2,2,2,2] w => y = Conv(x, w)",
    f"{I3}, float[3,4,3,3] w, float[4] b => y = ConvTranspose<strides = [2,2], pads = [1,1,0,0]>(x, w, b)",
    f"{I3}, float[3,4,3,3] w => y = ConvTranspose<strides = [2,2], output_padding = [1,1]>(x, w)",
    f"{I3}, float[3,4,3,3] w => y = ConvTranspose<strides = [2,2], output_shape = [11,12]>(x, w)",
    f'{I3}, float[3,4,3,3] w => y = ConvTranspose<strides = [2,2], auto_pad = "SAME_UPPER">(x, w)',
    f'{I3}, float[3,4,3,3] w => y = ConvTranspose<strides = [2,2], auto_pad = "SAME_LOWER">(x, w)',
    # pools
    f"{I3} => y = MaxPool<kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,1]>(x)",
    f"{I3} => y = MaxPool<kernel_shape = [2,2], dilations = [2,2]>(x)",
    f"{I3} => y = MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(x)",
    f"{I3} => y = MaxPool<kernel_shape = [2,2], strides = [2,2], ceil_mode = 1>(x)",
    f"{I3} => y = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1]>(x)",
    f"{I3} => y = AveragePool<kernel_shape = [3,3], pads = [1,1,1,1], count_include_pad = 1>(x)",
    f"{I3} => y = AveragePool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(x)",
    f"{I3} => y = LpPool<kernel_shape = [2,2], p = 3>(x)",
    f"{I3} => y = GlobalMaxPool(x)",
    f"{I3} => y = GlobalAveragePool(x)",
    f"{I3} => y = GlobalLpPool(x)",
    f"{I3} => y = LRN<size = 3, alpha = 0.1, beta = 0.5, bias = 2.0>(x)",
    # normalizations
    f"{I3}, float[3] s, float[3] b, float[3] m, float[3] w => v = Abs(w); "
    "y = BatchNormalization(x, s, b, m, v)",
    f"{I3}, float[3] s, float[3] b => y = InstanceNormalization<epsilon = 0.01>(x, s, b)",
    "float[2,3,4] x, float[4] s, float[4] b => y = LayerNormalization<epsilon = 0.01>(x, s, b)",
    "float[2,3,4] x, float[3,4] s => y = LayerNormalization<axis = 1>(x, s)",
    "float[2,3,4] x, float[4] s, float[4] b => y = LayerNormalization<axis = 1>(x, s, b)",
    "float[2,4,3] x, float[4] s, float[4] b => y = GroupNormalization<num_groups = 2>(x, s, b)",
    "float[2,3,4] x => y = Softmax(x)",
    "float[2,3,4] x => y = Softmax<axis = 1>(x)",
    "float[2,3,4] x => y = MeanVarianceNormalization<axes = [1]>(x)",
    # reductions
    *(
        f"float[2,3,4] x => a = [-1,0]; y = {type_}(x, a)"
        for type_ in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2")
    ),
    "float[2,3,4] x => y = ReduceSum<keepdims = 0>(x)",
    "float[2,3,4] x => y = ReduceSum<noop_with_empty_axes = 1>(x)",
    "float[2,3,4] x => a = [1]; y = ReduceLogSumExp(x, a)",
    "float[2,3,4] x => a = [1]; y = ReduceSumSquare<keepdims = 0>(x, a)",
    "float[2,3,4] x => y = ArgMax<axis = -2>(x)",
    "float[2,3,4] x => y = ArgMin<axis = 1, keepdims = 0>(x)",
    "float[2,3,4] x => k = [2]; y, i = TopK<axis = 1>(x, k)",
    "float[2,3,4] x => k = [2]; v, y = TopK<largest = 0>(x, k)",
    # shapes
    "float[2,3,4] x => s = [0,-1]; y = Reshape(x, s)",
    "float[2,3,4] x, float[4,6] w => s = Shape(w); y = Reshape(x, s)",
    "float[2,3,4] x, float[4,6] w => s = Shape(w); y = Reshape<allowzero = 1>(x, s)",
    "float[0,3] x => s = [0,2]; y = Reshape<allowzero = 1>(x, s)",
    "float[N,3,4] x => s = Shape(x); z = [0]; n = Gather(s, z); "
    "r = [12]; t = Concat<axis = 0>(n, r); y = Reshape(x, t)",
    "float[2,3,4] x => y = Flatten<axis = -1>(x)",
    "float[2,1,4,1] x => a = [-1]; y = Squeeze(x, a)",
    "float[2,1,4,1] x => y = Squeeze(x)",
    "float[2,3] x => a = [-1,0]; y = Unsqueeze(x, a)",
    "float[2,3,4] x => y = Transpose<perm = [2,0,1]>(x)",
    "float[2,3,4] x => y = Transpose(x)",
    "float[N,3,4] x => y = Shape(x)",
    "float[N,M,4] x => y = Shape<start = -2>(x)",
    "float[N,3,4] x => y = Size(x)",
    "float[3,1] x, float[2,3,4] w => s = Shape(w); y = Expand(x, s)",
    "float[2,3] x => r = [2,3]; y = Tile(x, r)",
    "float[2,3] x, float[2,1] w => y = Concat<axis = -1>(x, w)",
    "float[2,6] x => y, z = Split<axis = 1, num_outputs = 2>(x)",
    "float[2,5] x => z, y = Split<axis = -1, num_outputs = 2>(x)",
    "float[2,6] x => s = [1,5]; z, y = Split<axis = 1>(x, s)",
    "float[5,6] x => s = [1,-4]; e = [9,-1]; y = Slice(x, s, e)",
    "float[N,M] x => s = [-3,0]; e = [MAX,-2]; y = Slice(x, s, e)",
    "float[5,6] x, int64[2] s, int32[2] e => k = Cast<to = 7>(e); y = Slice(x, s, k)",
    "float[5,6,2] x, int64[2] s, int64[2] e => a = [-2,0]; y = Slice(x, s, e, a)",
    "float[5,6] x => s = [4,-1]; e = [0,-MAX]; a = [0,1]; t = [-2,-1]; y = Slice(x, s, e, a, t)",
    f"{I3} => p = [0,0,1,2,0,0,3,0]; v = 0.5; y = Pad(x, p, v)",
    f'{I3} => p = [0,0,1,2,0,0,3,0]; y = Pad<mode = "reflect">(x, p)',
    f'{I3} => p = [1,2]; a = [-1]; y = Pad<mode = "edge">(x, p, , a)',
    "float[2,3,5] x => p = [0,0,1,0,0,2]; y = Pad(x, p)",
    "float[N,8,2,3] x => y = DepthToSpace<blocksize = 2>(x)",
    'float[2,8,2,3] x => y = DepthToSpace<blocksize = 2, mode = "CRD">(x)',
    "float[2,2,4,6] x => y = SpaceToDepth<blocksize = 2>(x)",
    "float[1,2,3,3] x => r = Constant<value_floats = [1.0,1.0,2.0,3.0]>(); "
    'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , r)',
    # lookups, images, fills
    "float[5,3] x => i = Constant<value = int64[2,2] {0,-1,2,4}>(); y = Gather(x, i)",
    "float[3,5] x => i = -2; y = Gather<axis = 1>(x, i)",
    "float[5,3] x, float[4] w => z = 0; i = ArgMax<axis = 0>(w); y = Gather(x, i)",
    "float[1,2,3,3] x => r = Constant<value_floats = [1.0,1.0,2.0,3.0]>(); "
    'y = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", '
    'nearest_mode = "floor">(x, , r)',
    "float[1,2,3,3] x => s = [1,2,5,7]; "
    'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , , s)',
    "float[2,3] x => s = Shape(x); y = ConstantOfShape<value = int32[1] {7}>(s)",
    "float[N,3] x => s = Shape(x); y = ConstantOfShape(s)",
    "float[N,3] x => s = Size(x); z = 0; d = 2; y = Range(z, s, d)",
    "float[4,3,5] x, float[1,8,5] w, float[1,8,2] r => y = LSTM<hidden_size = 2>(x, w, r)",
    f"{_LSTM} => _, y = LSTM<hidden_size = 2>(x, w, r, b, , h)",
    f'{_LSTM2} => {_L}; y = LSTM<hidden_size = 2, direction = "bidirectional">(x, w, r, b, l, h, h)',
    f'{_LSTM2} => {_L}; a, y, c = LSTM<hidden_size = 2, direction = "bidirectional">(x, w, r, b, l, h)',
    f'{_LSTM} => {_L}; a, c, y = LSTM<hidden_size = 2, direction = "reverse">(x, w, r, b, l, h, h)',
    f"{_GRU} => y = GRU<hidden_size = 2, linear_before_reset = 1>(x, w, r, b, , h)",
    f'{_GRU2} => {_L}; y = GRU<hidden_size = 2, direction = "bidirectional">(x, w, r, b, l)',
    f'{_GRU2} => a, y = GRU<hidden_size = 2, direction = "bidirectional">(x, w, r, , , h)',
    f'{_RNN} => y = RNN<hidden_size = 2, direction = "reverse">(x, w, r, b)',
    f'{_RNN} => {_L}; a, y = RNN<hidden_size = 2, activations = ["Relu"]>(x, w, r, b, l, h)',
    f'{_RNN2} => {_L}; y = RNN<hidden_size = 2, direction = "bidirectional">(x, w, r, b, l, h)',
    "float[2,3,4] x, int64[2,2,4] i => three = Constant<value = int64 {3}>(); p = Mod(i, three); "
    "y = GatherElements<axis = 1>(x, p)",
    "float[5] x => i = [4,-5,0,-1]; y = GatherElements(x, i)",
    "float[2,3] x => i = Constant<value = int32[2,1] {-1, 1}>(); y = GatherElements<axis = -1>(x, i)",
    "int64[2,3,2] x => three = Constant<value = int64 {3}>(); m = Mod(x, three); y = NonZero(m)",
    "float[4] x => r = Relu(x); y = NonZero(r)",
    "float[2,3] x => z = Constant<value = float {0.0}>(); b = Greater(x, z); y = NonZero(b)",
    "int64[2,3] x => d = 4; v = Constant<value_floats = [-1.0, 2.5]>(); y = OneHot(x, d, v)",
    "int64[2,3] x => d = 4; v = [3,7]; y = OneHot<axis = 0>(x, d, v)",
    "float[2,3] x, int64[2] n => two = Constant<value = int64 {2}>(); t = Mod(n, two); y = Tile(x, t)",
    "float[4,3] x => a = Constant<value = int64 {1}>(); s = Shape<end = 1>(x); b = Sub(s, a); "
    "one = [1]; t = Concat<axis = 0>(one, b); y, z = Split<axis = 0>(x, t)",
    "float[4,3] x, int64[1] k => o = [1]; two = [2]; m = Mod(k, two); n = Add(m, o); y, i = TopK(x, n)",
    "float[4,3] x, float a, float b => y = Clip(x, a, b)",
    "int64[4,3] x, int64 a => y = Clip(x, , a)",
    "float[4,3] x => r = Log(x); y = IsNaN(r)",
    *(
        f"float[4,3] x => z = Constant<value = float {{0.0}}>(); q = Div(x, z); y = IsInf<{signs}>(q)"
        for signs in ("detect_positive = 1", "detect_positive = 0", "detect_negative = 0")
    ),
    "float[4,3] x => y = IsInf<detect_positive = 0, detect_negative = 0>(x)",
    "float[4,3] x => a, y = Dropout(x)",
    "float[4,3,2] x => y = Trilu(x)",
    "int64[N,4,3] x => k = Constant<value = int64 {-1}>(); y = Trilu<upper = 0>(x, k)",
    "float[4,3,2] x => l = [2,4,1]; y = ReverseSequence<time_axis = 0, batch_axis = 1>(x, l)",
    "float[3,4] x => l = [2,4,1]; y = ReverseSequence<time_axis = 1, batch_axis = 0>(x, l)",
    "float[2,3,4] x => r = Constant<value_floats = [1.0,2.0,3.0]>(); "
    'y = Resize<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , r)',
    "float[2,3,4] x => s = [2,3,8]; "
    'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , , s)',
    "float[3,4,2,2] x => l = [2,4,1]; y = ReverseSequence<time_axis = 1, batch_axis = 0>(x, l)",
    "float[3,4] x, float[2,3] u => i = Constant<value = int64[2,3] {0, 1, -1, 1, 2, 0}>(); "
    "y = ScatterElements(x, i, u)",
    "int64[3,4] x, int64[3,1] i, int64[3,1] u => four = [4]; p = Mod(i, four); "
    "y = ScatterElements<axis = 1>(x, p, u)",
]

_INPUT = re.compile(r"(\w+?)(?:\[(.*?)\])? (\w+)$")
_CONSTANTS = (
    (re.compile(r"= (\[[^\]]*\])(?=;|$)"), r"= Constant<value_ints = \1>()"),
    (re.compile(r"= (-?\d+)(?=;|$)"), r"= Constant<value = int64 {\1}>()"),
    (re.compile(r"= (-?\d+\.\d+)(?=;|$)"), r"= Constant<value = float {\1}>()"),
)
SIZES = {"N": 4, "M": 5}


def model_of(row: str, opset: int = 21) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one row, and random inputs."""
    inputs, nodes = row.split(" => ")
    declared = re.split(r", (?=float|int)", inputs)
    random = np.random.default_rng(len(row))
    given: dict[str, Array] = {}
    for one in declared:
        found = _INPUT.match(one)
        assert found, one
        shape = [SIZES.get(dim) or int(dim) for dim in (found[2] or "").split(",") if dim]
        if found[1] == "float":
            given[found[3]] = random.normal(size=shape).astype(np.float32)
        else:
            given[found[3]] = random.integers(-9, 9, size=shape).astype(found[1])
    for written, meant in _CONSTANTS:
        nodes = written.sub(meant, nodes)
    nodes = nodes.replace("MAX", str(2**63 - 1)).replace(";", " ")
    text = f'<ir_version: 10, opset_import: ["": {opset}]> row ({inputs}) => (y) {{ {nodes} }}'
    return parser.parse_model(text), given


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the type of its output, which the rows don't say."""
    inferred = onnx.shape_inference.infer_shapes(model)
    if not inferred.graph.output[0].type.tensor_type.elem_type:  # of GroupNormalization
        inferred.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return inferred
