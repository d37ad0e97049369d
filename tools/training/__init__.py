"""Training the encoder that the package carries; needs the extra `training`.

`texts` reads pairs of texts, `transformer` embeds them, `ridge` and `training` find the vectors of
word pieces, and `saving` writes them.
"""

from __future__ import annotations
