"""Threads that call a function of the script again and again, while nets run."""

from __future__ import annotations

import atexit
import logging
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

_logger = logging.getLogger(__name__)

LOG_INT_SECS = 60
"""Seconds between two reports of workers."""

_PATIENCE = 5.0  # seconds that a thread has to end in, after which it may be in some call that takes long


class Metrics:
    """Numbers that are added up and given to loggers, objects with a method ``log``."""

    def __init__(self, external_loggers: Sequence[Any] | None = None) -> None:
        self._external_loggers = list(external_loggers or ())
        self._metrics: defaultdict[str, float] = defaultdict(float)

    def reset_metrics(self) -> None:
        """Start anew."""
        self._metrics.clear()

    def put_metric(self, key: str, value: float, count: bool = True) -> None:
        """Add to a number, and to ``<key>_count`` one."""
        self._metrics[key] += value
        if count:
            self._metrics[f"{key}_count"] += 1

    def log_metrics(self) -> None:
        """Give the numbers to the loggers; an error of one is printed, and others go on."""
        for one in self._external_loggers:
            try:
                one.log(dict(self._metrics))
            except Exception:
                _logger.exception("a logger of metrics has failed")


class State(ABC):
    """What the workers of a coordinator share."""

    @abstractmethod
    def start(self) -> None:
        """Prepare it, before the workers start."""

    @abstractmethod
    def stop(self) -> None:
        """Let waiting workers go on, since they are to end."""

    @abstractmethod
    def cleanup(self) -> None:
        """Free what it has, once all workers have ended."""


class WorkerCoordinator:
    """The workers of one name, which are started and stopped together."""

    def __init__(
        self,
        worker_name: str,
        worker_ids: Sequence[int],
        init_fun: Callable[..., Any] | None,
        state: State | None = None,
        shutdown_fun: Callable[[], Any] | None = None,
    ) -> None:
        """Note what there is; the threads are added to ``_workers``.

        Args:
            worker_name: Its name.
            worker_ids: Numbers of the workers.
            init_fun: Called before they start, with this coordinator and the global one.
            state: What they share.
            shutdown_fun: Called when they are stopped.
        """
        self._worker_name = worker_name
        self._worker_ids = list(worker_ids)
        self._init_fun = init_fun
        self._state = state
        self._shutdown_fun = shutdown_fun
        self._workers: list[threading.Thread] = []
        self._active = False
        self._started = False
        self._ended = False
        self._lock = threading.Lock()

    def is_active(self) -> bool:
        """Whether the workers are to go on."""
        return self._active

    def init(self, global_coordinator: GlobalWorkerCoordinator) -> None:
        """Call the function for the beginning, if the workers haven't started."""
        if self._init_fun is not None and not self._started and not self._ended:
            self._init_fun(self, global_coordinator)

    def _start(self) -> None:
        if self._started or self._ended:  # threads start once
            return
        self._active = self._started = True
        if self._state is not None:
            self._state.start()
        for worker in self._workers:
            worker.start()

    def _stop(self, reason: str | None = None) -> None:
        """Let the workers end; several calls count once."""
        if reason is not None:
            _logger.error("workers %s are stopped: %s", self._worker_name, reason)
        with self._lock:
            started, self._started, self._active = self._started, False, False
            self._ended = self._ended or started
        if started and self._shutdown_fun is not None:
            self._shutdown_fun()
        if started and self._state is not None:
            self._state.stop()

    def _wait_finish(self) -> bool:
        """Wait for the workers; whether all have ended."""
        for worker in self._workers:
            if worker.ident is not None and worker is not threading.current_thread():
                worker.join(_PATIENCE)
        alive = [worker.name for worker in self._workers if worker.is_alive()]
        if alive:
            _logger.warning("workers that have not ended: %s", ", ".join(alive))
        elif self._state is not None:
            self._state.cleanup()
        return not alive


class GlobalWorkerCoordinator:
    """All coordinators of the process."""

    def __init__(self) -> None:
        self._coordinators: list[WorkerCoordinator] = []
        self._fetcher_id_seq = 0
        self._worker_ids: list[int] = []
        self.register_shutdown_handler()

    def add(self, coordinator: WorkerCoordinator) -> None:
        """Add a coordinator."""
        self._coordinators.append(coordinator)

    def get_new_worker_id(self) -> int:
        """A number that no worker has had."""
        number = self._fetcher_id_seq
        self._fetcher_id_seq += 1
        self._worker_ids.append(number)
        return number

    def get_worker_ids(self) -> list[int]:
        """The numbers of all workers."""
        return self._worker_ids

    def start(self) -> None:
        """Start all workers that haven't been."""
        for coordinator in self._coordinators:
            coordinator.init(self)
            coordinator._start()

    def stop(self) -> bool:
        """Stop all workers; whether all have ended."""
        return self._stopped(self._coordinators)

    def stop_coordinator(self, worker_name: str) -> None:
        """Stop the workers of a name."""
        self._stopped([one for one in self._coordinators if one._worker_name == worker_name])

    def _stopped(self, chosen: list[WorkerCoordinator]) -> bool:
        for coordinator in chosen:
            coordinator._stop()
        ended = [coordinator._wait_finish() for coordinator in chosen]
        self._coordinators = [one for one in self._coordinators if one not in chosen]
        return all(ended)

    def register_shutdown_handler(self) -> None:
        """Stop all workers when the process ends."""
        atexit.register(self.stop)


class Worker:
    """What one thread does."""

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        worker_id: int,
        worker_fun: Callable[[int], Any] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._worker_id = worker_id
        self._worker_fun = worker_fun
        self._metrics = metrics or Metrics()

    def run(self) -> None:
        """Call the function once, with the number of the worker."""
        assert self._worker_fun is not None, "a worker needs a function"
        self._worker_fun(self._worker_id)

    def handle_exception(self, error: Exception) -> None:
        """An error of the function stops all workers of the coordinator."""
        _logger.error("worker %d has failed", self._worker_id, exc_info=error)
        self._coordinator._stop(f"worker {self._worker_id} has failed: {error}")

    def finish(self) -> None:
        """Report what was measured."""
        self._metrics.log_metrics()


def run_worker(coordinator: WorkerCoordinator, worker: Worker) -> None:
    """Let a worker run until its coordinator is stopped."""
    while coordinator.is_active():
        try:
            worker.run()
        except Exception as error:
            worker.handle_exception(error)
        finally:
            worker.finish()


def worker_threads(coordinator: WorkerCoordinator, workers: Sequence[Worker]) -> list[threading.Thread]:
    """Threads that run workers, and don't keep the process alive."""
    return [
        threading.Thread(
            target=run_worker,
            name=f"{coordinator._worker_name} worker {worker._worker_id}",
            args=(coordinator, worker),
            daemon=True,
        )
        for worker in workers
    ]


def init_workers(
    worker_fun: Callable[[int], Any],
    num_worker_threads: int = 2,
    worker_name: str = "train",
    init_fun: Callable[..., Any] | None = None,
    external_loggers: Sequence[Any] | None = None,
    shutdown_fun: Callable[[], Any] | None = None,
) -> GlobalWorkerCoordinator:
    """Make threads that call a function with their number, until they are stopped.

    Args:
        worker_fun: The function.
        num_worker_threads: How many threads there are.
        worker_name: Name by which they can be stopped.
        init_fun: Called before they start, with their coordinator and the global one.
        external_loggers: What metrics are given to.
        shutdown_fun: Called when they are stopped.

    Returns:
        The global coordinator, whose ``start`` starts and whose ``stop`` stops them.
    """
    metrics = Metrics(external_loggers)
    numbers = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(worker_name, numbers, init_fun, shutdown_fun=shutdown_fun)
    workers = [Worker(coordinator, number, worker_fun, metrics) for number in numbers]
    coordinator._workers = worker_threads(coordinator, workers)
    global_coordinator.add(coordinator)
    return global_coordinator


global_coordinator = GlobalWorkerCoordinator()
