"""Screenshots for the README: the sample catalogue, light and dark."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from indexer.__main__ import main
from tests.support.clients.browser import open_browser
from tests.support.running import ROOT, SEEDS, serve

SIZE = {"width": 1000, "height": 700}
NOW = "2026-05-30T18:45:00Z"
PICTURES = (("light", "/?q=weather"), ("dark", "/ecosystem"))


def take(folder: Path) -> None:
    """Write `page-light.webp` and `page-dark.webp` into a folder."""
    with tempfile.TemporaryDirectory() as artifacts:
        payments = ["--transactions", str(SEEDS / "transactions.jsonl")]
        main(["build", str(SEEDS / "services.jsonl"), *payments, "--out", artifacts])
        with serve(Path(artifacts)) as client, open_browser() as browser:
            for scheme, path in PICTURES:
                page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]  # mypy infers str, not a Literal
                page.clock.set_fixed_time(NOW)  # ages in the pictures must not change
                page.goto(f"{client.base_url}{path}", wait_until="networkidle")
                # WebP, which Playwright does not offer itself, has half the size of PNG.
                shot = page.context.new_cdp_session(page).send(
                    "Page.captureScreenshot", {"format": "webp", "quality": 80}
                )
                (folder / f"page-{scheme}.webp").write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    take(ROOT / "docs")
