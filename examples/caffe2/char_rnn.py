"""A character-level model: an LSTM reads the Zen of Python, learns it, and writes on from a few letters.

python -m netgrad.caffe2 examples/caffe2/char_rnn.py [epochs]
"""

import codecs
import contextlib
import io
import sys

import numpy as np
from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.rnn_cell import LSTM

with contextlib.redirect_stdout(io.StringIO()):
    import this  # prints the text when it is imported

STEPS, BATCH, HIDDEN = 24, 16, 96
text = codecs.decode(this.s, "rot13").replace("\n", " ")
letters = sorted(set(text))
index = {letter: number for number, letter in enumerate(letters)}
codes = np.array([index[letter] for letter in text])
eye = np.eye(len(letters), dtype=np.float32)

# ---- the model: a recurrent layer, and a choice of the next letter after each step ------------------------

model = model_helper.ModelHelper(name="char_rnn")
letter, lengths, hidden, cell, target = model.net.AddExternalInputs(
    "letter", "lengths", "hidden", "cell", "target"
)
states, last_hidden, _, last_cell = LSTM(
    model, letter, lengths, (hidden, cell), len(letters), HIDDEN, scope="lstm", forget_bias=1.0
)
score = brew.fc(model, states, "score", dim_in=HIDDEN, dim_out=len(letters), axis=2)
chances = model.net.Softmax(score, "chances", axis=2)
rows, _ = model.net.Reshape(chances, ["rows", "chances_shape"], shape=[-1, len(letters)])
write_net = core.Net(model.net.Proto())  # all that writing needs: no loss, no gradients

loss = model.net.AveragedLoss(model.net.LabelCrossEntropy([rows, target], "xent"), "loss")
model.AddGradientOperators([loss])
optimizer.build_adam(model, base_learning_rate=0.01)

# What was read last is where the next piece of the text begins.
carry_net = core.Net("carry")
carry_net.Copy(last_hidden, hidden)
carry_net.Copy(last_cell, cell)


def start(batch):
    """Begin new texts: states of zeros, and full lengths."""
    for blob in (hidden, cell):
        workspace.FeedBlob(blob, np.zeros((1, batch, HIDDEN), np.float32))


def read(piece):
    """Feed letters by number, (steps, batch)."""
    workspace.FeedBlob(letter, eye[piece])
    workspace.FeedBlob(lengths, np.full(piece.shape[1], piece.shape[0], np.int32))


def train(epochs):
    """Read the text in streams that start at different places, piece by piece."""
    streams = np.linspace(0, len(codes), BATCH, endpoint=False).astype(int)
    pieces = len(codes) // STEPS
    for epoch in range(1, epochs + 1):
        start(BATCH)
        losses = []
        for piece in range(pieces):
            places = (streams + piece * STEPS + np.arange(STEPS + 1)[:, None]) % len(codes)
            read(codes[places[:-1]])
            workspace.FeedBlob(target, codes[places[1:]].ravel().astype(np.int32))
            workspace.RunNet(model.net)
            workspace.RunNet(carry_net)
            losses.append(float(workspace.FetchBlob(loss)))
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}")


def write(begin, count):
    """Continue a text by the likeliest letters."""
    start(1)
    found = begin
    piece = [index[one] for one in begin]
    for _ in range(count):
        read(np.array(piece)[:, None])
        workspace.RunNet(write_net)
        workspace.RunNet(carry_net)
        piece = [int(workspace.FetchBlob(chances)[-1, 0].argmax())]
        found += letters[piece[0]]
    return found


model.param_init_net.set_rand_seed(1)  # the same numbers each time
workspace.RunNetOnce(model.param_init_net)
start(BATCH)
read(codes[: STEPS * BATCH].reshape(STEPS, BATCH))
workspace.FeedBlob(target, np.zeros(STEPS * BATCH, np.int32))
for blob in (last_hidden, last_cell):
    workspace.FeedBlob(blob, np.zeros((1, BATCH, HIDDEN), np.float32))
for net in (model.net, write_net, carry_net):
    workspace.CreateNet(net)

train(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
print("written:", write("Beautiful is", 60))
