"""A model that translates, its training step, and the file with its parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import CPU
from netgrad.caffe2.python import core, data_parallel_model, workspace
from netgrad.caffe2.python.models.seq2seq import seq2seq_util
from netgrad.caffe2.python.models.seq2seq.batches import Batch, Pair, prepare_batch
from netgrad.caffe2.python.models.seq2seq.clipped_updates import add_clipped_updates
from netgrad.caffe2.python.models.seq2seq.options import log
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

_UPDATES, _SPARSE_UPDATES = "norm_clipped_grad_update", "norm_clipped_sparse_grad_update"


class Seq2SeqModelCaffe2:
    """A model that translates, in the current workspace.

    ``model_params`` has ``attention`` (see `LSTMWithAttentionDecoder`), ``encoder_type`` (see
    `build_embedding_encoder`), ``decoder_layer_configs`` (see `build_embedding_decoder`),
    ``encoder_embedding_size``, ``decoder_embedding_size``, ``decoder_softmax_size`` (see
    `output_projection`), ``batch_size``, ``optimizer_params`` with a ``learning_rate``, and
    ``max_gradient_norm``.

    Attributes:
        model: The model that is trained.
        forward_net: The net that only computes the loss.
    """

    model: Seq2SeqModelHelper
    forward_net: core.Net

    def __init__(
        self,
        model_params: Mapping[str, Any],
        source_vocab_size: int,
        target_vocab_size: int,
        num_gpus: int = 1,
        num_cpus: int = 1,
    ) -> None:
        """Describe a model.

        Args:
            model_params: See the class.
            source_vocab_size: The number of words.
            target_vocab_size: The number of the translations' words.
            num_gpus: The number of devices it is built for (see `data_parallel_model`); 0: the processor.
            num_cpus: The number of threads, which is noted.
        """
        self.model_params = model_params
        self.encoder_type = "rnn"
        self.encoder_params = model_params["encoder_type"]
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_gpus = num_gpus
        self.num_cpus = num_cpus
        self.batch_size = model_params["batch_size"]
        workspace.GlobalInit(["caffe2", f"--caffe2_mkl_num_threads={num_cpus}"])

    def __enter__(self) -> Seq2SeqModelCaffe2:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workspace.ResetWorkspace()

    # ---- building ----------------------------------------------------------------------------------

    def initialize_from_scratch(self) -> None:
        """Build the model, fill its parameters and create its nets."""
        self._build_model(init_params=True)
        self._init_model()
        log.info("the model has %d parameters", len(self.model.GetParams()))

    def _build_model(self, init_params: bool) -> None:
        model, forward = (self._with_shared_blobs(init_params) for _ in range(2))
        if self.num_gpus == 0:
            model.AddGradientOperators(self.model_build_fun(model))
            self.norm_clipped_grad_update(model, scope=_UPDATES)
            self.forward_model_build_fun(forward)
        else:
            self._build_on_devices(model, forward)
        self.norm_clipped_sparse_grad_update(model, scope=_SPARSE_UPDATES)
        self.model = model
        self.forward_net = forward.net

    def _build_on_devices(self, model: Seq2SeqModelHelper, forward: Seq2SeqModelHelper) -> None:
        if self.batch_size % self.num_gpus:
            raise ValueError(f"batches of {self.batch_size} can't be shared by {self.num_gpus} devices")
        for built, forward_pass, update in (
            (forward, self.forward_model_build_fun, None),
            (model, self.model_build_fun, lambda own: self.norm_clipped_grad_update(own, scope=_UPDATES)),
        ):
            data_parallel_model.Parallelize_GPU(
                built,
                input_builder_fun=lambda own: None,
                forward_pass_builder_fun=forward_pass,
                param_update_builder_fun=update,
                devices=list(range(self.num_gpus)),
            )

    def _with_shared_blobs(self, init_params: bool) -> Seq2SeqModelHelper:
        """A model with what all devices share: settings, and embeddings, which stay on the processor."""
        model = Seq2SeqModelHelper(init_params=init_params)
        rate = float(self.model_params["optimizer_params"]["learning_rate"])
        with core.DeviceScope(core.DeviceOption(CPU)):
            self.learning_rate, self.global_step, self.start_time = (
                model.AddParam(name=name, init_value=value, trainable=False)
                for name, value in (
                    ("learning_rate", rate),
                    ("global_step", 0),
                    ("start_time", time.time()),
                )
            )
            self.encoder_embeddings, self.decoder_embeddings = (
                self._embeddings(model, f"{part}_embeddings", words)
                for part, words in (
                    ("encoder", self.source_vocab_size),
                    ("decoder", self.target_vocab_size),
                )
            )
        return model

    def _embeddings(self, model: Seq2SeqModelHelper, name: str, words: int) -> Any:
        """Numbers of variance one, which are trained."""
        bound = math.sqrt(3)
        shape = [words, self.model_params[f"{name.removesuffix('s')}_size"]]
        blob = model.param_init_net.UniformFill([], name, shape=shape, min=-bound, max=bound)
        model.params.append(blob)
        return blob

    def model_build_fun(
        self, model: Any, forward_only: bool = False, loss_scale: float | None = None
    ) -> list[Any]:
        """Add the loss of a batch, the sum over its words divided by the number of sentences.

        Args:
            model: The model.
            forward_only: Whether dropouts let all pass.
            loss_scale: Not used: the sum over devices is the loss of the whole batch already.

        Returns:
            The loss alone.
        """
        scope = workspace.GetNameScope()
        read = [model.net.AddExternalInput(scope + name) for name in Batch._fields]
        encoder_inputs, encoder_lengths, decoder_inputs, decoder_lengths, targets, weights = read
        params = self.model_params
        outputs, matched, hidden_states, cell_states, units = seq2seq_util.build_embedding_encoder(
            model=model,
            encoder_params=self.encoder_params,
            num_decoder_layers=len(params["decoder_layer_configs"]),
            inputs=encoder_inputs,
            input_lengths=encoder_lengths,
            vocab_size=self.source_vocab_size,
            embeddings=self.encoder_embeddings,
            embedding_size=params["encoder_embedding_size"],
            use_attention=params["attention"] != "none",
            num_gpus=self.num_gpus,
            is_test=forward_only,
        )
        rows, row_size = seq2seq_util.build_embedding_decoder(
            model=model,
            decoder_layer_configs=params["decoder_layer_configs"],
            inputs=decoder_inputs,
            input_lengths=decoder_lengths,
            encoder_lengths=encoder_lengths,
            encoder_outputs=outputs,
            weighted_encoder_outputs=matched,
            final_encoder_hidden_states=hidden_states,
            final_encoder_cell_states=cell_states,
            encoder_units_per_layer=units,
            vocab_size=self.target_vocab_size,
            embeddings=self.decoder_embeddings,
            embedding_size=params["decoder_embedding_size"],
            attention_type=params["attention"],
            forward_only=False,
            num_gpus=self.num_gpus,
            is_test=forward_only,
        )
        scores = seq2seq_util.output_projection(
            model, rows, row_size, self.target_vocab_size, params["decoder_softmax_size"]
        )
        targets, weights = (
            model.net.Reshape([blob], [name, f"{name}_old_shape"], shape=[-1])[0]
            for blob, name in ((targets, "targets"), (weights, "target_weights"))
        )
        _, per_word = model.net.SoftmaxWithLoss(
            [scores, targets, weights], ["OutputProbs_INVALID", "loss_per_word"], only_loss=True
        )
        words = model.net.SumElements([weights], "num_words")
        total = model.net.Mul([per_word, words], "total_loss_scalar")
        return [model.net.Scale([total], "total_loss_scalar_weighted", scale=1.0 / self.batch_size)]

    def forward_model_build_fun(self, model: Any, loss_scale: float | None = None) -> list[Any]:
        """`model_build_fun` of a model that is only run."""
        return self.model_build_fun(model=model, forward_only=True, loss_scale=loss_scale)

    def norm_clipped_grad_update(self, model: Any, scope: str) -> None:
        """Add the steps of all parameters but embeddings; see `add_clipped_updates`."""
        rate = self.learning_rate if self.num_gpus == 0 else model.CopyCPUToGPU(self.learning_rate, "LR")
        add_clipped_updates(model, False, rate, self.model_params["max_gradient_norm"], scope)

    def norm_clipped_sparse_grad_update(self, model: Any, scope: str) -> None:
        """Add the steps of the embeddings, whose norm is their own."""
        add_clipped_updates(model, True, self.learning_rate, self.model_params["max_gradient_norm"], scope)

    def _init_model(self) -> None:
        workspace.RunNetOnce(self.model.param_init_net)
        for net in (self.model.net, self.forward_net):
            workspace.CreateNet(net, input_blobs=[str(blob) for blob in net.external_inputs])

    # ---- running -----------------------------------------------------------------------------------

    def get_current_step(self) -> Any:
        """How many batches it was trained with."""
        return workspace.FetchBlob(self.global_step)[0]

    def inc_current_step(self) -> None:
        """Count one more."""
        workspace.FeedBlob(self.global_step, np.array([self.get_current_step() + 1]))

    def step(self, batch: Sequence[Pair], forward_only: bool) -> Any:
        """Run a batch of pairs of sentences: train with it, or compute its loss only. Returns the loss."""
        if self.num_gpus == 0:
            for name, value in prepare_batch(batch)._asdict().items():
                workspace.FeedBlob(name, value)
        for device in range(self.num_gpus):
            for name, value in prepare_batch(batch[device :: self.num_gpus])._asdict().items():
                looked_up = name in ("encoder_inputs", "decoder_inputs")
                option = (
                    core.DeviceOption(CPU)
                    if looked_up
                    else core.DeviceOption(workspace.GpuDeviceType, device)
                )
                workspace.FeedBlob(f"gpu_{device}/{name}", value, device_option=option)
        workspace.RunNet(self.forward_net if forward_only else self.model.net)
        if not forward_only:
            self.inc_current_step()
        return self.total_loss_scalar()

    def total_loss_scalar(self) -> Any:
        """The sum over all words of the last batch."""
        if self.num_gpus == 0:
            return workspace.FetchBlob("total_loss_scalar")
        return sum(workspace.FetchBlob(f"gpu_{device}/total_loss_scalar") for device in range(self.num_gpus))

    def save(self, checkpoint_path_prefix: str, current_step: int) -> str:
        """Write all parameters to ``<prefix>-<step>``, and that name, which it returns, to ``checkpoint``."""
        path = f"{checkpoint_path_prefix}-{current_step}"
        workspace.RunOperatorOnce(
            core.CreateOperator(
                "Save", self.model.GetAllParams(), [], absolute_path=True, db=path, db_type="minidb"
            )
        )
        Path(checkpoint_path_prefix).with_name("checkpoint").write_text(
            f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n', encoding="utf-8"
        )
        log.info("saved %s", path)
        return path
