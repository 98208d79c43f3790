"""Helpers of test programs for recurrent nets."""
