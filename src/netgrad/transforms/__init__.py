"""Net to net: the gradient, its check, and the inspection of what stands behind it."""
