"""The test cases of the original, in its last released form, operator for operator and name for name.

The list of operators and the whole map are compared. A row whose note names a weakness (W...) shows what the
original gets wrong; it then holds the right result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from netgrad.core import (
    Gradient,
    GradientSlice,
    InvalidModelError,
    Operator,
    OverwrittenBlobError,
    RuleError,
    RuleRegistry,
    backward_pass,
)
from tests.core.nets import lines, make_rules, net, table_rule, text, text_with_devices


@dataclass(frozen=True)
class Case:
    name: str
    forward: str
    targets: Mapping[str, Gradient | None] | Sequence[str]
    operators: str
    gradients: str  # "blob: gradient, ..."; a slice is written indices|values
    note: str = ""

    def __str__(self) -> str:
        return self.name


MULTI_USE = "Direct(in)->(hidden1); {second}(in)->(hidden2); Direct(hidden1,hidden2)->(out)"
SUM_NAMES = "x2_grad_indices_concat|x2_grad_values_concat"

CASES = [
    Case(
        "testDirect",
        "Direct(in)->(hidden); Direct(hidden)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden_grad); DirectGradient(hidden_grad)->(in_grad)",
        "out: out_grad, hidden: hidden_grad, in: in_grad",
    ),
    Case(
        "testDirectImplicitGradientSource",
        "Direct(in)->(hidden); Direct(hidden)->(out)",
        ["out"],
        "ConstantFill(out)->(out_autogen_grad) {value=1.0}; DirectGradient(out_autogen_grad)->(hidden_grad); "
        "DirectGradient(hidden_grad)->(in_grad)",
        "out: out_autogen_grad, hidden: hidden_grad, in: in_grad",
    ),
    Case(
        "testDoesNotGenerateUnnecessaryGradients",
        "Direct(in)->(hidden); Direct(hidden)->(out)",
        {"hidden": "hidden_grad"},
        "DirectGradient(hidden_grad)->(in_grad)",
        "hidden: hidden_grad, in: in_grad",
    ),
    Case("testDirectButNoOutputGradientGiven", "Direct(in)->(hidden); Direct(hidden)->(out)", {}, "", ""),
    Case(
        "testDirectInPlace",
        "Direct(in)->(in); Direct(in)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(in_grad); DirectGradient(in_grad)->(in_grad)",
        "out: out_grad, in: in_grad",
    ),
    Case(
        "testVersionMismatch",
        "Direct(x)->(x); Direct(y)->(x); Direct(x)->(y)",
        {"y": "y_grad"},
        "DirectGradient(y_grad)->(x_grad); DirectGradient(x_grad)->(y_grad_1)",
        "y: y_grad, x: x_grad",
        note="W11: the original takes the gradient of x@2 for that of x@1 and refuses; the caller's y_grad "
        "isn't overwritten by the gradient of y@0 (W14)",
    ),
    Case(
        "testUseOutput",
        "UseOutput(in)->(hidden); UseOutput(hidden)->(out); Direct(out)->(sink)",
        {"sink": "sink_grad"},
        "DirectGradient(sink_grad)->(out_grad); UseOutputGradient(out,out_grad)->(hidden_grad); "
        "UseOutputGradient(hidden,hidden_grad)->(in_grad)",
        "sink: sink_grad, out: out_grad, hidden: hidden_grad, in: in_grad",
    ),
    Case(
        "testUseOutputInPlace",
        "UseOutput(in)->(in); UseOutput(in)->(out); Direct(out)->(sink)",
        {"sink": "sink_grad"},
        "DirectGradient(sink_grad)->(out_grad); UseOutputGradient(out,out_grad)->(in_grad); "
        "UseOutputGradient(in,in_grad)->(in_grad)",
        "sink: sink_grad, out: out_grad, in: in_grad",
    ),
    Case(
        "testUseInput",
        "Direct(in)->(hidden); UseInput(hidden)->(out); Direct(out)->(sink)",
        {"sink": "sink_grad"},
        "DirectGradient(sink_grad)->(out_grad); UseInputGradient(hidden,out_grad)->(hidden_grad); "
        "DirectGradient(hidden_grad)->(in_grad)",
        "sink: sink_grad, out: out_grad, hidden: hidden_grad, in: in_grad",
    ),
    Case(
        "testMultiUseInput",
        MULTI_USE.format(second="Direct"),
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden1_grad,hidden2_grad); DirectGradient(hidden2_grad)->(in_grad); "
        "DirectGradient(hidden1_grad)->(_in_grad_autosplit_0); Sum(in_grad,_in_grad_autosplit_0)->(in_grad)",
        "out: out_grad, hidden1: hidden1_grad, hidden2: hidden2_grad, in: in_grad",
    ),
    Case(
        "testMultiUseInputButWithNoGradient",
        MULTI_USE.format(second="Nogradient"),
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden1_grad,hidden2_grad); DirectGradient(hidden1_grad)->(in_grad)",
        "out: out_grad, hidden1: hidden1_grad, hidden2: hidden2_grad, in: in_grad",
    ),
    Case(
        "testMultiUseInputAndMultipleVersions",
        f"Direct(in)->(in); {MULTI_USE.format(second='Direct')}",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden1_grad,hidden2_grad); DirectGradient(hidden2_grad)->(in_grad); "
        "DirectGradient(hidden1_grad)->(_in_grad_autosplit_0); Sum(in_grad,_in_grad_autosplit_0)->(in_grad); "
        "DirectGradient(in_grad)->(in_grad)",
        "out: out_grad, hidden1: hidden1_grad, hidden2: hidden2_grad, in: in_grad",
    ),
    Case(
        "testMultiUseInputAndMultipleVersionsBig",
        "Direct(in)->(in); Direct(in)->(hidden1); Direct(in)->(hidden2); Direct(hidden1,hidden2)->(in); "
        "Direct(in)->(hidden3); Direct(in)->(hidden4); Direct(in)->(hidden5); "
        "Direct(hidden3,hidden4,hidden5)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden3_grad,hidden4_grad,hidden5_grad); "
        "DirectGradient(hidden5_grad)->(in_grad); DirectGradient(hidden4_grad)->(_in_grad_autosplit_0); "
        "DirectGradient(hidden3_grad)->(_in_grad_autosplit_1); "
        "Sum(in_grad,_in_grad_autosplit_0,_in_grad_autosplit_1)->(in_grad); "
        "DirectGradient(in_grad)->(hidden1_grad,hidden2_grad); DirectGradient(hidden2_grad)->(in_grad); "
        "DirectGradient(hidden1_grad)->(_in_grad_autosplit_0); Sum(in_grad,_in_grad_autosplit_0)->(in_grad); "
        "DirectGradient(in_grad)->(in_grad)",
        "out: out_grad, hidden3: hidden3_grad, hidden4: hidden4_grad, hidden5: hidden5_grad, in: in_grad, "
        "hidden1: hidden1_grad, hidden2: hidden2_grad",
    ),
    Case(
        "testGradientMappingUsingSumOp",
        "FC(in,w,b)->(fc); Sum(fc)->(agg); AveragedLoss(agg)->(loss)",
        {"loss": "loss_grad"},
        "AveragedLossGradient(agg,loss_grad)->(agg_grad); FCGradient(in,w,agg_grad)->(w_grad,b_grad,in_grad)",
        "loss: loss_grad, agg: agg_grad, fc: agg_grad, in: in_grad, w: w_grad, b: b_grad",
    ),
    Case(
        "testGradientCalculationWithPrint",
        "FC(in,w,b)->(fc); Print(fc)->(); AveragedLoss(fc)->(loss)",
        {"loss": "loss_grad"},
        "AveragedLossGradient(fc,loss_grad)->(fc_grad); FCGradient(in,w,fc_grad)->(w_grad,b_grad,in_grad)",
        "loss: loss_grad, fc: fc_grad, in: in_grad, w: w_grad, b: b_grad",
    ),
    Case(
        "testStopGradient",
        "Direct(in)->(hidden); StopGradient(hidden)->(hidden2); Direct(hidden2)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden2_grad)",
        "out: out_grad, hidden2: hidden2_grad",
    ),
    Case(
        "testStopGradientInplace",
        "Direct(in)->(hidden); StopGradient(hidden)->(hidden); Direct(hidden)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden_grad)",
        "out: out_grad, hidden: hidden_grad",
        note="W24: the original hides the gradient of the last version of hidden, which exists",
    ),
    Case(
        "testStopGradientWithMultiUseOperators",
        "Direct(in)->(hidden); Direct(hidden)->(hidden2); StopGradient(hidden)->(hidden3); "
        "Direct(hidden2,hidden3)->(out)",
        {"out": "out_grad"},
        "DirectGradient(out_grad)->(hidden2_grad,hidden3_grad); DirectGradient(hidden2_grad)->(hidden_grad); "
        "DirectGradient(hidden_grad)->(in_grad)",
        "out: out_grad, hidden2: hidden2_grad, hidden3: hidden3_grad, hidden: hidden_grad, in: in_grad",
    ),
    Case(
        "test_zero_gradient",
        "LSTMUnit(h,c,g,s,t)->(hidden_t,cell_t); ZeroGradient(cell_t)->()",
        ["hidden_t"],
        "ConstantFill(hidden_t)->(hidden_t_autogen_grad) {value=1.0}; "
        "ConstantFill(cell_t)->(cell_t_grad) {value=0.0}; "
        "LSTMUnitGradient(h,c,g,s,t,hidden_t,cell_t,hidden_t_autogen_grad,cell_t_grad)->(h_grad,c_grad,g_grad)",
        "hidden_t: hidden_t_autogen_grad, cell_t: cell_t_grad, h: h_grad, c: c_grad, g: g_grad",
    ),
    Case(
        "test_zero_gradient_without_the_operator",
        "LSTMUnit(h,c,g,s,t)->(hidden_t,cell_t)",
        ["hidden_t"],
        "ConstantFill(hidden_t)->(hidden_t_autogen_grad) {value=1.0}; "
        "ConstantFill(cell_t)->(cell_t_grad) {value=0.0}; "
        "LSTMUnitGradient(h,c,g,s,t,hidden_t,cell_t,hidden_t_autogen_grad,cell_t_grad)->(h_grad,c_grad,g_grad)",
        "hidden_t: hidden_t_autogen_grad, h: h_grad, c: c_grad, g: g_grad",
        note="W22: the original's maker refuses",
    ),
    Case(
        "test_two_grads",
        "Mul(input,two)->(mul_1); Mul(mul_1,three)->(mul_2)",
        ["mul_2", "mul_1"],
        "ConstantFill(mul_2)->(mul_2_autogen_grad) {value=1.0}; "
        "ConstantFill(mul_1)->(mul_1_autogen_grad) {value=1.0}; "
        "MulGradient(mul_2_autogen_grad,mul_1,three)->(_mul_1_grad_autosplit_0,three_grad); "
        "Sum(mul_1_autogen_grad,_mul_1_grad_autosplit_0)->(mul_1_autogen_grad); "
        "MulGradient(mul_1_autogen_grad,input,two)->(input_grad,two_grad)",
        "mul_2: mul_2_autogen_grad, mul_1: mul_1_autogen_grad, three: three_grad, input: input_grad, "
        "two: two_grad",
    ),
    Case(
        "testSparseAccumulationWithValues",
        "Gather(x2,x1)->(x4); Gather(x2,x3)->(x5); DotProduct(x4,x5)->(x6)",
        ["x6"],
        "ConstantFill(x6)->(x6_autogen_grad) {value=1.0}; "
        "DotProductGradient(x4,x5,x6_autogen_grad)->(x4_grad,x5_grad); "
        "Concat(x3,x1)->(x2_grad_indices_concat,x2_grad_indices_concat_split) {axis=0}; "
        "Concat(x5_grad,x4_grad)->(x2_grad_values_concat,x2_grad_values_concat_split) {axis=0}",
        f"x6: x6_autogen_grad, x4: x4_grad, x5: x5_grad, x2: {SUM_NAMES}",
    ),
    Case(
        "testSparseGradientToDense",
        "FC(x0,w,b)->(x2); EnsureDense(x2)->(x2); Gather(x2,x1)->(x4); Gather(x2,x3)->(x5); "
        "DotProduct(x4,x5)->(x6)",
        ["x6"],
        "ConstantFill(x6)->(x6_autogen_grad) {value=1.0}; "
        "DotProductGradient(x4,x5,x6_autogen_grad)->(x4_grad,x5_grad); "
        "Concat(x3,x1)->(x2_grad_indices_concat,x2_grad_indices_concat_split) {axis=0}; "
        "Concat(x5_grad,x4_grad)->(x2_grad_values_concat,x2_grad_values_concat_split) {axis=0}; "
        "SparseToDense(x2_grad_indices_concat,x2_grad_values_concat,x2)->(x2_grad); "
        "FCGradient(x0,w,x2_grad)->(w_grad,b_grad,x0_grad)",
        f"x6: x6_autogen_grad, x4: x4_grad, x5: x5_grad, x2: {SUM_NAMES}, x0: x0_grad, w: w_grad, b: b_grad",
        note="W24: the original's map shows x2_grad, of the older version of x2",
    ),
    Case(
        "testSparseAccumulationWithIndicesAndValues",
        "SparseFunHash(x1,x2,x3,x4)->(x8); SparseFunHash(x5,x6,x7,x4)->(x9); DotProduct(x8,x9)->(x10)",
        ["x10"],
        "ConstantFill(x10)->(x10_autogen_grad) {value=1.0}; "
        "DotProductGradient(x8,x9,x10_autogen_grad)->(x8_grad,x9_grad); "
        "SparseFunHashGradient(x9_grad,x5,x6,x7,x4)"
        "->(_x4_grad_values_autosplit_0,_x4_grad_indices_autosplit_0); "
        "SparseFunHashGradient(x8_grad,x1,x2,x3,x4)"
        "->(_x4_grad_values_autosplit_1,_x4_grad_indices_autosplit_1); "
        "Concat(_x4_grad_indices_autosplit_0,_x4_grad_indices_autosplit_1)"
        "->(x4_grad_indices_concat,x4_grad_indices_concat_split) {axis=0}; "
        "Concat(_x4_grad_values_autosplit_0,_x4_grad_values_autosplit_1)"
        "->(x4_grad_values_concat,x4_grad_values_concat_split) {axis=0}",
        "x10: x10_autogen_grad, x8: x8_grad, x9: x9_grad, x4: x4_grad_indices_concat|x4_grad_values_concat",
    ),
    Case(
        "testNormalAccumulation",
        "Relu(x1)->(x2); Softmax(x2)->(x3); DotProduct(x2,x3)->(x4)",
        ["x4"],
        "ConstantFill(x4)->(x4_autogen_grad) {value=1.0}; "
        "DotProductGradient(x2,x3,x4_autogen_grad)->(x2_grad,x3_grad); "
        "SoftmaxGradient(x3,x3_grad)->(_x2_grad_autosplit_0); Sum(x2_grad,_x2_grad_autosplit_0)->(x2_grad); "
        "ReluGradient(x2,x2_grad)->(x1_grad)",
        "x4: x4_autogen_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
    ),
    Case(
        "testAccumulationWithNoGradientBranch",
        "Relu(x1)->(x2); Print(x2)->(); Softmax(x2)->(x3); DotProduct(x2,x3)->(x4)",
        ["x4"],
        "ConstantFill(x4)->(x4_autogen_grad) {value=1.0}; "
        "DotProductGradient(x2,x3,x4_autogen_grad)->(x2_grad,x3_grad); "
        "SoftmaxGradient(x3,x3_grad)->(_x2_grad_autosplit_0); Sum(x2_grad,_x2_grad_autosplit_0)->(x2_grad); "
        "ReluGradient(x2,x2_grad)->(x1_grad)",
        "x4: x4_autogen_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
    ),
    Case(
        "testAddAndDynamicConstant",
        "FC(x1,x1_w,x1_b)->(x2); Relu(x2)->(x2); ConstantFill(x2)->(x3); Add(x2,x3)->(x4); "
        "FC(x4,x4_w,x4_b)->(x5); SoftmaxWithLoss(x5,labels)->(softmax,loss)",
        ["loss"],
        "ConstantFill(loss)->(loss_autogen_grad) {value=1.0}; "
        "SoftmaxWithLossGradient(x5,labels,softmax,loss_autogen_grad)->(x5_grad); "
        "FCGradient(x4,x4_w,x5_grad)->(x4_w_grad,x4_b_grad,x4_grad); "
        "AddGradient(x4_grad,x2,x3)->(x2_grad,x3_grad); ReluGradient(x2,x2_grad)->(x2_grad); "
        "FCGradient(x1,x1_w,x2_grad)->(x1_w_grad,x1_b_grad,x1_grad)",
        "loss: loss_autogen_grad, x5: x5_grad, x4: x4_grad, x4_w: x4_w_grad, x4_b: x4_b_grad, x2: x2_grad, "
        "x3: x3_grad, x1: x1_grad, x1_w: x1_w_grad, x1_b: x1_b_grad",
    ),
    Case(
        "testAddAndStaticConstant",
        "FC(x1,x1_w,x1_b)->(x2); Relu(x2)->(x2); ConstantFill()->(x3) {shape=1}; "
        "Add(x2,x3)->(x4) {broadcast=1}; FC(x4,x4_w,x4_b)->(x5); SoftmaxWithLoss(x5,labels)->(softmax,loss)",
        ["loss"],
        "ConstantFill(loss)->(loss_autogen_grad) {value=1.0}; "
        "SoftmaxWithLossGradient(x5,labels,softmax,loss_autogen_grad)->(x5_grad); "
        "FCGradient(x4,x4_w,x5_grad)->(x4_w_grad,x4_b_grad,x4_grad); "
        "AddGradient(x4_grad,x2,x3)->(x2_grad,x3_grad) {broadcast=1}; ReluGradient(x2,x2_grad)->(x2_grad); "
        "FCGradient(x1,x1_w,x2_grad)->(x1_w_grad,x1_b_grad,x1_grad)",
        "loss: loss_autogen_grad, x5: x5_grad, x4: x4_grad, x4_w: x4_w_grad, x4_b: x4_b_grad, x2: x2_grad, "
        "x3: x3_grad, x1: x1_grad, x1_w: x1_w_grad, x1_b: x1_b_grad",
    ),
    Case(
        "testAccumulationRuns",
        "Mul(input,two)->(mul_1); Mul(input,three)->(mul_2); Sub(mul_1,one)->(N/Sub)",
        ["mul_2", "N/Sub"],
        "ConstantFill(mul_2)->(mul_2_autogen_grad) {value=1.0}; "
        "ConstantFill(N/Sub)->(N/Sub_autogen_grad) {value=1.0}; "
        "SubGradient(N/Sub_autogen_grad,mul_1,one)->(mul_1_grad,one_grad); "
        "MulGradient(mul_2_autogen_grad,input,three)->(input_grad,three_grad); "
        "MulGradient(mul_1_grad,input,two)->(_input_grad_autosplit_0,two_grad); "
        "Sum(input_grad,_input_grad_autosplit_0)->(input_grad)",
        "mul_2: mul_2_autogen_grad, N/Sub: N/Sub_autogen_grad, mul_1: mul_1_grad, one: one_grad, "
        "input: input_grad, three: three_grad, two: two_grad",
    ),
    *(
        Case(
            f"test{type_}OpInMiddle",
            f"Relu(x1)->(x2); Softmax(x2)->(x3); {type_}(x2,x3)->(x4)",
            {"x4": "x4_grad"},
            f"{type_}Gradient(x4_grad,x2,x3)->(x2_grad,x3_grad); "
            "SoftmaxGradient(x3,x3_grad)->(_x2_grad_autosplit_0); "
            "Sum(x2_grad,_x2_grad_autosplit_0)->(x2_grad); ReluGradient(x2,x2_grad)->(x1_grad)",
            "x4: x4_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
        )
        for type_ in ("Add", "Sub")
    ),
    *(
        Case(
            f"test{type_}OpAtLeaf",
            f"{type_}(x1,x2)->(x4); {type_}(x2,x3)->(x5); DotProduct(x4,x5)->(x6)",
            {"x6": "x6_grad"},
            f"DotProductGradient(x4,x5,x6_grad)->(x4_grad,x5_grad); "
            f"{type_}Gradient(x5_grad,x2,x3)->(x2_grad,x3_grad); "
            f"{type_}Gradient(x4_grad,x1,x2)->(x1_grad,_x2_grad_autosplit_0); "
            "Sum(x2_grad,_x2_grad_autosplit_0)->(x2_grad)",
            "x6: x6_grad, x4: x4_grad, x5: x5_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
        )
        for type_ in ("Add", "Sub")
    ),
    *(
        Case(
            f"testMultiLayer{type_}Ops",
            f"{type_}(x1,x2)->(x4); {type_}(x2,x3)->(x5); {type_}(x4,x5)->(x6)",
            {"x6": "x6_grad"},
            f"{type_}Gradient(x6_grad,x4,x5)->(x4_grad,x5_grad); "
            f"{type_}Gradient(x5_grad,x2,x3)->(x2_grad,x3_grad); "
            f"{type_}Gradient(x4_grad,x1,x2)->(x1_grad,_x2_grad_autosplit_0); "
            "Sum(x2_grad,_x2_grad_autosplit_0)->(x2_grad)",
            "x6: x6_grad, x4: x4_grad, x5: x5_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
        )
        for type_ in ("Add", "Sub")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_of_the_original(case: Case) -> None:
    forward = net(case.forward)
    result = backward_pass(forward, case.targets, make_rules())
    assert text(result.operators) == lines(case.operators)
    assert result.gradients == _map(case.gradients)
    assert result.forward == tuple(forward)


# The elementwise makers of the year before pass gradients through; the names of a passed gradient among
# computed ones are tested by them.
PASSING = {
    "Add": "D0=G0; D1=G0",
    "Sub": "D0=G0; Negative(G0)->(D1)",
}

PASSING_CASES = [
    Case(
        "testAddOpInMiddle",
        "Relu(x1)->(x2); Softmax(x2)->(x3); Add(x2,x3)->(x4)",
        {"x4": "x4_grad"},
        "SoftmaxGradient(x3,x4_grad)->(x2_grad); Sum(x2_grad,x4_grad)->(x2_grad); "
        "ReluGradient(x2,x2_grad)->(x1_grad)",
        "x4: x4_grad, x2: x2_grad, x3: x4_grad, x1: x1_grad",
    ),
    Case(
        "testAddAndDynamicConstant",
        "FC(x1,x1_w,x1_b)->(x2); Relu(x2)->(x2); ConstantFill(x2)->(x3); Add(x2,x3)->(x4); "
        "FC(x4,x4_w,x4_b)->(x5); SoftmaxWithLoss(x5,labels)->(softmax,loss)",
        ["loss"],
        "ConstantFill(loss)->(loss_autogen_grad) {value=1.0}; "
        "SoftmaxWithLossGradient(x5,labels,softmax,loss_autogen_grad)->(x5_grad); "
        "FCGradient(x4,x4_w,x5_grad)->(x4_w_grad,x4_b_grad,x4_grad); ReluGradient(x2,x4_grad)->(x2_grad); "
        "FCGradient(x1,x1_w,x2_grad)->(x1_w_grad,x1_b_grad,x1_grad)",
        "loss: loss_autogen_grad, x5: x5_grad, x4: x4_grad, x4_w: x4_w_grad, x4_b: x4_b_grad, x2: x4_grad, "
        "x3: x4_grad, x1: x1_grad, x1_w: x1_w_grad, x1_b: x1_b_grad",
        note="W24: the original's map shows x2_grad, of the older version of x2",
    ),
    Case(
        "testSubOpInMiddle",
        "Relu(x1)->(x2); Softmax(x2)->(x3); Sub(x2,x3)->(x4)",
        {"x4": "x4_grad"},
        "Negative(x4_grad)->(x3_grad); SoftmaxGradient(x3,x3_grad)->(x2_grad); "
        "Sum(x2_grad,x4_grad)->(x2_grad); ReluGradient(x2,x2_grad)->(x1_grad)",
        "x4: x4_grad, x2: x2_grad, x3: x3_grad, x1: x1_grad",
    ),
    Case(
        "testAddOpAtLeaf",
        "Add(x1,x2)->(x4); Add(x2,x3)->(x5); DotProduct(x4,x5)->(x6)",
        {"x6": "x6_grad"},
        "DotProductGradient(x4,x5,x6_grad)->(x4_grad,x5_grad); Sum(x5_grad,x4_grad)->(x2_grad)",
        "x6: x6_grad, x4: x4_grad, x5: x5_grad, x2: x2_grad, x3: x5_grad, x1: x4_grad",
    ),
    Case(
        "testSubOpAtLeaf",
        "Sub(x1,x2)->(x4); Sub(x2,x3)->(x5); DotProduct(x4,x5)->(x6)",
        {"x6": "x6_grad"},
        "DotProductGradient(x4,x5,x6_grad)->(x4_grad,x5_grad); Negative(x5_grad)->(x3_grad); "
        "Negative(x4_grad)->(x2_grad); Sum(x2_grad,x5_grad)->(x2_grad)",
        "x6: x6_grad, x4: x4_grad, x5: x5_grad, x2: x2_grad, x3: x3_grad, x1: x4_grad",
    ),
    Case(
        "testMultiLayerAddOps",
        "Add(x1,x2)->(x4); Add(x2,x3)->(x5); Add(x4,x5)->(x6)",
        {"x6": "x6_grad"},
        "Sum(x6_grad,x6_grad)->(x2_grad)",
        "x6: x6_grad, x4: x6_grad, x5: x6_grad, x2: x2_grad, x3: x6_grad, x1: x6_grad",
    ),
    Case(
        "testMultiLayerSubOps",
        "Sub(x1,x2)->(x4); Sub(x2,x3)->(x5); Sub(x4,x5)->(x6)",
        {"x6": "x6_grad"},
        "Negative(x6_grad)->(x5_grad); Negative(x5_grad)->(x3_grad); Negative(x6_grad)->(x2_grad); "
        "Sum(x2_grad,x5_grad)->(x2_grad)",
        "x6: x6_grad, x4: x6_grad, x5: x5_grad, x2: x2_grad, x3: x3_grad, x1: x6_grad",
    ),
]


@pytest.mark.parametrize("case", PASSING_CASES, ids=str)
def test_case_of_the_original_with_passing_makers(case: Case) -> None:
    rules = make_rules()
    for type_, row in PASSING.items():
        rules.register(type_, table_rule(row))
    result = backward_pass(net(case.forward), case.targets, rules)
    assert text(result.operators) == lines(case.operators)
    assert result.gradients == _map(case.gradients)


@pytest.mark.parametrize("name", ["testDirect", "testMultiUseInput"])
def test_gradient_operators_run_where_the_forward_operators_run(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    forward = [Operator(op.type, op.inputs, op.outputs, device="gpu:1") for op in net(case.forward)]
    result = backward_pass(forward, case.targets, make_rules())
    assert text_with_devices(result.operators) == [f"{line} @gpu:1" for line in lines(case.operators)]


def test_device_options_propagation() -> None:
    forward = net(
        """Gather(w,ids)->(gathered) @node:0
        ReduceSum(gathered)->(N/ReduceSum:0) {axes=0} @node:0
        Gather(w,ids_2)->(gathered_2) @node:0
        ReduceSum(gathered_2)->(N/ReduceSum_2:0) {axes=0} @node:0
        Sum(N/ReduceSum:0,N/ReduceSum_2:0)->(N/Sum:0) @node:0"""
    )
    result = backward_pass(forward, ["N/Sum:0"], make_rules())
    assert text(result.operators) == lines(
        """ConstantFill(N/Sum:0)->(N/Sum:0_autogen_grad) {value=1.0}
        ReduceSumGradient(N/Sum:0_autogen_grad,gathered_2,N/ReduceSum_2:0)->(gathered_2_grad) {axes=0}
        ReduceSumGradient(N/Sum:0_autogen_grad,gathered,N/ReduceSum:0)->(gathered_grad) {axes=0}
        Concat(ids_2,ids)->(w_grad_indices_concat,w_grad_indices_concat_split) {axis=0}
        Concat(gathered_2_grad,gathered_grad)->(w_grad_values_concat,w_grad_values_concat_split) {axis=0}"""
    )
    assert {op.device for op in result.operators} == {"node:0"}


def test_use_output_but_output_has_been_changed() -> None:
    forward = net(
        "UseOutput(in)->(hidden); Direct(hidden)->(hidden); UseOutput(hidden)->(out); Direct(out)->(sink)"
    )
    with pytest.raises(OverwrittenBlobError, match=r"needs version 0 of blob 'hidden'.*last version is 1"):
        backward_pass(forward, {"sink": "sink_grad"}, make_rules())


def test_use_input_but_input_has_been_changed() -> None:
    with pytest.raises(OverwrittenBlobError, match=r"needs version 0 of blob 'in'.*last version is 1"):
        backward_pass(net("UseInput(in)->(out); Direct(in)->(in)"), {"out": "out_grad"}, make_rules())


def test_stop_gradient_orphan() -> None:
    forward = net("Direct(in)->(hidden); StopGradient(hidden)->(auto_blobx); Direct(hidden)->(out)")
    with pytest.raises(InvalidModelError, match="auto_blobx"):
        backward_pass(forward, {"out": "out_grad"}, make_rules())


def test_incorrect_operator() -> None:
    def mul(op: Operator, grads: Sequence[str]) -> object:
        _x, _y = op.inputs  # what a schema would check
        raise AssertionError("not reached")

    rules = RuleRegistry()
    rules.register("Mul", mul)
    rules.register("Sub", table_rule("SubGradient(G0,I0,I1)->(D0,D1)"))
    with pytest.raises(RuleError, match=r"not enough values to unpack.*Mul\(a\) -> \(b\)"):
        backward_pass(net("Mul(a)->(b); Sub(b,one)->(N/Sub)"), ["N/Sub"], rules)


def test_number_of_cases() -> None:
    """All of the original's: 38, and the one that was added last."""
    tested = {case.name for case in (*CASES, *PASSING_CASES)} - {"test_zero_gradient_without_the_operator"}
    elsewhere = {
        "testDeviceOptionsPropagation",
        "testUseOutputButOutputHasBeenChanged",
        "testUseInputButInputHasBeenChanged",
        "testStopGradientOrphan",
        "testIncorrectOperator",
    }
    assert len(tested | elsewhere) == 39


def _map(text_form: str) -> dict[str, Gradient]:
    gradients: dict[str, Gradient] = {}
    for pair in filter(None, text_form.split(", ")):
        blob, gradient = pair.split(": ")
        gradients[blob] = GradientSlice(*gradient.split("|")) if "|" in gradient else gradient
    return gradients
