"""Take README's picture of the attention explorer, on MiniLM, in Chromium: `python
tools/screenshot.py`.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import PIL.Image

from companion.setup import paths
from companion.setup.sizes_and_strengths import strength_of
from saobp.measure.inspection import explorer
from saobp.measure.prose import prose
from saobp.models import public

PICTURE = paths.root() / "texts" / "explorer.png"
WIDTH, HEIGHT = 1000, 790
HEAD = '<!doctype html><meta charset="utf-8"><style>body { font: 16px sans-serif; margin: 12px 16px; }</style>'
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    f"--window-size={WIDTH},{HEIGHT}",
)


def take() -> bytes:
    """Return the explorer as it opens, a PNG in the page's own colours."""
    strength = strength_of("minilm")
    shown = explorer.collect(*public.load("minilm"), prose(), strength=strength, tokens=32)
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "page.html", Path(folder) / "shot.png"
        page.write_text(HEAD + explorer.fragment(shown), encoding="utf-8")
        options = [*OPTIONS, f"--user-data-dir={folder}/browser", f"--screenshot={shot}"]
        subprocess.run(
            [BROWSER, *options, page.as_uri()], check=True, capture_output=True, timeout=120
        )
        stream = io.BytesIO()
        with PIL.Image.open(shot) as picture:
            picture.convert("RGB").save(stream, "PNG", optimize=True)
    return stream.getvalue()


if __name__ == "__main__":
    if BROWSER is None:
        sys.exit("no Chromium here: apt-get install chromium")
    with paths.new_file(PICTURE) as temporary:
        temporary.write_bytes(take())
    print(PICTURE)
