"""Encoding documents to vectors in integers, by the static encoder that the package carries."""

from __future__ import annotations
