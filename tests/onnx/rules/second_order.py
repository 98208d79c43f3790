"""Operators whose second derivatives are not compared with differences, each with its reason: none, so far.

The operator reference shows them; a test holds the list against the rows of the table.
"""

from __future__ import annotations

UNMEASURED: dict[str, str] = {}
