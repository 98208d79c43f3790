"""Saving models for prediction, and loading them."""
