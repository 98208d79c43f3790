"""Search for the sequence of words that a model finds most probable, with a beam of unfinished sequences.

A hypothesis is an unfinished sequence. In each step every hypothesis of the beam is continued by its best
words, and the best of all continuations are the next beam: which word, after which hypothesis, with which sum
of logarithms of probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from netgrad.caffe2.python.models.seq2seq.vocabulary import GO_ID

_FLOAT, _INT32, _INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


class Link(NamedTuple):
    """Where a blob of the step stands in the blob of all steps.

    Attributes:
        blob: The blob of the step.
        offset: The row, counted from the step's number.
        window: The number of rows.
    """

    blob: Any
    offset: int
    window: int


class State(NamedTuple):
    """What goes from step to step.

    Attributes:
        initial_value: The blob that the first step reads.
        state_prev_link: What a step reads.
        state_link: What it writes.
    """

    initial_value: Any
    state_prev_link: Link
    state_link: Link


class BeamSearchForwardOnly:
    """Puts a decoder's step into a ``RecurrentNetwork`` that searches.

    First the step's operators are added to `get_step_model`, of `get_previous_tokens`; then `apply` adds the
    search.
    """

    LinkConfig = Link
    StateConfig = State

    def __init__(
        self,
        beam_size: int,
        model: Any,
        eos_token_id: int,
        go_token_id: int = GO_ID,
        post_eos_penalty: float | None = None,
    ) -> None:
        """Start a search.

        Args:
            beam_size: The number of hypotheses.
            model: Where the search goes.
            eos_token_id: The word that ends a sequence.
            go_token_id: The word that stands before the first one.
            post_eos_penalty: What is added to the score of each word after the end; None: nothing. The search
                itself doesn't stop at the end of a sequence.
        """
        self.beam_size = beam_size
        self.model = model
        self.step_model = Seq2SeqModelHelper(name="step_model", param_model=model)
        self.go_token_id = go_token_id
        self.eos_token_id = eos_token_id
        self.post_eos_penalty = post_eos_penalty
        net = self.step_model.net
        self.timestep, self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev, self.attention_t_prev = (
            net.AddExternalInputs(
                "timestep", "scores_t_prev", "tokens_t_prev", "hypo_t_prev", "attention_t_prev"
            )
        )
        tokens = net.Cast(self.tokens_t_prev, "tokens_t_prev_int32", to=_INT32)
        self.tokens_t_prev_int32_flattened = net.Reshape(
            [tokens], [tokens, "input_t_int32_old_shape"], shape=[1, -1]
        )[0]

    def get_step_model(self) -> Seq2SeqModelHelper:
        """The model that a step's operators are added to."""
        return self.step_model

    def get_previous_tokens(self) -> Any:
        """The last word of each hypothesis, int32 of shape (1, beam)."""
        return self.tokens_t_prev_int32_flattened

    def get_timestep(self) -> Any:
        """The number of the step, int32 of shape (1,)."""
        return self.timestep

    def apply(
        self,
        inputs: Any,
        length: Any,
        log_probs: Any,
        attentions: Any,
        state_configs: Sequence[State],
        data_dependencies: Sequence[Any],
        word_rewards: Any = None,
        possible_translation_tokens: Any = None,
        go_token_id: Any = None,
    ) -> tuple[Any, Any, Any, Any]:
        """Add the search to the model.

        Args:
            inputs: What the encoder reads, a word for each weight of the attention.
            length: The number of steps, int64 of shape (1,).
            log_probs: Of the step: the logarithm of each word's probability, (beam, words).
            attentions: Of the step: the weights of the attention, (beam, length, 1).
            state_configs: The states of the decoder, (1, beam, size).
            data_dependencies: Blobs that must be there before the search begins.
            word_rewards: What is added to the score of each word; None: nothing.
            possible_translation_tokens: The words that ``log_probs`` stands for; None: all, from 0 on.
            go_token_id: A blob with the word before the first one, float of shape (1,); None: the constant.

        Returns:
            Of the beam before the first step and after each one, (steps + 1, beam, ...): the last words,
            which hypotheses of the beam before they continue, the scores, and the weights of the attention.
        """
        first = self._is_first_step()
        if self.post_eos_penalty is not None:
            log_probs = self._penalized(log_probs, first)
        scores, tokens, best, hypotheses = self._best_continuations(
            log_probs, word_rewards, possible_translation_tokens, first
        )
        written = self._next_beam(scores, tokens, best, hypotheses, attentions)
        states = [self._follow(state, hypotheses) for state in state_configs]
        own = self._own_states(written, inputs, go_token_id)
        return self._search(states + own, written, length, list(data_dependencies))

    def _constant(self, name: str, value: float, dtype: int = _INT32, size: int = 1) -> Any:
        return self.model.param_init_net.ConstantFill([], name, shape=[size], value=value, dtype=dtype)

    def _is_first_step(self) -> Any:
        self._zero = self._constant("ZERO", 0)
        return self.step_model.net.EQ([self._zero, self.timestep], "on_initial_step")

    def _penalized(self, log_probs: Any, first: Any) -> Any:
        """The scores of words, with the penalty after the end of a sequence, which the first step is not."""
        net = self.step_model.net
        eos = self._constant("eos_token", self.eos_token_id, size=self.beam_size)
        penalty = self._constant("finished_penalty", float(self.post_eos_penalty or 0), _FLOAT)
        nothing = self._constant("ZERO_FLOAT", 0.0, _FLOAT)
        penalty = net.Conditional([first, nothing, penalty], "possible_finished_penalty")
        tokens = net.FlattenToVec(self.tokens_t_prev, "tokens_t_flat")
        tokens = net.Cast(tokens, "tokens_t_flat_int", to=_INT32)
        ended = net.Cast(net.EQ([tokens, eos], "predecessor_is_eos"), "predecessor_is_eos_float", to=_FLOAT)
        added = net.Mul([ended, penalty], "predecessor_is_eos_penalty", broadcast=1)
        return net.Add([log_probs, added], "log_probs_penalized", broadcast=1, axis=0)

    def _best_continuations(
        self, log_probs: Any, rewards: Any, possible_tokens: Any, first: Any
    ) -> tuple[Any, Any, Any, Any]:
        """The next beam's scores, the words of all continuations, and which of these the beam takes.

        The last result is the hypothesis that each of the beam continues, int64 of shape (1, beam).
        """
        net, size = self.step_model.net, self.beam_size
        found, tokens = net.TopK(log_probs, ["best_scores_per_hypo", "best_tokens_per_hypo_indices"], k=size)
        if possible_tokens is not None:
            tokens = net.Gather([possible_tokens, tokens], ["best_tokens_per_hypo"])
        before = net.Reshape(
            self.scores_t_prev, ["scores_t_prev_squeezed", "scores_t_prev_old_shape"], shape=[size]
        )[0]
        sums = net.Add([found, before], "output_scores", broadcast=1, axis=0)
        if rewards is not None:
            reward = net.Gather([rewards, tokens], "word_rewards_for_best_tokens_per_hypo")
            sums = net.Add([sums, reward], "output_scores")
        sums = net.Reshape([sums], [sums, "output_scores_old_shape"], shape=[-1])[0]
        # All hypotheses are the same before the first step, so that only the first one is continued there.
        all_of_them = self.model.param_init_net.ConstantFill(
            [], "MINUS_ONE_INT32", value=-1, shape=[1], dtype=_INT32
        )
        of_one = self._constant("beam_size", size)
        end = net.Conditional([first, of_one, all_of_them], ["slice_end"])
        sums = net.Slice([sums, self._zero, end], "output_scores_flattened_slice")
        sums = net.Reshape(sums, [sums, "output_scores_flattened_slice_old_shape"], shape=[1, -1])[0]
        scores, best = net.TopK(sums, ["scores_t", "best_indices"], k=size)
        divisor = self.model.param_init_net.Cast(of_one, "BEAM_SIZE_64", to=_INT64)
        return scores, tokens, best, net.Div([best, divisor], "hypo_t_int32", broadcast=1)

    def _next_beam(self, scores: Any, tokens: Any, best: Any, hypotheses: Any, attentions: Any) -> list[Any]:
        """The next beam's scores, words, hypotheses and weights; the states of a recurrent net are floats."""
        net = self.step_model.net
        followed = net.Cast(hypotheses, "hypo_t", to=_FLOAT)
        weights = net.Gather([attentions, hypotheses], "attention_t")
        weights = net.Reshape(weights, [weights, "attention_t_old_shape"], shape=[1, self.beam_size, -1])[0]
        flat = net.Reshape(
            tokens, ["best_tokens_per_hypo_flatten", "best_tokens_per_hypo_old_shape"], shape=[-1]
        )[0]
        chosen = net.Gather([flat, best], "tokens_t_int32")
        return [scores, net.Cast(chosen, "tokens_t", to=_FLOAT), followed, weights]

    def _follow(self, state: State, hypotheses: Any) -> State:
        """A decoder's state, of the hypotheses that the next beam continues."""
        net, (blob, offset, window) = self.step_model.net, state.state_link
        rows = net.Reshape(blob, [blob, blob + "_old_shape"], shape=[self.beam_size, -1])[0]
        chosen = net.Gather([rows, hypotheses], f"{blob}_chosen_per_hypo")
        return state._replace(state_link=Link(chosen, offset, window))

    def _own_states(self, written: Sequence[Any], inputs: Any, go_token_id: Any) -> list[State]:
        """The states of the search itself, with what they are before the first step."""
        scores = self._constant("initial_scores", 0.0, _FLOAT)
        if go_token_id is not None:
            tokens = self.model.net.Copy([go_token_id], "initial_tokens")
        else:
            tokens = self._constant("initial_tokens", float(self.go_token_id), _FLOAT)
        hypotheses = self._constant("initial_hypo", 0.0, _FLOAT)
        flat = self.model.net.Reshape(
            inputs, ["encoder_inputs_flattened", "encoder_inputs_old_shape"], shape=[-1]
        )[0]
        weights = self.model.net.ConstantFill(flat, "init_attention", value=0.0, dtype=_FLOAT)
        initial = (scores, tokens, hypotheses, weights)
        return [
            State(value, Link(before, 0, 1), Link(after, 1, 1))
            for value, before, after in zip(initial, self._read(), written, strict=True)
        ]

    def _read(self) -> tuple[Any, ...]:
        return self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev, self.attention_t_prev

    def _search(
        self, states: Sequence[State], written: Sequence[Any], length: Any, others: list[Any]
    ) -> tuple[Any, Any, Any, Any]:
        """Add the recurrent net, whose sequence only says how many steps there are, and how large a beam."""
        net = self.model.net
        shape = net.ConstantFill(
            length,
            "beam_search_fake_input",
            input_as_shape=True,
            extra_shape=[self.beam_size, 1],
            value=0.0,
            dtype=_FLOAT,
        )
        params = self.step_model.params
        everything = [shape, *params, *(state.initial_value for state in states), *others]
        names = [f"{state.state_prev_link.blob}_states" for state in states]
        links = [
            (str(link.blob), name, link.offset, link.window)
            for state, name in zip(states, names, strict=True)
            for link in (state.state_prev_link, state.state_link)
        ]
        internal, external, offsets, windows = zip(*links, strict=True)
        outputs = [f"{blob}_all" for blob in written]
        scores, tokens, hypotheses, weights = net.RecurrentNetwork(
            everything,
            [*outputs, "step_workspaces"],
            param=[everything.index(param) for param in params],
            alias_src=[f"{blob}_states" for blob in self._read()],
            alias_dst=outputs,
            alias_offset=[0] * 4,
            recurrent_states=names,
            initial_recurrent_state_ids=[everything.index(state.initial_value) for state in states],
            link_internal=internal,
            link_external=external,
            link_offset=offsets,
            link_window=windows,
            backward_link_internal=[],
            backward_link_external=[],
            backward_link_offset=[],
            step_net=self.step_model.net.Proto(),
            timestep=str(self.timestep),
            outputs_with_grads=[],
            enable_rnn_executor=1,
            rnn_executor_debug=0,
        )[:4]
        return (
            net.Cast(tokens, "output_token_beam_list", to=_INT32),
            net.Cast(hypotheses, "output_prev_index_beam_list", to=_INT32),
            net.Alias(scores, "output_score_beam_list"),
            net.Alias(weights, "output_attention_weights_beam_list"),
        )
