"""What test programs of recurrent nets compare with, and the net that they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import scope, workspace
from netgrad.caffe2.python.model_helper import ModelHelper


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent, by `sigmoid`."""
    return 2.0 * sigmoid(2.0 * x) - 1


def _prepare_rnn(
    t: int,
    n: int,
    dim_in: int,
    create_rnn: Callable[..., Any],
    outputs_with_grads: Sequence[int],
    forget_bias: float,
    memory_optim: bool = False,
    forward_only: bool = False,
    drop_states: bool = False,
    T: int | None = None,
    two_d_initial_states: bool | None = None,
    dim_out: Sequence[int] | None = None,
    num_states: int = 2,
    **kwargs: Any,
) -> tuple[Any, Any, list[Any]]:
    """A model with one recurrent layer or several, its parameters and random initial states in the workspace.

    Args:
        t: The longest sequence length that is drawn.
        n: The size of the batch.
        dim_in: The size of the input.
        create_rnn: A function such as `netgrad.caffe2.python.rnn_cell.LSTM`.
        outputs_with_grads: See there, as most others.
        forget_bias: The same.
        memory_optim: The same, ``memory_optimization``.
        forward_only: The same.
        drop_states: The same.
        T: The same, ``static_rnn_unroll_size``.
        two_d_initial_states: Whether initial states are (batch, size) rather than (1, batch, size); None: at
            random.
        dim_out: The size of each layer; None: one of ``dim_in``.
        num_states: How many states a layer has.
        **kwargs: Further arguments of ``create_rnn``.

    Returns:
        What ``create_rnn`` has returned, the net, and the blobs of the states and of the input, which has to
        be fed.
    """
    sizes = [dim_in] if dim_out is None else list(dim_out)
    if two_d_initial_states is None:
        two_d_initial_states = bool(np.random.randint(2))
    model = ModelHelper(name="external")
    states = []
    for layer, size in enumerate(sizes):
        for number in range(num_states):
            states.append(model.net.AddExternalInput(f"state_{number}/layer_{layer}"))
            shape = (n, size) if two_d_initial_states else (1, n, size)
            workspace.FeedBlob(states[-1], np.random.randn(*shape).astype(np.float32))
    with scope.NameScope("test_name_scope"):
        blobs: Any = model.net.AddScopedExternalInputs("input_blob", "seq_lengths")
        outputs = create_rnn(
            model,
            *blobs,
            states,
            dim_in=dim_in,
            dim_out=sizes,
            scope="external/recurrent",
            outputs_with_grads=outputs_with_grads,
            memory_optimization=memory_optim,
            forget_bias=forget_bias,
            forward_only=forward_only,
            drop_states=drop_states,
            static_rnn_unroll_size=T,
            **kwargs,
        )
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(blobs[1], np.random.randint(1, t + 1, size=(n,)).astype(np.int32))
    return outputs, model.net, [*states, blobs[0]]
