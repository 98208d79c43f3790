"""The rows of the gradient table, by family; each module has a list `CASES`."""
