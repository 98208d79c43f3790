"""Commands that convert."""
