"""The command `netgrad`: one file per verb."""
