"""Every lowered operator: its values against a formula in NumPy, its gradients against its slopes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from netgrad import caffe2
from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.registry import LOWERINGS
from netgrad.core import UnsupportedOperatorError
from netgrad.core.errors import RuntimeFailureError
from tests.caffe2.adaptive_cases import ADAPTIVE
from tests.caffe2.batch_cases import BATCHES
from tests.caffe2.compressed_cases import COMPRESSED
from tests.caffe2.detection_cases import DETECTION
from tests.caffe2.form_cases import FORMS
from tests.caffe2.later_cases import LATER
from tests.caffe2.layer_cases import LAYERS
from tests.caffe2.operator_cases import CASES as PLAIN_CASES
from tests.caffe2.operator_cases import Array, Blobs, Case
from tests.caffe2.optimizer_cases import OPTIMIZERS
from tests.caffe2.other_cases import OTHERS
from tests.caffe2.patch_cases import PATCHES
from tests.caffe2.region_cases import REGIONS
from tests.caffe2.segment_cases import SEGMENTS
from tests.caffe2.shaped_cases import SHAPED

CASES = [
    *PLAIN_CASES,
    *OPTIMIZERS,
    *SEGMENTS,
    *LAYERS,
    *BATCHES,
    *OTHERS,
    *ADAPTIVE,
    *PATCHES,
    *SHAPED,
    *COMPRESSED,
    *LATER,
    *DETECTION,
    *REGIONS,
    *FORMS,
]

_LINE = re.compile(r"(\w+)\((.*?)\)->\((.*?)\)(?:\s*\{(.*)\})?$")
_ARGUMENT = re.compile(r"(\w+)=(\[.*?\]|\".*?\"|[^,]+)")


def net(text: str) -> NetDef:
    return NetDef(name="case", op=[_operator(line.strip()) for line in text.split(";")])


def _operator(line: str) -> OperatorDef:
    found = _LINE.match(line)
    assert found, line
    operator = OperatorDef(type=found[1], input=_names(found[2]), output=_names(found[3]))
    for name, value in _ARGUMENT.findall(found[4] or ""):
        operator.arg.append(make_argument(name, _value(value)))
    return operator


def _names(listed: str) -> list[str]:
    return [name for name in listed.split(",") if name]


def _value(text: str) -> Any:
    if text.startswith("["):
        return [_value(part) for part in text[1:-1].split(",")]
    if text.startswith('"'):
        return text[1:-1]
    return float(text) if "." in text else int(text)


def _as_float32(blobs: Blobs) -> dict[str, Array]:
    return {
        name: array.astype(np.float32) if array.dtype == np.float64 else array
        for name, array in blobs.items()
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case: Case) -> None:
    expected = case.formula(case.blobs)
    values = caffe2.run(net(case.net), _as_float32(case.blobs), list(expected))
    for name, value in expected.items():
        assert values[name].shape == np.shape(value), name
        np.testing.assert_allclose(values[name], value, rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("case", [case for case in CASES if case.wrt], ids=str)
def test_gradients(case: Case) -> None:
    """Against central differences of the formula in float64, with a random cotangent."""
    value = case.formula(case.blobs)[case.of]
    cotangent = np.random.default_rng(7).normal(size=np.shape(value))
    found = caffe2.gradients(
        net(case.net),
        _as_float32(case.blobs),
        wrt=list(case.wrt),
        of=case.of,
        cotangent=cotangent.astype(np.float32),
    )
    for name in case.wrt:
        slopes = _slopes(case, name, cotangent)
        assert found[name].shape == slopes.shape, name
        scale = float(np.abs(slopes).max(initial=1.0))
        np.testing.assert_allclose(found[name], slopes, rtol=1e-4, atol=1e-4 * scale, err_msg=name)


def _slopes(case: Case, name: str, cotangent: Array) -> Array:
    step = 1e-6
    slopes = np.zeros(case.blobs[name].shape)
    for index in np.ndindex(slopes.shape):
        values = []
        for sign in (1, -1):
            moved = case.blobs[name].copy()
            moved[index] += sign * step
            values.append(case.formula({**case.blobs, name: moved})[case.of])
        slopes[index] = ((values[0] - values[1]) * cotangent).sum() / (2 * step)
    return slopes


# Lowerings without a row of their own, and why.
WITHOUT_ROW = {
    "drawn at random": {
        "Float16UniformFill",
        "GaussianFill",
        "MSRAFill",
        "UniformFill",
        "UniformIntFill",
        "XavierFill",
    },
    "the same as another type": {
        "AveragePool1D",
        "AveragePool2D",
        "AveragePool3D",
        "C10LayerNorm_DontUseThisOpYet",
        "Conv1D",
        "Conv3D",
        "CopyFromCPUInput",
        "ELU",
        "EnsureCPUOutput",
        "GivenTensorBoolFill",
        "GivenTensorDoubleFill",
        "GivenTensorIntFill",
        "MaxPool1D",
        "MaxPool2D",
        "MaxPool3D",
        "ReluFp16",
        "SoftmaxFp16",
        "SumSqrElements",
    },
    "of integers or truth values, one ONNX operator": {
        "And",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Or",
        "Xor",
    },
    "holds nets, see test_recurrent_nets": {"RecurrentNetwork"},
    "written by makers": {
        "CopyOnDeviceLike",
        "ReduceTailSum",
        "ResizeLike",
        "SumReduceLike",
        "DropoutGrad",
        "FCGradient_Decomp",
    },
}


def test_every_lowering_has_a_row() -> None:
    covered = {op.type for case in CASES for op in net(case.net).op}
    excused = set().union(*WITHOUT_ROW.values())
    cuts = {"StopGradient", "NegateGradient"}
    forward = {type_ for type_ in LOWERINGS if not type_.endswith("Gradient") or type_ in cuts}
    assert forward - covered - excused == set()
    assert excused <= forward


# Gradient operators without a row, and that no maker writes for one, and why.
WITHOUT_GRADIENT_ROW = {
    "the same as another type": {
        f"{type_}Gradient"
        for type_ in WITHOUT_ROW["the same as another type"]
        if f"{type_}Gradient" in LOWERINGS
    },
    "holds nets, see test_recurrent_nets": {"RecurrentNetworkGradient"},
    "forward operators": {"NegateGradient", "StopGradient", "ZeroGradient"},
}


def test_every_gradient_lowering_has_a_row() -> None:
    written = {op.type for case in CASES for op in net(case.net).op} | {
        op.type
        for case in CASES
        if case.wrt
        for op in caffe2.differentiate(net(case.net).op, {case.of: None}, overwritten="keep")[0]
    }
    excused = set().union(*WITHOUT_GRADIENT_ROW.values())
    assert {type_ for type_ in LOWERINGS if type_.endswith("Gradient")} - written - excused == set()
    assert excused <= set(LOWERINGS)


@pytest.mark.parametrize(
    ("fill", "low", "high", "mean", "deviation"),
    [
        ("UniformFill()->(y) {shape=[100,40],min=-1.0,max=3.0}", -1, 3, 1, 4 / 12**0.5),
        ("GaussianFill()->(y) {shape=[100,40],mean=2.0,std=0.5}", -np.inf, np.inf, 2, 0.5),
        ("UniformIntFill()->(y) {shape=[100,40],min=-1,max=3}", -1, 3, 1, 2**0.5),
        ("Float16UniformFill()->(y) {shape=[100,40],min=-1.0,max=3.0}", -1, 3, 1, 4 / 12**0.5),
        ("XavierFill()->(y) {shape=[100,40]}", -((3 / 40) ** 0.5), (3 / 40) ** 0.5, 0, (1 / 40) ** 0.5),
        ("MSRAFill()->(y) {shape=[100,40]}", -np.inf, np.inf, 0, (2 / 100) ** 0.5),
    ],
)
def test_draws(fill: str, low: float, high: float, mean: float, deviation: float) -> None:
    """Bounds, and moments to five standard errors."""
    drawn = caffe2.run(net(f"{fill}; {fill.replace('(y)', '(z)')}"), {})
    values = drawn["y"]
    assert low <= values.min()
    assert values.max() <= high
    assert abs(values.mean() - mean) < 5 * deviation / values.size**0.5
    assert abs(values.std() - deviation) < 5 * deviation / values.size**0.5
    assert (drawn["y"] != drawn["z"]).any()


@pytest.mark.parametrize(("low", "high"), [(-1, 3), (5, 5), (4, 2)])
@pytest.mark.parametrize(("fill", "dtype"), [("UniformFill", np.float32), ("UniformIntFill", np.int32)])
def test_draws_between_bounds_that_are_computed(fill: str, dtype: Any, low: int, high: int) -> None:
    """Nothing is drawn where the upper bound is the smaller one."""
    blobs: dict[str, Array] = {
        "shape": np.array([40, 30], np.int64),
        "low": np.array(low, dtype),
        "high": np.array([high], dtype),
    }
    drawn = caffe2.run(net(f"{fill}(shape,low,high)->(y) {{input_as_shape=1}}"), blobs)["y"]
    assert drawn.dtype == dtype
    assert drawn.shape == (0 if high < low else 40, 30)
    assert ((drawn >= low) & (drawn <= high)).all()
    if low < high:
        assert abs(drawn.mean() - (low + high) / 2) < 0.3
        assert drawn.max() - drawn.min() > 0.9 * (high - low)


@pytest.mark.parametrize(
    ("fill", "deviation"), [("XavierFill", (1 / 25) ** 0.5), ("MSRAFill", (2 / 50) ** 0.5)]
)
def test_the_fan_is_that_of_a_shape_that_is_computed(fill: str, deviation: float) -> None:
    """There are 25 elements per first dim, and 50 per second dim."""
    drawn = caffe2.run(
        net(f"{fill}(shape)->(y) {{input_as_shape=1}}"), {"shape": np.array([50, 25], np.int64)}
    )["y"]
    assert drawn.shape == (50, 25)
    assert abs(drawn.std() - deviation) < 5 * deviation / drawn.size**0.5


@pytest.mark.parametrize("fill", ["GaussianFill", "ConstantFill", "XavierFill", "GivenTensorFill"])
def test_a_fill_whose_shape_is_no_list_is_an_error(fill: str) -> None:
    values = {"GivenTensorFill": ",values=[1.0,2.0]"}.get(fill, "")
    with pytest.raises(UnsupportedOperatorError, match="'shape' is a number"):
        caffe2.run(net(f"{fill}()->(y) {{shape=2{values}}}"), {})


def test_operands_of_a_type_that_an_operator_does_not_take_are_an_error_by_name() -> None:
    ones = np.ones(2, np.float32)
    with pytest.raises(UnsupportedOperatorError, match=r"BitwiseAnd\(a, b\).*tensor\(float\)"):
        caffe2.run(net("BitwiseAnd(a,b)->(y)"), {"a": ones, "b": ones})


@pytest.mark.parametrize(
    "operator",
    [
        "Sum(x,w)->(y)",
        "Max(x,w)->(y)",
        "DotProduct(x,w)->(y)",
        "SigmoidCrossEntropyWithLogits(x,w)->(y)",
        "WeightedSigmoidCrossEntropyWithLogits(x,x,w)->(y)",
        "MarginRankingCriterion(x,w,x)->(y)",
        "BernoulliJSD(x,w)->(y)",
        "Adam(x,w,x,x,r,i)->(x,w,x)",
        "Adagrad(x,w,x,r)->(x,w)",
        "RmsProp(x,x,w,r)->(x,x,w)",
        "Adadelta(x,x,w,x,r)->(x,x,w)",
    ],
)
def test_operands_of_one_shape_are_not_broadcast(operator: str) -> None:
    """A column beside a vector would give a matrix."""
    blobs: dict[str, Array] = {"x": np.ones((3, 1), np.float32), "w": np.ones(3, np.float32)}
    blobs.update(r=np.ones(1, np.float32), i=np.zeros(1, np.int64))
    with pytest.raises(UnsupportedOperatorError, match=r"another shape than 'x'|have \[(2, )+1(, 2)?\] dims"):
        caffe2.run(net(operator), blobs)


@pytest.mark.parametrize(
    "operator",
    [
        "BatchGather(x,i)->(y)",
        "SparseLengthsSum(x,i,n)->(y)",
        "SparseLengthsWeightedSum(x,w,i,n)->(y)",
        "SparseLengthsPositionalWeightedSum(x,w,i,n)->(y)",
        "SparseSortedSegmentSum(x,i,s)->(y)",
        "UnsortedSegmentSum(x,i)->(y)",
        "UnsortedSegmentMean(x,i)->(y)",
        "SparseToDense(i,x)->(y)",
        "LengthsGather(w,one,i)->(y)",
        "LabelCrossEntropy(x,i)->(y)",
        "SoftmaxWithLoss(x,i)->(p,y)",
        "SparseAdagrad(x,x,i,g,w)->(x,x)",
    ],
)
def test_negative_numbers_are_not_counted_from_the_end(operator: str) -> None:
    """A row, class or segment of a negative number isn't the last one."""
    blobs: dict[str, Array] = {
        "x": np.ones((2, 2), np.float32),
        "g": np.ones((2, 2), np.float32),
        "w": np.ones(2, np.float32),
        "i": np.array([0, -1], np.int32),
        "n": np.array([2], np.int32),
        "one": np.array([1, 1], np.int32),
        "s": np.array([0, 0], np.int32),
    }
    if operator.startswith("SparseAdagrad"):
        blobs["w"] = blobs["w"][:1]
    blobs["i"][1] = 1
    caffe2.run(net(operator), blobs)
    blobs["i"][1] = -1
    with pytest.raises(RuntimeFailureError, match=r"an index is negative|Out of range value in index"):
        caffe2.run(net(operator), blobs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_old_shape_is_of_the_type_of_the_new_one(dtype: Any) -> None:
    blobs = {"x": np.ones((2, 3), np.float32), "s": np.array([3, 2], dtype)}
    old = caffe2.run(net("Reshape(x,s)->(y,old)"), blobs)["old"]
    assert old.dtype == dtype
    assert old.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("row", "x", "labels"),
    [
        ("CrossEntropy(x,t)->(y)", (2, 1, 2), (2, 1, 2)),
        ("CrossEntropyGradient(x,t,dy)->(dx)", (2, 1, 2), (2, 1, 2)),
        ("Accuracy(x,t)->(y)", (2, 1, 2), (2,)),
        ("Accuracy(x,t)->(y)", (2, 2), (2, 1)),
    ],
)
def test_labels_of_other_ranks_are_refused(row: str, x: tuple[int, ...], labels: tuple[int, ...]) -> None:
    blobs = {"x": np.ones(x), "t": np.ones(labels), "dy": np.ones(2)}
    given = {name: blobs[name] for name in net(row).op[0].input}
    with pytest.raises(UnsupportedOperatorError, match=r"flatten them|reshape them"):
        caffe2.run(net(row), _as_float32(given))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("ReduceSum(x)->(y) {axes=0}", "'axes' is a number, and a list"),
        ("ReduceSum(x)->(y) {axes=[0.0]}", r"'axes' is \[0.0\], and a list of integers"),
        ("MaxPool(x)->(y) {kernels=2}", "'kernels' is a number, and a list"),
        ("Reshape(x)->(y,s) {shape=1}", "'shape' is a number, and a list"),
        ('Transpose(x)->(y) {axes="NHWC"}', "'axes' is a text, and a list"),
        ("Cast(x)->(y) {to=[1]}", r"'to' is \[1\], and a single value"),
    ],
)
def test_a_single_value_is_no_list_nor_the_other_way_round(operator: str, message: str) -> None:
    """The original goes on as if the argument weren't there."""
    with pytest.raises(UnsupportedOperatorError, match=message):
        caffe2.run(net(operator), {"x": np.ones((1, 1, 2, 2), np.float32)})


@pytest.mark.parametrize("argument", ["stride_h=2", "dilation_w=2", "pad_t=1"])
def test_arguments_for_two_dims_are_refused_for_others(argument: str) -> None:
    """They would count for nothing."""
    with pytest.raises(UnsupportedOperatorError, match="are for two dims, and the image has 1"):
        caffe2.run(net(f"MaxPool(x)->(y) {{kernels=[2],{argument}}}"), {"x": np.ones((1, 1, 4), np.float32)})


def test_old_pooling_beyond_the_image_is_an_error() -> None:
    """Steps of 3 begin at 0 and 3 in an image of 4 pixels, and rounded up at 6, too, in one of 5."""
    pool = net("MaxPool(x)->(y) {kernel=1,stride=3,legacy_pad=3}")
    four = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    assert caffe2.run(pool, {"x": four})["y"].tolist() == [[[[0, 3], [12, 15]]]]
    with pytest.raises(UnsupportedOperatorError, match="steps of 3 over 5 pixels end outside"):
        caffe2.run(pool, {"x": np.ones((1, 1, 5, 5), np.float32)})


def test_inputs_for_which_onnx_has_no_result_are_an_error_by_name() -> None:
    one = np.ones((), np.float32)
    with pytest.raises(UnsupportedOperatorError, match=r"Logits\(x, t\).*no result .* shapes \(\), \(\)"):
        caffe2.run(net("SigmoidCrossEntropyWithLogits(x,t)->(y)"), {"x": one, "t": one})
    blobs: dict[str, Array] = {"x": np.ones((2, 1), np.float32), "n": np.ones((1, 2), np.int32)}
    with pytest.raises(UnsupportedOperatorError, match=r"LengthsTopK\(x, n\).*no result"):
        caffe2.run(net("LengthsTopK(x,n)->(y,i) {k=1}"), blobs)


@pytest.mark.parametrize(
    "operator",
    [
        "Adam(p,m,v,g,r,i)->(p,m,v)",
        "Adagrad(p,m,g,r)->(p,m)",
        "MomentumSGDUpdate(g,m,r,p)->(g,m,p)",
        "Adadelta(p,m,v,g,r)->(p,m,v)",
        "DecayAdagrad(p,m,v,g,r,i)->(p,m,v)",
        "Wngrad(p,r,g,r)->(p,r)",
        "Storm(p,m,r,g,r)->(p,m,r)",
    ],
)
def test_a_gradient_may_have_other_dims_than_its_parameter(operator: str) -> None:
    """It has its elements in the same order; broadcast, it would make the parameter grow."""
    blobs: dict[str, Array] = {
        "p": np.array([[1], [2], [3]], np.float32),
        "m": np.full((3, 1), 0.5, np.float32),
        "v": np.full((3, 1), 0.25, np.float32),
        "g": np.array([[0.1], [-0.2], [0.3]], np.float32),
        "r": np.array([0.1], np.float32),
        "i": np.array([0], np.int64),
    }
    names = ["p"] if operator.startswith("Wngrad") else ["p", "m"]
    expected = caffe2.run(net(operator), blobs, names)
    found = caffe2.run(net(operator), {**blobs, "g": blobs["g"].reshape(3)}, names)
    assert expected["p"].shape == (3, 1)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_diagonal_needs_dims_of_one_size() -> None:
    with pytest.raises(UnsupportedOperatorError, match="one of more dims of one size"):
        caffe2.run(net("DiagonalFill()->(y) {shape=[2,3,3],value=1.0}"), {})


def test_a_seed_repeats_a_draw() -> None:
    definition = net("UniformFill()->(y) {shape=[5]}")
    definition.op[0].device_option.random_seed = 3
    first, second = (caffe2.run(definition, {})["y"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_dropout_scales_what_stays_and_the_gradient_alike() -> None:
    x = np.ones((40, 50), np.float32)
    forward = net("Dropout(x)->(y,mask) {ratio=0.25,is_test=0}")
    operators, _ = caffe2.differentiate(forward.op, ["y"])
    forward.op.extend(operators)
    values = caffe2.run(forward, {"x": x})
    np.testing.assert_allclose(values["y"], np.where(values["mask"], 1 / 0.75, 0), rtol=1e-6)
    np.testing.assert_allclose(values["x_grad"], values["y"], rtol=1e-6)
    assert abs(values["mask"].mean() - 0.75) < 0.05


@pytest.mark.parametrize("lengths", [[1, 2], [4, 3]])
@pytest.mark.parametrize(
    "operator", ["LengthsSum(x,n)->(y)", "LengthsMean(x,n)->(y)", "LengthsMax(x,n)->(y)"]
)
def test_lengths_that_do_not_add_up_to_the_rows_are_an_error(operator: str, lengths: list[int]) -> None:
    blobs = {"x": np.ones((5, 2), np.float32), "n": np.array(lengths, np.int32)}
    with pytest.raises(RuntimeFailureError, match="indices element out of data bounds"):
        caffe2.run(net(operator), blobs)


@pytest.mark.parametrize("lengths", [[1, 2], [4, 3]])
def test_packed_lengths_that_do_not_add_up_to_the_rows_are_an_error(lengths: list[int]) -> None:
    blobs = {"x": np.ones((5, 2), np.float32), "n": np.array(lengths, np.int32)}
    with pytest.raises(RuntimeFailureError, match=r"PackSegments\(n, x\)"):
        caffe2.run(net("PackSegments(n,x)->(y)"), blobs)


def test_unpacked_lengths_beyond_the_places_are_an_error() -> None:
    """They would read what belongs to the next segment."""
    blobs = {"x": np.ones((2, 3, 2), np.float32), "n": np.array([4, 1], np.int32)}
    with pytest.raises(RuntimeFailureError, match=r"UnpackSegments\(n, x\).*out of data bounds"):
        caffe2.run(net("UnpackSegments(n,x)->(y)"), blobs)


@pytest.mark.parametrize("other", [(4, 1), (1, 4), ()])
@pytest.mark.parametrize("type_", ["Sum", "Mean", "Max", "Min"])
def test_terms_of_different_ranks_are_an_error(type_: str, other: tuple[int, ...]) -> None:
    """They have never broadcast, and a column added to a row is seldom meant."""
    blobs = {"a": np.ones(4, np.float32), "b": np.ones(other, np.float32)}
    with pytest.raises(UnsupportedOperatorError, match="'b' has another shape than 'a'"):
        caffe2.run(net(f"{type_}(a,b)->(y)"), blobs)


def test_a_vector_is_summed_in_its_order() -> None:
    """To the last bit: Adadelta's steps near a minimum hang on it."""
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    total = np.float32(0)
    for element in x:
        total += element
    assert caffe2.run(net("ReduceFrontSum(x)->(y)"), {"x": x})["y"] == total
