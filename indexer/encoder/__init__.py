"""Encoders: the one that the package carries, how it is trained, and how others are fitted."""

from __future__ import annotations
