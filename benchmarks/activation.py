"""How fast the formulations of elementwise gradients are on ONNX Runtime.

Most of these gradients choose between branches. Standard operators can say that with Where, with a product
with a mask of zeros and ones, or with a bound; this prints the milliseconds of each form, and the ratio to
the fastest that gives the same numbers.

    python benchmarks/activation.py [--threads 1] [--runs 60] [--only Relu]

Measured with ONNX Runtime 1.32 on 2 cores of an AMD EPYC: Where with a tensor among its operands takes ten to
fifty times as long as a product with a mask, Where of two numbers 1.6 times as long. So the rules multiply
(`RuleContext.masked`) wherever the cotangent is known to be finite. The mask is made fastest by the steepest
HardSigmoid (with 2 threads; with 1 it takes about as long as two casts).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnx
import onnxruntime
from onnx import parser

SHAPE = (32, 16, 32, 32)

# Per gradient: forms of `dx` in terms of x, y and dy. They must agree; the first is the rule's.
FORMS: dict[str, dict[str, str]] = {
    "Relu": {
        "steep HardSigmoid": "n = HardSigmoid <alpha = 3.4028235e38, beta = 0.0> (y) dx = Mul(dy, n)",
        "mask by cast of y": "m = Cast <to = 9> (y) n = Cast <to = 1> (m) dx = Mul(dy, n)",
        "mask by y > 0": "m = Greater(y, zero) n = Cast <to = 1> (m) dx = Mul(dy, n)",
        "sign": "n = Sign(y) dx = Mul(dy, n)",
        "cotangent bounded, mask": (
            "b = Clip(dy, lowest, highest) m = Cast <to = 9> (y) n = Cast <to = 1> (m) dx = Mul(b, n)"
        ),
        "Where": "m = Greater(y, zero) dx = Where(m, dy, zero)",
    },
    "LeakyRelu": {
        "steep HardSigmoid, bounded below": (
            "n = HardSigmoid <alpha = 3.4028235e38, beta = 0.0> (x) s = Max(n, slope) dx = Mul(dy, s)"
        ),
        "mask bounded below": "m = Greater(x, zero) n = Cast <to = 1> (m) s = Max(n, slope) dx = Mul(dy, s)",
        "affine in the mask": (
            "m = Greater(x, zero) n = Cast <to = 1> (m) a = Mul(n, rise) s = Add(a, slope) dx = Mul(dy, s)"
        ),
        "Where of numbers": "m = Greater(x, zero) s = Where(m, one, slope) dx = Mul(dy, s)",
        "Where": "m = Greater(x, zero) s = Mul(dy, slope) dx = Where(m, dy, s)",
    },
    "PRelu": {
        "parts by mask": (
            "m = Greater(x, zero) n = Cast <to = 1> (m) a = Mul(dy, n) b = Sub(dy, a) "
            "d = Mul(b, slopes) dx = Add(a, d)"
        ),
        "Where": "m = Greater(x, zero) s = Mul(dy, slopes) dx = Where(m, dy, s)",
    },
    "Elu": {
        "bound": "n = Min(e, zero) s = Add(n, one) dx = Mul(dy, s)",
        "Where": "m = Greater(x, zero) t = Add(e, one) s = Where(m, one, t) dx = Mul(dy, s)",
    },
    "Selu": {
        "parts by mask": (
            "n = Min(e, zero) t = Add(n, two) m = Greater(x, zero) k = Cast <to = 1> (m) "
            "s = Sub(t, k) dx = Mul(dy, s)"
        ),
        "Where": "m = Greater(x, zero) t = Add(e, two) s = Where(m, one, t) dx = Mul(dy, s)",
        "numbers by Where": (
            "n = Min(e, zero) m = Greater(x, zero) k = Where(m, one, two) s = Add(n, k) dx = Mul(dy, s)"
        ),
    },
    "HardSigmoid": {
        "two comparisons": (
            "y01 = HardSigmoid(x) l = Greater(y01, zero) h = Less(y01, one) m = And(l, h) "
            "n = Cast <to = 1> (m) dx = Mul(dy, n)"
        ),
        "cast of y - y y": (
            "y01 = HardSigmoid(x) q = Mul(y01, y01) d = Sub(y01, q) m = Cast <to = 9> (d) "
            "n = Cast <to = 1> (m) dx = Mul(dy, n)"
        ),
        "distance from the middle": (
            "y01 = HardSigmoid(x) d = Sub(y01, half) a = Abs(d) m = Less(a, half) "
            "n = Cast <to = 1> (m) dx = Mul(dy, n)"
        ),
    },
    "Where, both operands": {
        "mask and difference": "n = Cast <to = 1> (c) dx = Mul(dy, n) db = Sub(dy, dx)",
        "Where": "dx = Where(c, dy, zero) db = Where(c, zero, dy)",
    },
    "Max, both operands": {
        "mask and difference": "m = Equal(x, y) n = Cast <to = 1> (m) dx = Mul(dy, n) db = Sub(dy, dx)",
        "two masks": (
            "m = Equal(x, y) n = Cast <to = 1> (m) dx = Mul(dy, n) "
            "k = Not(m) l = Cast <to = 1> (k) db = Mul(dy, l)"
        ),
        "Where": "m = Equal(x, y) dx = Where(m, dy, zero) db = Where(m, zero, dy)",
    },
    "Sigmoid": {
        "dy y (1 - y)": "a = Mul(dy, y) b = Sub(one, y) dx = Mul(a, b)",
        "dy (y - y y)": "a = Mul(y, y) b = Sub(y, a) dx = Mul(dy, b)",
    },
}


def session(body: str, threads: int) -> onnxruntime.InferenceSession:
    """The form as a session on the CPU."""
    dims = ", ".join(map(str, SHAPE))
    second = f", float[{dims}] db" if "db = " in body else ""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> '
        f"g (float[{dims}] x, float[{dims}] y, float[{dims}] e, float[{dims}] dy, bool[{dims}] c) "
        f"=> (float[{dims}] dx{second}) "
        f"<float zero = {{0}}, float one = {{1}}, float two = {{2}}, float half = {{0.5}}, "
        f"float slope = {{0.25}}, float rise = {{0.75}}, float lowest = {{-3e38}}, float highest = {{3e38}}, "
        f"float[16, 1, 1] slopes = {{{', '.join(str(k / 16) for k in range(16))}}}> {{ {body} }}"
    )
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def milliseconds(run: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray], runs: int) -> float:
    """Lower quartile of the time of one run, inputs and outputs bound."""
    binding = run.io_binding()
    for value in run.get_inputs():
        binding.bind_cpu_input(value.name, feeds[value.name])
    for value in run.get_outputs():
        out = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(SHAPE), np.float32)
        binding.bind_ortvalue_output(value.name, out)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run.run_with_iobinding(binding)
        times.append(time.perf_counter() - start)
    return float(np.percentile(times, 25)) * 1e3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--threads", type=int, default=1, help="threads inside one operator")
    arguments.add_argument("--runs", type=int, default=60, help="runs per form")
    arguments.add_argument("--only", default="", help="gradients whose name contains this")
    given = arguments.parse_args()
    onnxruntime.set_default_logger_severity(4)
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=SHAPE).astype(np.float32) for _ in range(2))
    feeds = {
        "x": x,
        "y": np.maximum(x, 0),
        "e": np.where(x > 0, x, np.exp(x) - 1).astype(np.float32),
        "dy": dy,
        "c": x > 0,
    }
    print(f"shape {SHAPE}, {given.threads} thread(s), ms per run (ratio to the fastest)")
    for name, forms in FORMS.items():
        if given.only not in name:
            continue
        results: dict[str, float] = {}
        want: list[np.ndarray] | None = None
        for form, body in forms.items():
            run = session(body, given.threads)
            got = run.run(None, {value.name: feeds[value.name] for value in run.get_inputs()})
            want = want or got
            assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(want, got, strict=True)), form
            results[form] = milliseconds(run, feeds, given.runs)
            del run
        best = min(results.values())
        print(name)
        for form, value in results.items():
            print(f"  {value:7.3f}  ({value / best:5.2f})  {form}")


if __name__ == "__main__":
    main()
