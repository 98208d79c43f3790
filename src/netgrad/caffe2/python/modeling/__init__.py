"""Parameters of models: their initializers, their tags, and how scopes share them."""
