"""Programs for the maintainers of this project, which are not part of the wheel."""

from __future__ import annotations
