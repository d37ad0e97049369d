"""Bodies of requests: their media types, and how each is written."""

from __future__ import annotations

JSON = "application/json"
MULTIPART = "multipart/form-data"
FORM = "application/x-www-form-urlencoded"
TEXT = "text/plain"
BYTES = "application/octet-stream"
