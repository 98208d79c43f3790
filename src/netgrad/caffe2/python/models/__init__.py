"""Models that scripts build by one call, and models that were saved."""
