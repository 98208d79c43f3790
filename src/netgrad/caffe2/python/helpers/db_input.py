"""Tensors from a database, as a layer."""

from __future__ import annotations

from typing import Any


def db_input(model: Any, blobs_out: Any, batch_size: int, db: str, db_type: str) -> Any:
    """``TensorProtosDBInput`` from a database, whose reader is made when the model is initialized."""
    reader = model.param_init_net.CreateDB([], f"dbreader_{db}", db=db, db_type=db_type)
    return model.net.TensorProtosDBInput(reader, blobs_out, batch_size=batch_size)
