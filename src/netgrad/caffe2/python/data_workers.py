"""Threads that fetch data by a function of the script, and nets that take it in batches."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, scope, workspace
from netgrad.caffe2.python.parallel_workers import (
    LOG_INT_SECS,
    GlobalWorkerCoordinator,
    Metrics,
    State,
    Worker,
    WorkerCoordinator,
    run_worker,
    worker_threads,
)

_logger = logging.getLogger(__name__)

_CAPACITY = 4  # batches that a queue of the workspace holds
_PATIENCE = 0.5  # seconds after which one that waits looks whether it is to end

Chunk = list[Any]


def get_worker_ids(num_workers: int) -> list[int]:
    """Numbers of workers, from 0 on."""
    return list(range(num_workers))


class BatchFeeder(State):
    """Carries what the workers fetch, as batches, into queues of the workspace."""

    def __init__(
        self,
        net: Any,
        input_blob_names: Sequence[str],
        batch_size: int,
        device_option: Any,
        namescope: str,
        input_source_name: str,
        internal_queue: queue.Queue[Chunk],
        metrics: Metrics,
        dont_rebatch: bool,
        batch_columns: Sequence[int] | None,
        timeout: float = 600,
    ) -> None:
        """Make the queues, and add operators that empty them to a net; see `init_data_input_workers`."""
        self._input_blob_names = [str(name) for name in input_blob_names]
        self._batch_size = batch_size
        self._device_option = device_option
        self._namescope = namescope
        self._input_source_name = input_source_name
        self._internal_queue = internal_queue
        self._metrics = metrics
        self._dont_rebatch = dont_rebatch
        self._batch_columns = list(batch_columns or [0] * len(self._input_blob_names))
        self._timeout = timeout
        self._active = False
        self._inputs = 0
        self._rest: Chunk | None = None
        self._last_report = time.monotonic()
        assert len(self._batch_columns) == len(self._input_blob_names), (
            f"batch columns {self._batch_columns} for blobs {self._input_blob_names}"
        )
        self._queues = [self._made_queue(name) for name in self._input_blob_names]
        self._add_operators(net)

    def _made_queue(self, blob: str) -> core.BlobReference:
        name = core.ScopedBlobReference(f"{blob}_c2queue_{self._input_source_name}")
        workspace.RunOperatorOnce(
            core.CreateOperator("CreateBlobsQueue", [], [name], num_blobs=1, capacity=_CAPACITY)
        )
        return name

    def _add_operators(self, net: Any) -> None:
        for own, blob in zip(self._queues, self._input_blob_names, strict=True):
            net.DequeueBlobs(own, blob, timeout_secs=float(self._timeout))

    # ---- the life of the workers -------------------------------------------------------------------

    def start(self) -> None:
        """Let data through."""
        self._active = True
        self._inputs = 0

    def stop(self) -> None:
        """Close the queues, if they are still there, so that nobody waits for them any more."""
        self._active = False
        for own in filter(workspace.HasBlob, self._queues):
            workspace.RunOperatorOnce(core.CreateOperator("CloseBlobsQueue", [own], []))

    def cleanup(self) -> None:
        """Free the blobs that data went through."""
        for blob in filter(workspace.HasBlob, map(self._scratch, self._input_blob_names)):
            workspace.ResetBlob(blob)

    # ---- data --------------------------------------------------------------------------------------

    def put(self, chunk: Chunk) -> None:
        """Take what a worker has fetched, as soon as there is room; nothing once it is stopped.

        Raises:
            AssertionError: It isn't an array per blob, or they hold different numbers of examples, of which
                batches can't be made.
        """
        assert len(chunk) == len(self._input_blob_names), (
            f"{len(chunk)} arrays were fetched for the blobs {', '.join(self._input_blob_names)}"
        )
        for array in chunk:
            assert isinstance(array, np.ndarray), f"what is fetched are arrays, not {type(array).__name__}"
        counts = [array.shape[axis] for array, axis in zip(chunk, self._batch_columns, strict=True)]
        assert self._dont_rebatch or len(set(counts)) == 1, (
            f"arrays with different numbers of examples were fetched: {counts}"
        )
        while self._active:
            try:
                self._internal_queue.put(chunk, timeout=_PATIENCE)
            except queue.Full:
                continue
            self._inputs += counts[0]
            self._report()
            return

    def _report(self) -> None:
        passed = time.monotonic() - self._last_report
        if passed >= LOG_INT_SECS:
            self._last_report = time.monotonic()
            _logger.info("%s: %d examples fetched", self._input_source_name, self._inputs)
            self._metrics.put_metric("inputs", self._inputs, count=False)
            self._metrics.log_metrics()

    def enqueue(self) -> None:
        """Put the next batch into the queues of the workspace; nothing once it is stopped."""
        batch = self._fetched() if self._dont_rebatch else self._batch()
        if batch is None:
            return
        for name, own, array in zip(self._input_blob_names, self._queues, batch, strict=True):
            blob = self._scratch(name)
            workspace.FeedBlob(blob, array, device_option=self._device_option)
            outputs = [blob, core.BlobReference(f"{blob}_status")]
            workspace.RunOperatorOnce(core.CreateOperator("SafeEnqueueBlobs", [own, blob], outputs))

    def _fetched(self) -> Chunk | None:
        while self._active:
            try:
                return self._internal_queue.get(timeout=_PATIENCE)
            except queue.Empty:
                continue
        return None

    def _batch(self) -> Chunk | None:
        """As many examples as a batch has; what was fetched besides comes first next time."""
        parts: list[Chunk] = []
        count = 0
        while count < self._batch_size:
            part, self._rest = (self._rest, None) if self._rest is not None else (self._fetched(), None)
            if part is None:
                return None
            parts.append(part)
            count += part[0].shape[self._batch_columns[0]]
        joined = [
            np.concatenate(arrays, axis)
            for arrays, axis in zip(zip(*parts, strict=True), self._batch_columns, strict=True)
        ]
        pairs = [
            np.split(array, [self._batch_size], axis)
            for array, axis in zip(joined, self._batch_columns, strict=True)
        ]
        if count > self._batch_size:
            self._rest = [rest for _, rest in pairs]
        return [batch for batch, _ in pairs]

    def _scratch(self, name: str) -> core.BlobReference:
        return core.BlobReference(f"{self._namescope}{name}_scratch_{self._input_source_name}")

    def reset_data_input(self, net: Any, batch_size: int) -> None:
        """Let another net take batches, of another size."""
        self._batch_size = batch_size
        with scope.NameScope(self._namescope.rstrip("/"), reset=True):
            self._add_operators(net)


class GlobalCoordinator(GlobalWorkerCoordinator):
    """All workers that fetch data, and where they put it."""

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[str, queue.Queue[Chunk]] = {}

    def get_queue(self, queue_name: str, max_buffered_batches: int) -> queue.Queue[Chunk]:
        """The queue of a name for what is fetched; a new one if there is none."""
        assert isinstance(max_buffered_batches, int), f"a number is needed, not {max_buffered_batches!r}"
        return self._queues.setdefault(queue_name, queue.Queue(maxsize=max_buffered_batches))

    def reset_data_input(self, namescope: str, name: str, net: Any, batch_size: int) -> None:
        """Let another net take the batches of a source, of another size."""
        for coordinator in self._coordinators:
            state = coordinator._state
            if (
                coordinator._worker_name == name
                and isinstance(state, BatchFeeder)
                and state._namescope == namescope
            ):
                state.reset_data_input(net, batch_size)


class DataWorker(Worker):
    """Fetches data by a function of the number of the worker and the size of a batch."""

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        worker_id: int,
        worker_fun: Callable[[int, int], Any],
        metrics: Metrics,
        batch_size: int,
        batch_feeder: BatchFeeder,
    ) -> None:
        super().__init__(coordinator, worker_id, metrics=metrics)
        self._fetch = worker_fun
        self._batch_size = batch_size
        self._batch_feeder = batch_feeder

    def run(self) -> None:
        """Fetch once; nothing fetched is no error."""
        start = time.monotonic()
        fetched = self._fetch(self._worker_id, self._batch_size)
        self._metrics.put_metric("fetcher_time", time.monotonic() - start)
        if fetched is None:
            _logger.warning("worker %d has fetched nothing", self._worker_id)
            return
        self._batch_feeder.put(list(fetched))


class _Enqueuer(Worker):
    """Carries batches into the queues of the workspace."""

    def __init__(self, coordinator: WorkerCoordinator, metrics: Metrics, batch_feeder: BatchFeeder) -> None:
        super().__init__(coordinator, -1, metrics=metrics)
        self._batch_feeder = batch_feeder

    def run(self) -> None:
        self._batch_feeder.enqueue()


def init_data_input_workers(
    net: Any,
    input_blob_names: Sequence[str],
    fetch_fun: Callable[[int, int], Any],
    batch_size: int,
    num_worker_threads: int = 2,
    input_source_name: str = "train",
    max_buffered_batches: int = 800,
    init_fun: Callable[..., Any] | None = None,
    external_loggers: Sequence[Any] | None = None,
    dont_rebatch: bool = False,
    batch_columns: Sequence[int] | None = None,
    timeout: float = 600,
) -> GlobalCoordinator:
    """Make threads that fetch data, and add operators that read it to a net.

    Args:
        net: A net or model, whose runs take one batch each.
        input_blob_names: The blobs of a batch.
        fetch_fun: Called with the number of the worker and the size of a batch; gives an array per blob, with
            any number of examples.
        batch_size: How many examples a batch has.
        num_worker_threads: How many threads fetch.
        input_source_name: A name by which they can be stopped; sources of one name share what is fetched.
        max_buffered_batches: How many fetched chunks wait at most.
        init_fun: Called before they start, with their coordinator and the global one.
        external_loggers: What metrics are given to.
        dont_rebatch: Whether what is fetched is taken for a batch as it is.
        batch_columns: The axis of each blob along which its examples lie; 0 without it.
        timeout: Seconds after which a run of the net fails without data.

    Returns:
        The global coordinator, whose ``start`` starts and whose ``stop`` stops them.
    """
    metrics = Metrics(external_loggers)
    feeder = BatchFeeder(
        net,
        input_blob_names,
        batch_size,
        scope.CurrentDeviceScope(),
        scope.CurrentNameScope(),
        input_source_name,
        global_coordinator.get_queue(input_source_name, max_buffered_batches),
        metrics,
        dont_rebatch,
        batch_columns,
        timeout,
    )
    numbers = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(input_source_name, numbers, init_fun, feeder)
    workers = [DataWorker(coordinator, number, fetch_fun, metrics, batch_size, feeder) for number in numbers]
    enqueuer = threading.Thread(
        target=run_worker,
        name=f"{input_source_name} enqueuer",
        args=(coordinator, _Enqueuer(coordinator, metrics, feeder)),
        daemon=True,
    )
    coordinator._workers = [*worker_threads(coordinator, workers), enqueuer]
    global_coordinator.add(coordinator)
    return global_coordinator


global_coordinator = GlobalCoordinator()
