"""Recorded results of the last released original, as tests of the core.

``original_results.json`` holds 92 of 110 recorded cases: forward operators, targets, and the gradient
operators and map (or the first line of the error) that the original gave. Attributes are left out; they are
a matter of the gradient makers. The makers needed are those that take one line in the operator table.

Left for the dialect whose operators these are, 18 cases:

* makers that depend on attributes or on which outputs have gradients: ``spatial_bn_test``,
  ``split_one_unused``, ``grad_of_concat_dims``, ``sparse_lengths_weighted_sum`` and its variant
  ``..._grad_on_weights``, ``batch_matmul``, ``batch_matmul_same``, ``dropout_test``, ``gather_dense_arg``,
  ``second_order_sigmoid``;
* schemas and control flow: ``inplace_sum_second``, ``control_if_only``, ``control_while``;
* the Python interface of the original: ``ys_tuple`` (a tuple of targets is refused there),
  ``net_blobreference_ys``, ``net_name_scope``, ``net_skip``, ``net_filler``.

Two things are compared loosely: additions that follow each other, whose order the original drew from a
hash (W1; netgrad's is that of the operator's inputs), and the device of the original's additions, which
always have one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from netgrad.core import (
    ClassicVocabulary,
    Gradient,
    GradientSlice,
    NetgradError,
    OverwrittenBlobError,
    RuleRegistry,
    UnsupportedOperatorError,
    backward_pass,
)
from tests.core.nets import BLOCKED, make_rules, net, table_rule, text

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in json.loads(Path(__file__).with_name("original_results.json").read_text())
}

ROWS = {
    "AveragePool": "AveragePoolGradient(I0,O0,G0)->(D0)",
    "Cast": "Cast(G0)->(D0)",
    "Clip": "ClipGradient(O0,G0)->(D0)",
    "Concat": "Split(G0,O1)->(D*)",
    "Copy": "CopyOnDeviceLike(G0,I0)->(D0)",
    "Div": "DivGradient(G0,I0,I1,O0)->(D0,D1)",
    "Dropout": "DropoutGrad(G0,O1)->(D0)",
    "Elu": "EluGradient(O0,G0)->(D0)",
    "Exp": "Mul(O0,G0)->(D0)",
    "ExpandDims": "Squeeze(G0)->(D0)",
    "Flatten": "ResizeLike(G0,I0)->(D0)",
    "FlattenToVec": "ResizeLike(G0,I0)->(D0)",
    "LabelCrossEntropy": "LabelCrossEntropyGradient(I0,I1,G0)->(D0)",
    "LeakyRelu": "LeakyReluGradient(O0,G0)->(D0)",
    "Log": "Div(G0,I0)->(D0)",
    "MatMul": "MatMul(G0,I1,I0)->(D0); MatMul(I0,G0,I1)->(D1)",
    "MaxPool": "MaxPoolGradient(I0,O0,G0)->(D0)",
    "PRelu": "PReluGradient(O0,G0,I0,I1)->(D0,D1)",
    "PadImage": "PadImageGradient(G0)->(D0)",
    "ReduceFrontSum": "ReduceFrontSumGradient(G0,I0)->(D0)",
    "ReduceMean": "ReduceMeanGradient(G0,I0,O0)->(D0)",
    "Reshape": "Reshape(G0,O1)->(D0,M0)",
    "Scale": "Scale(G0)->(D0)",
    "Slice": "SliceGradient(I0,G0)->(D0)",
    "Softsign": "SoftsignGradient(I0,G0)->(D0)",
    "SparseLengthsSum": "SparseLengthsIndicesInGradientSumGradient(G0,I2,I1)->(V0); S0=(I1,V0)",
    "SquaredL2Distance": "SquaredL2DistanceGradient(I0,I1,G0)->(D0,D1)",
    "Squeeze": "ExpandDims(G0)->(D0)",
    "Tile": "TileGradient(G0)->(D0)",
}
CONV = {2: "ConvGradient(I0,I1,G0)->(D1,D0)", 3: "ConvGradient(I0,I1,G0)->(D1,D2,D0)"}  # without, with bias

# Where netgrad differs on purpose: the weakness, netgrad's operators, and entries of its map that differ.
DIFFERENT: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "ys_end_and_intermediate_dict": (
        "W3: the given gradient of x1 is lost",
        """SigmoidGradient(x3,x3_grad)->(x2_grad)
        ReluGradient(x2,x2_grad)->(x1_grad)
        Sum(x1_grad,x1_given_grad)->(x1_grad)
        ReluGradient(x1,x1_grad)->(x0_grad)""",
        {},
    ),
    "resnet_block": (
        "W14, W24: the caller's s_grad is overwritten",
        """ReluGradient(s,s_grad)->(s_grad_1)
        ConvGradient(c1,w2,s_grad_1)->(w2_grad,c1_grad)
        ReluGradient(c1,c1_grad)->(c1_grad)
        ConvGradient(x,w1,c1_grad)->(w1_grad,x_grad)
        Sum(x_grad,s_grad_1)->(x_grad)
        ReluGradient(x,x_grad)->(in_grad)""",
        {"c2": "s_grad_1"},
    ),
    "name_collision_autosplit": (
        "W13: the forward blob _x_grad_autosplit_0 is overwritten",
        """MulGradient(c_grad,_x_grad_autosplit_0,b)->(_x_grad_autosplit_0_grad,b_grad)
        SigmoidGradient(b,b_grad)->(x_grad)
        ReluGradient(_x_grad_autosplit_0,_x_grad_autosplit_0_grad)->(_x_grad_autosplit_0_1)
        Sum(x_grad,_x_grad_autosplit_0_1)->(x_grad)""",
        {},
    ),
    "passthrough_name_conflict": (
        "W20: refused",
        "Sum(x_grad,x_grad)->(x_grad_1)",
        {"x": "x_grad_1", "y": "x_grad", "a": "x_grad", "b": "x_grad"},
    ),
    "two_character_name_inside": (
        "W17: refused",
        "ReluGradient(w,gs)->(v_grad)",
        {"s": "gs", "w": "gs", "u": "gs", "v": "v_grad"},
    ),
    "stop_gradient_inplace": (
        "W24: the gradient of the last version of y is hidden",
        "ReluGradient(z,z_grad)->(y_grad)",
        {"y": "y_grad"},
    ),
    "sparse_plus_dense": (
        "W19: refused",
        """FCGradient(g,r,y_grad)->(r_grad,b_grad,g_grad)
        ReluGradient(r,r_grad)->(w_grad)
        SparseToDense(ids,g_grad,w)->(w_grad_dense)
        Sum(w_grad,w_grad_dense)->(w_grad)""",
        {"y": "y_grad", "r": "r_grad", "b": "b_grad", "g": "g_grad", "w": "w_grad"},
    ),
    "ys_gradient_slice_to_dense_op": (
        "W19: refused",
        "SparseToDense(g_idx,g_val,g)->(g_grad_dense)",
        {"g": "g_idx|g_val", "w2": "ids|g_grad_dense"},
    ),
    "ys_gradient_slice_and_uses": (
        "W3: the given slice is lost",
        """Concat(g_idx,i2,i1)->(w_grad_indices_concat,w_grad_indices_concat_split)
        Concat(g_val,c_grad,c_grad)->(w_grad_values_concat,w_grad_values_concat_split)""",
        {},
    ),
    "sparse_into_sum": (
        "W19: refused, though a sum passes a sparse gradient on as it is",
        "",
        {"g": "g_grad", "w": "ids|g_grad", "u": "ids|g_grad", "v": "ids|g_grad"},
    ),
    "device_gpu_differs": (
        "W8: refused",
        """MulGradient(c_grad,a,b)->(a_grad,b_grad)
        SigmoidGradient(b,b_grad)->(x_grad)
        ReluGradient(a,a_grad)->(_x_grad_autosplit_0)
        Copy(x_grad)->(x_grad_copy)
        Sum(x_grad_copy,_x_grad_autosplit_0)->(x_grad)""",
        {"c": "c_grad", "a": "a_grad", "b": "b_grad", "x": "x_grad"},
    ),
    "device_passthrough_differs": (
        "W8: refused",
        """ReluGradient(a,s_grad)->(x_grad)
        Copy(s_grad)->(s_grad_copy)
        Sum(x_grad,s_grad_copy)->(x_grad)""",
        {"s": "s_grad", "a": "s_grad", "x": "x_grad"},
    ),
    "device_ys_intermediate": (
        "W8, W15: refused",
        """ConstantFill(b)->(b_autogen_grad)
        ConstantFill(a)->(a_autogen_grad)
        SigmoidGradient(b,b_autogen_grad)->(_a_grad_autosplit_0)
        Sum(a_autogen_grad,_a_grad_autosplit_0)->(a_autogen_grad)
        ReluGradient(a,a_autogen_grad)->(x_grad)""",
        {"b": "b_autogen_grad", "a": "a_autogen_grad", "x": "x_grad"},
    ),
    "gradient_frontier_mismatch": (
        "W11: refused",
        """CopyOnDeviceLike(z_grad,y)->(y_grad)
        CopyOnDeviceLike(y_grad,w)->(w_grad)""",
        {"z": "z_grad", "y": "y_grad", "w": "w_grad"},
    ),
    "versions_multi_use_scale": (
        "W2: the gradient of h@1, passed to two blobs, is overwritten before its second use",
        """Scale(out_grad)->(h_grad)
        Scale(out_grad)->(_h_grad_autosplit_0)
        Sum(h_grad,_h_grad_autosplit_0)->(h_grad)
        Scale(h_grad)->(h_grad_1)
        Scale(h_grad)->(_h_grad_autosplit_0)
        Sum(h_grad_1,_h_grad_autosplit_0)->(h_grad_1)
        CopyOnDeviceLike(h_grad_1,in)->(in_grad)""",
        {"in": "in_grad"},
    ),
}
DIFFERENT["device_unset_and_gpu"] = DIFFERENT["device_gpu_differs"]

ERRORS: dict[str, type[NetgradError]] = {
    "Gradient operator needs output": OverwrittenBlobError,
    "Gradient operator needs input": OverwrittenBlobError,
    "Exception when creating gradient": UnsupportedOperatorError,
}
# The original accepts an in-place operator whose gradient reads the overwritten input (W4).
REFUSED = {"mul_inplace": OverwrittenBlobError}


class Words(ClassicVocabulary):
    def same_device(self, first: Any, second: Any) -> bool:
        return (first or "cpu") == (second or "cpu")


def _rules() -> RuleRegistry:
    rules = make_rules()
    for type_, row in ROWS.items():
        rules.register(type_, table_rule(row), blocked=BLOCKED.get(type_, ()), partial=True, dense=True)
    rules.register("Conv", lambda op, grads: table_rule(CONV[len(op.inputs)])(op, grads))
    rules.should_not_do_gradient("Where")
    return rules


@pytest.mark.parametrize("name", CASES)
def test_recorded_result(name: str) -> None:
    case = CASES[name]
    targets = case["targets"]
    if isinstance(targets, dict):
        targets = {blob: None if grad is None else _gradient(grad) for blob, grad in targets.items()}
    forward = net("\n".join(case["forward"]))
    error = REFUSED.get(name) or next(
        (kind for start, kind in ERRORS.items() if case.get("error", "").startswith(start)), None
    )
    if error is not None and name not in DIFFERENT:
        with pytest.raises(error):
            backward_pass(forward, targets, _rules(), vocabulary=Words())
        return

    result = backward_pass(forward, targets, _rules(), vocabulary=Words())
    operators = [line.split(" {")[0] for line in text(result.operators)]
    expected, gradients = case.get("operators", []), dict(case.get("gradients", {}))
    if name in DIFFERENT:
        _, listed, entries = DIFFERENT[name]
        expected = [line.strip() for line in listed.split("\n") if line.strip()]
        gradients.update(entries)
    assert _sorted_sums(operators) == _sorted_sums([line.split(" @")[0] for line in expected])
    assert result.gradients == {blob: _gradient(grad) for blob, grad in gradients.items()}
    on_gpu = {line.split(" @")[0]: line.split(" @")[1] for line in case.get("operators", []) if " @" in line}
    for line, op in zip(operators, result.operators, strict=True):
        assert op.device == on_gpu.get(line, op.device)


def test_number_of_recorded_results() -> None:
    assert len(CASES) == 110 - 18
    assert set(DIFFERENT) | set(REFUSED) <= set(CASES)


def _gradient(form: str) -> Gradient:
    return GradientSlice(*form.split("|")) if "|" in form else form


def _sorted_sums(operators: list[str]) -> list[str]:
    """Operators with additions that follow each other in alphabetical order."""
    ordered: list[str] = []
    run: list[str] = []
    for line in [*operators, ""]:
        if line.startswith("Sum("):
            run.append(line)
            continue
        ordered += [*sorted(run), line]
        run = []
    return ordered
