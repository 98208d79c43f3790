"""A job with checkpoints: digits are read from a data set, learned in epochs, and the model is exported.

python -m netgrad.caffe2 examples/caffe2/resumable_job.py folder [epochs] [go on behind this epoch]
"""

import os
import sys

import numpy as np
from caffe2.python import brew, model_helper, optimizer, schema, workspace
from caffe2.python.checkpoint import CheckpointManager, Job, JobRunner, epoch_limiter
from caffe2.python.dataset import Dataset
from caffe2.python.net_builder import ops
from caffe2.python.pipeline import pipe
from caffe2.python.predictor import predictor_exporter
from caffe2.python.session import LocalSession
from caffe2.python.task import Task
from sklearn.datasets import load_digits

FOLDER = sys.argv[1]
EPOCHS = int(sys.argv[2]) if len(sys.argv) > 2 else 6
RESUME = int(sys.argv[3]) if len(sys.argv) > 3 else None
BATCH = 50

digits = load_digits()
images, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
train, held_out = slice(0, 1500), slice(1500, None)

# ---- the model, which reads the blobs data and label --------------------------------------------------

model = model_helper.ModelHelper(name="digits")
hidden = brew.relu(model, brew.fc(model, "data", "hidden", 64, 48), "hidden")
scores = brew.fc(model, hidden, "scores", 48, 10)
predict_net = model.net.Clone("predict")
softmax, loss = model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
model.AddGradientOperators([loss])
optimizer.build_sgd(model, base_learning_rate=0.1, policy="fixed", momentum=0.9)
model.param_init_net.set_rand_seed(1)
model.param_init_net.ConstantFill([], loss, shape=[], value=0.0)  # so that it outlasts an epoch

# ---- the job ------------------------------------------------------------------------------------------


def learn(batch):
    """What is done with each batch that the reader gives."""
    ops.Copy(batch.pixels(), "data")
    ops.Copy(batch.digit(), "label")
    ops.net(model.net)


with Job() as job:
    with job.init_group:
        Task(step=model.param_init_net)
        with Task():
            rows = schema.Struct(("pixels", images[train]), ("digit", labels[train]))
            data = Dataset(schema.ConstRecord(ops, rows), name="digits")
    pipe(data.reader(batch_size=BATCH), processor=learn)
    epoch_limiter(job, EPOCHS)

os.makedirs(FOLDER, exist_ok=True)
manager = CheckpointManager(FOLDER, "digits", "minidb")
session = LocalSession()  # in the current workspace
last = JobRunner(job, manager, resume_from_epoch=RESUME).train(session)
print(f"epoch {last}: loss {float(workspace.FetchBlob(loss)):.4f}")
print(f"sum of weights: {float(np.abs(workspace.FetchBlob('hidden_w')).sum()):.6f}")

# ---- the model in a file, as another program would load it ---------------------------------------------

path = os.path.join(FOLDER, "model.minidb")
described = predictor_exporter.PredictorExportMeta(
    predict_net=predict_net,
    parameters=model.params,
    inputs=["data"],
    outputs=[scores],
    shapes={"data": (1, 64), "scores": (1, 10)},
)
predictor_exporter.save_to_db("minidb", path, described)
workspace.ResetWorkspace()

net = predictor_exporter.prepare_prediction_net(path, "minidb")
workspace.FeedBlob("data", images[held_out])
workspace.RunNet(net)
found = workspace.FetchBlob("scores").argmax(1)
print(f"held out {(found == labels[held_out]).mean():.3f}")
