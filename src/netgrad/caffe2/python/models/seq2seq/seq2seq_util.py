"""Parts of models that read one sequence and write another: vocabularies, encoders and decoders."""

from netgrad.caffe2.python.models.seq2seq.attention_decoder import LSTMWithAttentionDecoder
from netgrad.caffe2.python.models.seq2seq.decoder import (
    build_embedding_decoder,
    build_initial_rnn_decoder_states,
    output_projection,
)
from netgrad.caffe2.python.models.seq2seq.encoder import (
    build_embedding_encoder,
    build_embeddings,
    get_layer_scope,
    rnn_bidirectional_layer,
    rnn_unidirectional_layer,
)
from netgrad.caffe2.python.models.seq2seq.vocabulary import (
    EOS,
    EOS_ID,
    GO,
    GO_ID,
    PAD,
    PAD_ID,
    UNK,
    UNK_ID,
    gen_vocab,
    get_numberized_sentence,
)

__all__ = [
    "EOS",
    "EOS_ID",
    "GO",
    "GO_ID",
    "PAD",
    "PAD_ID",
    "UNK",
    "UNK_ID",
    "LSTMWithAttentionDecoder",
    "build_embedding_decoder",
    "build_embedding_encoder",
    "build_embeddings",
    "build_initial_rnn_decoder_states",
    "gen_vocab",
    "get_layer_scope",
    "get_numberized_sentence",
    "output_projection",
    "rnn_bidirectional_layer",
    "rnn_unidirectional_layer",
]
