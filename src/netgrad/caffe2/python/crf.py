"""A conditional random field over the classes of a sequence, of one sequence at a time.

The score of a path is the sum of its classes' scores and of the transitions between them. Two classes are
added, for the begin and the end: N classes are K = N + 2, the begin is class N and the end class N + 1.
"""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, recurrent
from netgrad.caffe2.python.model_helper import ModelHelper

_LOW = -1000.0  # the score of what can't be


class CRFWithLoss:
    """The transitions of a conditional random field, and its loss.

    Attributes:
        model: Where it is added.
        num_classes: How many classes there are, N.
        num_classes_padded: The same with begin and end, K.
        transitions: A (K, K) parameter: ``transitions[i, j]`` is for class j behind class i.
    """

    def __init__(self, model: Any, num_classes: int, transitions_blob: Any = None) -> None:
        """Take ``transitions_blob``, or a new parameter of numbers from -1 to 1."""
        self.model = model
        self.num_classes = num_classes
        self.num_classes_padded = num_classes + 2
        if not transitions_blob:
            transitions_blob = model.param_init_net.UniformFill(
                [],
                [core.ScopedBlobReference("crf_transitions")],
                shape=[self.num_classes_padded] * 2,
                min=-1.0,
                max=1.0,
            )
        self.transitions = transitions_blob
        model.params.append(transitions_blob)

    def crf_loss(self, predictions: Any, labels: Any, seq_lengths: Any = None) -> Any:
        """The negative logarithm of the likelihood of a sequence of classes, a number.

        Args:
            predictions: The scores, (T, N).
            labels: The classes, (T,).
            seq_lengths: Not used: there is one sequence.
        """
        net, init_net = self.model.net, self.model.param_init_net
        # Whoever updates the parameter meanwhile changes nothing here.
        transitions = net.Copy(self.transitions, core.ScopedBlobReference("transitions_snapshot"))
        own = self._scores_of(predictions, labels)
        padded = self.pad_predictions(predictions, init_net, net, self.num_classes)
        between = self._transitions_of(self.pad_labels(labels, init_net, net, self.num_classes), transitions)
        path = net.Add([between, own], core.ScopedBlobReference("path_total"))
        initial = net.Slice([padded], core.ScopedBlobReference("rnn_initial"), starts=[0, 0], ends=[1, -1])
        others = net.Slice([padded], starts=[1, 0], ends=[-1, -1])
        sequence = net.ExpandDims([others], core.ScopedBlobReference("rnn_input_data"), dims=[1])
        last = net.FlattenToVec(self.build_crf_net(sequence, initial, transitions))
        zeros = init_net.ConstantFill([], shape=[self.num_classes_padded], value=0, dtype=core.DataType.INT32)
        all_paths = net.Squeeze(net.SortedSegmentRangeLogSumExp([last, zeros]), dims=[0])
        return net.Sub([all_paths, path], core.ScopedBlobReference("crf_loss"))

    def _scores_of(self, predictions: Any, labels: Any) -> Any:
        """The sum of the classes' scores."""
        net, init_net = self.model.net, self.model.param_init_net
        count = init_net.ConstantFill([], shape=[1], value=self.num_classes, dtype=core.DataType.INT64)
        chosen = net.OneHot([net.Cast([labels], to="int64"), count])
        return net.SumElements(net.Mul([predictions, chosen]))

    def _transitions_of(self, labels: Any, transitions: Any) -> Any:
        """The sum of the transitions between classes, begin and end included."""
        net = self.model.net
        before, after = net.Slice([labels], starts=[0], ends=[-2]), net.Slice([labels], starts=[1], ends=[-1])
        width = net.ConstantFill([before], value=self.num_classes_padded, dtype=core.DataType.INT64)
        places = net.Add([net.Mul([before, width]), after])  # in the matrix row by row
        return net.SumElements(net.Gather([net.FlattenToVec(transitions), places], dense_gradient=True))

    def build_crf_net(self, input_blob: Any, initial_state: Any, transitions: Any) -> Any:
        """Add a recurrent net that sums up all paths step by step.

        Args:
            input_blob: The scores of the steps, (T, 1, K).
            initial_state: Those of the first class, (1, K).
            transitions: (K, K).

        Returns:
            For each class the logarithm of the sum, over all paths that end there, of e^score: (1, 1, K).
        """
        size, scope = self.num_classes_padded, "crf_net"
        step = ModelHelper(name="crf_step", param_model=self.model)
        row, state, matrix = step.net.AddExternalInputs(
            core.ScopedBlobReference("input_t"), core.ScopedBlobReference("cell_t_prev"), transitions
        )
        zeros = step.param_init_net.ConstantFill(
            [], [f"{scope}/zero_segment_id"], shape=[size], value=0, dtype=core.DataType.INT32
        )
        # Row i of the matrix starts from the paths that end at class i.
        ends = step.net.FlattenToVec(state, f"{scope}/ends")
        longer = step.net.Add([matrix, ends], f"{scope}/longer", broadcast=1, axis=0)
        sums = step.net.SortedSegmentRangeLogSumExp([longer, zeros], f"{scope}/sums")
        after, _ = step.net.Reshape(sums, [f"{scope}/after", f"{scope}/sums_shape"], shape=[1, 1, size])
        state_after = step.net.Add([after, row], f"{scope}/cell_t")
        step.net.AddExternalOutputs(state_after)
        _, last = recurrent.recurrent_net(
            net=self.model.net,
            cell_net=step.net,
            inputs=[(row, input_blob)],
            initial_cell_inputs=[(state, initial_state)],
            links={state: state_after},
            scope=scope,
            outputs_with_grads=(1,),
        )
        return last

    def update_predictions(self, classes: Any) -> Any:
        """Scores (T, N) of which the largest of each row is that of the best path."""
        from netgrad.caffe2.python.crf_predict import crf_update_predictions

        return self.model.net.Copy(
            crf_update_predictions(self.model, self, classes), core.ScopedBlobReference("post_crf_classes")
        )

    @staticmethod
    def pad_labels(labels: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """The classes, int64, between begin and end."""
        begin, end = (
            init_net.ConstantFill([], shape=[1], value=num_classes + more, dtype=core.DataType.INT64)
            for more in (0, 1)
        )
        padded, _ = net.Concat([begin, net.Cast([labels], to="int64"), end], axis=0, outputs=2)
        return padded

    @staticmethod
    def pad_predictions(predictions: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """Scores (T + 2, N + 2): in the first row only the begin can be, in the last one only the end."""
        edges = []
        for at in (num_classes, num_classes + 1):
            scores = [_LOW] * (num_classes + 2)
            scores[at] = 0.0
            edges.append(init_net.GivenTensorFill([], shape=[1, len(scores)], values=scores))
        low = net.ConstantFill([net.Slice([predictions], starts=[0, 0], ends=[-1, 1])], value=_LOW)
        wide, _ = net.Concat([predictions, low, low], outputs=2, axis=1)
        padded, _ = net.Concat([edges[0], wide, edges[1]], outputs=2, axis=0)
        return padded
