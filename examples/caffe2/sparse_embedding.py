"""A sparse model: bags of words are looked up in a table and summed; Adagrad touches only their rows.

python -m netgrad.caffe2 examples/caffe2/sparse_embedding.py
"""

import numpy as np
from caffe2.python import brew, model_helper, optimizer, workspace

WORDS, DIM, BAGS = 200, 8, 64
generator = np.random.default_rng(0)
taste = generator.normal(size=WORDS)  # what each word says of the label; the model doesn't know it


def batch():
    """Ids of the words of all bags in one vector, the lengths of the bags, and their labels."""
    lengths = generator.integers(1, 6, BAGS).astype(np.int32)
    ids = generator.integers(0, WORDS, lengths.sum()).astype(np.int64)
    score = np.add.reduceat(taste[ids], np.r_[0, lengths.cumsum()[:-1]])
    return ids, lengths, (score > 0).astype(np.float32)[:, None]


model = model_helper.ModelHelper(name="sparse")
table = model.param_init_net.GaussianFill([], "table", shape=[WORDS, DIM], mean=0.0, std=0.1)
model.AddParameter(table)
bags = model.net.SparseLengthsSum([table, "ids", "lengths"], "bags")
score = brew.fc(model, bags, "score", DIM, 1)
loss = model.net.AveragedLoss(model.net.SigmoidCrossEntropyWithLogits([score, "label"], "xent"), "loss")
model.AddGradientOperators([loss])
optimizer.build_adagrad(model, base_learning_rate=0.3)

workspace.RunNetOnce(model.param_init_net)
created = False
losses = []
for step in range(600):
    for name, value in zip(("ids", "lengths", "label"), batch(), strict=True):
        workspace.FeedBlob(name, value)
    if not created:
        workspace.CreateNet(model.net)
        created = True
    workspace.RunNet(model.net)
    losses.append(float(workspace.FetchBlob("loss")))
    if (step + 1) % 100 == 0:
        print(f"step {step + 1}: loss {np.mean(losses[-50:]):.4f}")
