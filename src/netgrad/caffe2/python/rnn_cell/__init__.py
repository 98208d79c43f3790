"""Cells of recurrent nets, and layers of them."""

from netgrad.caffe2.python.rnn_cell.attention_cells import (
    AttentionCell,
    LSTMWithAttentionCell,
    MILSTMWithAttentionCell,
)
from netgrad.caffe2.python.rnn_cell.cell import LSTMInitializer, RNNCell
from netgrad.caffe2.python.rnn_cell.composite import (
    DropoutCell,
    MultiRNNCell,
    MultiRNNCellInitializer,
    UnrolledCell,
)
from netgrad.caffe2.python.rnn_cell.layers import (
    _LSTM,
    LSTM,
    MILSTM,
    BasicRNN,
    GetLSTMParamNames,
    InitFromLSTMParams,
    LayerNormLSTM,
    LayerNormMILSTM,
    LSTMWithAttention,
    cudnn_LSTM,
    layered_LSTM,
)
from netgrad.caffe2.python.rnn_cell.units import (
    BasicRNNCell,
    LayerNormLSTMCell,
    LayerNormMILSTMCell,
    LSTMCell,
    MILSTMCell,
)

__all__ = [
    "LSTM",
    "MILSTM",
    "_LSTM",
    "AttentionCell",
    "BasicRNN",
    "BasicRNNCell",
    "DropoutCell",
    "GetLSTMParamNames",
    "InitFromLSTMParams",
    "LSTMCell",
    "LSTMInitializer",
    "LSTMWithAttention",
    "LSTMWithAttentionCell",
    "LayerNormLSTM",
    "LayerNormLSTMCell",
    "LayerNormMILSTM",
    "LayerNormMILSTMCell",
    "MILSTMCell",
    "MILSTMWithAttentionCell",
    "MultiRNNCell",
    "MultiRNNCellInitializer",
    "RNNCell",
    "UnrolledCell",
    "cudnn_LSTM",
    "layered_LSTM",
]
