"""Programs for the maintainers of this project, which are not part of the wheel.

May import `indexer` and `service`; nothing imports them.
"""

from __future__ import annotations
