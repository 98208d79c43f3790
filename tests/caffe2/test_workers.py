"""Threads that fetch data while nets run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, data_workers, model_helper, parallel_workers, workspace


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    assert data_workers.global_coordinator.stop()
    assert parallel_workers.global_coordinator.stop()


def _until(ready: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.01)


# ---- functions that are called ---------------------------------------------------------------------------


def test_functions_are_called_until_they_are_stopped() -> None:
    calls: list[Any] = []
    logs: list[dict[str, float]] = []

    class Logger:
        def log(self, metrics: dict[str, float]) -> None:
            logs.append(metrics)

    def work(number: int) -> None:
        calls.append(number)
        time.sleep(0.001)

    coordinator = parallel_workers.init_workers(
        work,
        num_worker_threads=3,
        worker_name="some",
        init_fun=lambda own, everything: calls.append((type(own).__name__, everything is coordinator)),
        shutdown_fun=lambda: calls.append("end"),
        external_loggers=[Logger()],
    )
    numbers = coordinator.get_worker_ids()[-3:]
    coordinator.start()
    _until(lambda: set(numbers) <= {call for call in calls if isinstance(call, int)})
    assert calls[0] == ("WorkerCoordinator", True)
    coordinator.stop_coordinator("other")
    assert len(coordinator._coordinators) == 1
    coordinator.stop_coordinator("some")
    assert coordinator._coordinators == []
    assert calls.count("end") == 1
    assert logs
    count = len(calls)
    time.sleep(0.05)
    assert len(calls) == count


def test_a_function_that_fails_stops_its_siblings() -> None:
    def work(number: int) -> None:
        raise ValueError("the script's own")

    coordinator = parallel_workers.init_workers(work)
    coordinator.start()
    _until(lambda: not coordinator._coordinators[0].is_active())
    assert coordinator.stop()


def test_values_in_a_queue() -> None:
    """As the original's test has it: workers put texts into a queue that the script empties."""
    workspace.RunOperatorOnce(core.CreateOperator("CreateBlobsQueue", [], ["queue"], num_blobs=1, capacity=9))

    def work(number: int) -> None:
        blob = f"blob_{number}"
        workspace.FeedBlob(blob, str(number))
        workspace.RunOperatorOnce(
            core.CreateOperator("SafeEnqueueBlobs", ["queue", blob], [blob, f"status_{number}"])
        )

    coordinator = parallel_workers.init_workers(
        work,
        shutdown_fun=lambda: workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", ["queue"], [])),
    )
    numbers = [str(number).encode() for number in coordinator.get_worker_ids()[-2:]]
    coordinator.start()
    for _ in range(50):
        workspace.RunOperatorOnce(core.CreateOperator("SafeDequeueBlobs", ["queue"], ["value", "status"]))
        assert workspace.FetchBlob("value") in numbers
    assert coordinator.stop()


# ---- data -----------------------------------------------------------------------------------------------


def _model(fetch: Any, blobs: list[str], batch: int, **arguments: Any) -> tuple[Any, Any]:
    model = model_helper.ModelHelper(name="model")
    coordinator = data_workers.init_data_input_workers(model, blobs, fetch, batch, **arguments)
    coordinator.start()
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model, coordinator


def test_batches_of_what_is_fetched() -> None:
    """Chunks of any size become batches; with one worker the examples keep their order."""
    fetched = 0

    def fetch(number: int, batch: int) -> list[Any]:
        nonlocal fetched
        count = 1 + fetched % 7
        rows = np.arange(fetched, fetched + count)
        fetched += count
        return [np.stack([rows, rows], 1), -rows]

    model, coordinator = _model(
        fetch, ["data", "label"], 5, num_worker_threads=1, input_source_name="ordered"
    )
    for run in range(40):
        workspace.RunNet(model.net)
        expected = np.arange(5 * run, 5 * run + 5)
        np.testing.assert_array_equal(workspace.FetchBlob("data"), np.stack([expected, expected], 1))
        np.testing.assert_array_equal(workspace.FetchBlob("label"), -expected)
    coordinator.stop_coordinator("ordered")
    assert coordinator._coordinators == []


def test_examples_along_another_axis() -> None:
    def fetch(number: int, batch: int) -> list[Any]:
        lengths = np.arange(3)
        return [np.broadcast_to(lengths, (4, 3)).copy(), lengths]

    model, _ = _model(fetch, ["rows", "lengths"], 5, batch_columns=[1, 0], input_source_name="columns")
    for _ in range(4):
        workspace.RunNet(model.net)
        lengths = workspace.FetchBlob("lengths")
        assert lengths.shape == (5,)
        np.testing.assert_array_equal(workspace.FetchBlob("rows"), np.broadcast_to(lengths, (4, 5)))


def test_batches_as_they_are_fetched() -> None:
    def fetch(number: int, batch: int) -> list[Any]:
        return [np.full(batch + 2, number)]

    with core.NameScope("scope"):
        model, coordinator = _model(fetch, ["x"], 3, dont_rebatch=True, input_source_name="whole")
    workspace.RunNet(model.net)
    assert workspace.FetchBlob("scope/x").shape == (5,)
    # stopped while the workers wait for room
    _until(lambda: coordinator._coordinators[0]._state._internal_queue.qsize() > 0)
    assert coordinator.stop()
    with pytest.raises(RuntimeError, match="closed and empty"):
        workspace.RunNet(model.net, 1000)


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ([np.zeros(2)], "1 arrays were fetched for the blobs a, b"),
        ([np.zeros(2), [1, 2]], "arrays, not list"),
        ([np.zeros(2), np.zeros(3)], r"different numbers of examples were fetched: \[2, 3\]"),
    ],
)
def test_wrong_chunks(chunk: Any, message: str, caplog: pytest.LogCaptureFixture) -> None:
    model, coordinator = _model(lambda number, batch: chunk, ["a", "b"], 2, input_source_name="wrong")
    _until(lambda: not coordinator._coordinators[0].is_active())
    assert any(re.search(message, record.getMessage()) for record in caplog.records)
    with pytest.raises(RuntimeError, match="closed and empty"):
        workspace.RunNet(model.net)
