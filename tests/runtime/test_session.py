from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, RuntimeFailureError
from netgrad.runtime.session import Session, run
from netgrad.runtime.values import copy_to_value
from tests.runtime.models import DOUBLE, FLOAT, model, node, numbers


def linear(weight: np.ndarray) -> onnx.ModelProto:
    return model(
        [node("MatMul", "x W", "h"), node("Tanh", "h", "y")],
        {"x": (FLOAT, ["N", weight.shape[0]])},
        {"y": FLOAT, "h": FLOAT},
        {"W": weight},
    )


def test_run_gives_all_outputs_or_the_wanted_ones():
    weight, x = numbers(3, 2), numbers(4, 3, seed=1)
    result = run(linear(weight), {"x": x})
    assert list(result) == ["y", "h"]
    np.testing.assert_allclose(result["h"], x @ weight, rtol=1e-6)
    assert list(run(linear(weight), {"x": x}, ["h"])) == ["h"]
    assert list(run(linear(weight), {"x": x}, "h")) == ["h"]


def test_feeding_an_initializer_overrides_it_and_leaves_the_model_alone():
    weight, x = numbers(3, 2), numbers(4, 3, seed=1)
    proto = linear(weight)
    before = proto.SerializeToString()
    doubled = run(proto, {"x": x, "W": weight * 2})["h"]
    np.testing.assert_allclose(doubled, 2 * (x @ weight), rtol=1e-6)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("ir_version", [3, 4, 10])
def test_an_initializer_listed_as_input_is_a_default(ir_version):
    proto = model(
        [node("Add", "x w", "y")],
        {"x": (FLOAT, ["N"]), "w": (FLOAT, [1])},
        {"y": FLOAT},
        {"w": np.ones(1, np.float32)},
        ir_version=ir_version,
    )
    assert run(proto, {"x": [1, 2]})["y"].tolist() == [2, 3]
    assert run(proto, {"x": [1, 2], "w": [5]})["y"].tolist() == [6, 7]
    assert Session(proto).run({"x": [1, 2]})["y"].tolist() == [2, 3]


def test_large_weights_are_shared_with_the_session_and_not_copied():
    weight = numbers(600, 700)
    ir_model = onnx_ir.from_proto(
        model([node("Add", "x W", "y")], {"x": (FLOAT, [1])}, {"y": FLOAT}, {"W": numbers(600, 700, seed=1)})
    )
    ir_model.graph.initializers["W"].const_value = onnx_ir.tensor(weight, name="W")
    session = Session(ir_model)
    np.testing.assert_array_equal(session.run({"x": [1]})["y"], weight + 1)
    weight[:] = 0  # what the documentation warns of, used as the proof that nothing was copied
    assert (session.run({"x": [1]})["y"] == 1).all()


def test_external_data_is_read_from_the_models_folder(tmp_path):
    weight, x = numbers(600, 700), numbers(2, 600, seed=2)
    path = tmp_path / "linear.onnx"
    onnx.save(linear(weight), path, save_as_external_data=True, location="weights.bin")
    np.testing.assert_allclose(run(path, {"x": x})["h"], x @ weight, rtol=1e-3, atol=1e-3)


def test_large_weights_of_a_convolution_survive_the_runtimes_own_rewriting():
    kernel, x = numbers(128, 300, 3, 3), numbers(1, 300, 5, 6, seed=1)
    proto = model(
        [node("Conv", "x K", "y", pads=[1, 1, 1, 1])],
        {"x": (FLOAT, ["N", 300, 5, 6])},
        {"y": FLOAT},
        {"K": kernel},
    )
    plain = Session(proto, optimization="off", promote=["K"]).run({"x": x, "K": kernel})["y"]
    np.testing.assert_allclose(Session(proto).run({"x": x})["y"], plain, rtol=1e-4, atol=1e-3)


def test_nodes_of_one_name_are_told_apart():
    proto = model(
        [node("Exp", "x", "h", "same"), node("Neg", "h", "y", "same")], {"x": (FLOAT, ["N"])}, {"y": FLOAT}
    )
    assert run(proto, {"x": [0.0]})["y"].tolist() == [-1.0]


def test_bfloat16_goes_in_and_comes_out():
    bfloat16 = onnx.TensorProto.BFLOAT16
    proto = model([node("Identity", "x", "y")], {"x": (bfloat16, ["N"])}, {"y": bfloat16})
    result = run(proto, {"x": np.array([1, 2.5], ml_dtypes.bfloat16)})["y"]
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(np.float32).tolist() == [1, 2.5]


def test_strings_and_sequences():
    strings = model(
        [node("Identity", "x", "y")], {"x": (onnx.TensorProto.STRING, ["N"])}, {"y": onnx.TensorProto.STRING}
    )
    assert run(strings, {"x": ["a", "b"]})["y"].tolist() == ["a", "b"]
    sequence = model([node("SequenceConstruct", "x x", "y")], {"x": (FLOAT, ["N"])}, {})
    sequence.graph.output.append(helper.make_tensor_sequence_value_info("y", FLOAT, None))
    assert [array.tolist() for array in run(sequence, {"x": [1, 2]})["y"]] == [[1, 2], [1, 2]]


def test_all_input_mistakes_are_reported_at_once():
    proto = model(
        [node("Sum", "image scale bias", "y")],
        {"image": (FLOAT, ["N", 3]), "scale": (FLOAT, []), "bias": (FLOAT, [3])},
        {"y": FLOAT},
    )
    with pytest.raises(InvalidArgumentError) as caught:
        run(proto, {"imagee": numbers(2, 3), "scale": numbers(2), "bias": numbers(4)})
    assert str(caught.value).splitlines() == [
        "no input 'imagee'; did you mean 'image'? (inputs: 'image', 'scale', 'bias')",
        "input 'scale' takes float32[]: got 1 axes, shape [2]",
        "input 'bias' takes float32[3]: got shape [4], 4 instead of 3 on axis 0",
        "input 'image' (float32[N, 3]) is missing",
    ]


INT32 = onnx.TensorProto.INT32
INT64 = onnx.TensorProto.INT64
BOOL = onnx.TensorProto.BOOL


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        (FLOAT, [1, 2], np.array([1, 2], np.float32)),
        (FLOAT, np.array([0.1, 2]), np.array([0.1, 2], np.float32)),
        (DOUBLE, np.array([0.5, 2], np.float32), np.array([0.5, 2])),
        (FLOAT, np.arange(2), np.array([0, 1], np.float32)),
        (INT32, np.array([1, -7]), np.array([1, -7], np.int32)),
        (INT64, [], np.array([], np.int64)),
        (INT64, np.array([True, False]), np.array([1, 0])),
        (FLOAT, np.array([[1, 2], [3, 4]], np.float32)[:, 1], np.array([2, 4], np.float32)),
        (FLOAT, np.array([1, 2], ">f4"), np.array([1, 2], np.float32)),
    ],
)
def test_conversions_that_lose_nothing_are_made(dtype, given, expected):
    result = run(model([node("Identity", "x", "y")], {"x": (dtype, ["N"])}, {"y": dtype}), {"x": given})["y"]
    assert result.dtype == expected.dtype
    assert result.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("dtype", "given", "message"),
    [
        (INT64, np.array([1.0]), "takes int64\\[N\\]: got float64, which is not made int64"),
        (BOOL, np.array([1]), "takes bool\\[N\\]: got int64, which is not made bool"),
        (INT32, np.array([2**40]), "got int64 with values that int32 cannot hold"),
        (FLOAT, np.array([2**24 + 1]), "got int64 with values that float32 cannot hold"),
        (FLOAT, np.array([2**63 - 1]), "got int64 with values that float32 cannot hold"),
        (FLOAT, np.array(["a"]), "got str"),
        (FLOAT, np.array([1j]), "got complex128"),
        (onnx.TensorProto.STRING, np.array([1]), "takes string\\[N\\]: got int64"),
        (onnx.TensorProto.FLOAT16, np.array([1], np.float32), "got float32"),
    ],
)
def test_conversions_that_lose_something_are_refused(dtype, given, message):
    proto = model([node("Identity", "x", "y")], {"x": (dtype, ["N"])}, {"y": dtype})
    with pytest.raises(InvalidArgumentError, match=message):
        run(proto, {"x": given})


def test_scalars_keep_their_rank():
    proto = model([node("Neg", "x", "y")], {"x": (FLOAT, [])}, {"y": FLOAT})
    assert run(proto, {"x": 2.5})["y"].shape == ()


def test_an_unknown_output_lists_the_outputs():
    with pytest.raises(
        InvalidArgumentError, match="no output 'Y'; did you mean 'y'\\? \\(outputs: 'y', 'h'\\)"
    ):
        run(linear(numbers(3, 2)), {"x": numbers(1, 3)}, ["Y"])


def test_an_unknown_provider_lists_the_providers():
    with pytest.raises(
        InvalidArgumentError, match=r"no execution provider CPUProvider.*CPUExecutionProvider"
    ):
        run(linear(numbers(3, 2)), {"x": numbers(1, 3)}, providers=["CPUProvider"])


def test_promote_refuses_what_is_no_initializer():
    with pytest.raises(InvalidArgumentError, match="no initializer 'w'; did you mean 'W'"):
        Session(linear(numbers(3, 2)), promote=["w"])


def test_a_file_that_is_no_model(tmp_path):
    with pytest.raises(InvalidModelError, match="no such file"):
        run(tmp_path / "nothing.onnx", {})


def test_nothing_is_written_to_stderr_when_a_run_fails(capfd):
    proto = model([node("Reshape", "x s", "y")], {"x": (FLOAT, ["N"]), "s": (INT64, [2])}, {"y": FLOAT})
    with pytest.raises(Exception, match="cannot be reshaped"):
        run(proto, {"x": numbers(6), "s": [4, 4]})
    assert capfd.readouterr() == ("", "")


def test_very_large_weights_are_not_copied_for_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 2 GiB on; here from 1 MB on."""
    weight, x = numbers(512, 600), numbers(4, 512, seed=1)
    swift = Session(linear(weight))
    monkeypatch.setattr("netgrad.runtime.session._FRUGAL_FROM", 1)
    frugal = Session(linear(weight))
    key = "session.disable_prepacking"
    assert frugal.engine.get_session_options().get_session_config_entry(key) == "1"
    with pytest.raises(RuntimeError, match=key):  # not set
        swift.engine.get_session_options().get_session_config_entry(key)
    np.testing.assert_allclose(frugal.run({"x": x})["y"], swift.run({"x": x})["y"], rtol=1e-4, atol=1e-5)


def test_a_model_that_netgrad_has_written_is_taken_as_it_is():
    weight, x = numbers(3, 2), numbers(4, 3, seed=1)
    session = Session.of_written(linear(weight), threads=1)
    given = {"x": copy_to_value(x)}
    h, y = session.run_list(given, ["h", "y"])
    np.testing.assert_allclose(h.numpy(), x @ weight, rtol=1e-6)
    np.testing.assert_allclose(y.numpy(), np.tanh(x @ weight), rtol=1e-5)
    assert list(session.run_values(given)) == ["y", "h"]
    np.testing.assert_array_equal(session.run({"x": x})["h"], h.numpy())


def test_nodes_of_a_written_model_that_share_a_name_are_told_apart_in_graphs_inside_too():
    def branch(name: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info(name, FLOAT, [2])
        return helper.make_graph([helper.make_node("Neg", ["x"], [name], name="same")], name, [], [output])

    chosen = helper.make_node(
        "If", ["which"], ["y"], name="same", then_branch=branch("a"), else_branch=branch("b")
    )
    written = model([chosen], {"x": (FLOAT, [2]), "which": (onnx.TensorProto.BOOL, [])}, {"y": FLOAT})
    session = Session.of_written(written)
    (choice,) = written.graph.node
    names = {choice.name, *(attribute.g.node[0].name for attribute in choice.attribute)}
    assert names == {"same", "same_1", "same_2"}
    assert session.run({"x": np.ones(2, np.float32), "which": True})["y"].tolist() == [-1, -1]


def test_what_fails_in_a_written_model_is_led_back_to_its_node():
    session = Session.of_written(
        model(
            [node("MatMul", "a b", "y")], {"a": (FLOAT, ["n", "k"]), "b": (FLOAT, ["l", "m"])}, {"y": FLOAT}
        )
    )
    given = {name: copy_to_value(numbers(2, 3)) for name in "ab"}
    with pytest.raises(RuntimeFailureError, match="MatMul"):
        session.run_list(given, ["y"])
    unknown = model([node("Gather", "a a", "y")], {"a": (FLOAT, ["n"])}, {"y": FLOAT})
    with pytest.raises(RuntimeFailureError, match="Gather"):
        Session.of_written(unknown)
