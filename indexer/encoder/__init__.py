"""Encoders of documents: the one that the package carries, and those fitted to a catalogue."""

from __future__ import annotations
