"""Errors that scripts catch; what is raised here are netgrad's own, which say more."""

from __future__ import annotations

from netgrad.core import NetgradError, UnsupportedOperatorError

BaseException = NetgradError
Unsupported = UnsupportedOperatorError
