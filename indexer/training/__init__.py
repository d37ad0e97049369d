"""Training the encoder that the package carries."""

from __future__ import annotations
