"""Training: losses, optimizers, the training step, the loop around it, checkpoints, data, reports."""
