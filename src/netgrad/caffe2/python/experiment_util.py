"""Logs of training: a file with a line for each report, and loggers of a script's own."""

from __future__ import annotations

import abc
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class ExternalLogger(abc.ABC):
    """A logger of a script's own."""

    @abc.abstractmethod
    def set_runtime_args(self, runtime_args: dict[str, Any]) -> None:
        """Take the arguments of the run, with ``experiment_id`` and ``hostname``."""

    @abc.abstractmethod
    def log(self, log_dict: dict[str, Any]) -> None:
        """Take one report."""


class ModelTrainerLog:
    """Writes ``<name>_<date>_<time>.log`` in the current folder, as comma-separated values.

    Attributes:
        experiment_id: The file's name without its ending.
        filename: The file's name.
        headers: The names of the values, once there was a report.
        external_loggers: The script's own loggers.
    """

    def __init__(
        self,
        expname: str,
        runtime_args: Any,
        external_loggers: Sequence[ExternalLogger] | None = None,
    ) -> None:
        """Start a log with the arguments of the run.

        Args:
            expname: The experiment's name.
            runtime_args: A dictionary, or an object with attributes such as `argparse` gives.
            external_loggers: Loggers that get the same.
        """
        self.experiment_id = f"{expname}_{time.strftime('%Y%m%d_%H%M%S')}"
        self.filename = f"{self.experiment_id}.log"
        self.headers: list[str] | None = None
        self.start_time = self.last_time = time.time()
        self.last_input_count = 0
        self.external_loggers = list(external_loggers or ())
        self.logstr(f"# {runtime_args}")
        given = runtime_args if isinstance(runtime_args, Mapping) else vars(runtime_args)
        known = {**given, "experiment_id": self.experiment_id, "hostname": socket.gethostname()}
        for logger in self.external_loggers:
            logger.set_runtime_args(known)

    def logstr(self, str: str) -> None:
        """Append a line."""
        with Path(self.filename).open("a", encoding="utf-8") as file:
            file.write(str + "\n")
        logging.getLogger("experiment_logger").info(str)

    def log(self, input_count: int, batch_count: int, additional_values: Mapping[str, Any]) -> None:
        """Append a report.

        Args:
            input_count: How many inputs there were from the start.
            batch_count: How many batches there were from the start.
            additional_values: Further values by name, which are the same names in each report.

        Raises:
            ValueError: They are other names than before.
        """
        now = time.time()
        seconds, inputs = now - self.last_time, input_count - self.last_input_count
        self.last_time, self.last_input_count = now, input_count
        report: dict[str, Any] = {
            "time_spent": seconds,
            "cumulative_time_spent": now - self.start_time,
            "input_count": inputs,
            "cumulative_input_count": input_count,
            "cumulative_batch_count": batch_count,
            "inputs_per_sec": inputs / seconds if seconds > 0 else 0.0,
            **{name: additional_values[name] for name in sorted(additional_values)},
        }
        if self.headers is None:
            self.headers = list(report)
            self.logstr(",".join(self.headers))
        elif self.headers != list(report):
            raise ValueError(f"the log has the columns {self.headers}, and a report has {list(report)}")
        self.logstr(",".join(str(value) for value in report.values()))
        for logger in self.external_loggers:
            logger.log(report)
