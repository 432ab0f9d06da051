"""The command `saobp inspect`: a model by its name, a text or pictures by their place, a folder
with what was found.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saobp.equations.factors import WITHOUT_MESSAGES
from saobp.measure.inspection.maps import positions

if TYPE_CHECKING:
    from saobp.models.models_by_name import Opened

PARAGRAPH = 256
"""Tokens of the longest text that is one paragraph; longer ones are joined."""

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def run(
    name: str,
    *,
    text: Path | None = None,
    images: Path | None = None,
    factor: str = "high",
    strengths: Sequence[float] | None = None,
    samples: int | None = None,
    tokens: int = 128,
    spare: str | float | None = None,
    measures: Sequence[str] | None = None,
    out: Path | None = None,
) -> str:
    """Inspect a model, write the page, the CSV and the JSON, and return the table and where they
    are.

    Whatever can be refused is refused before anything is computed. Raises ValueError or
    PermissionError in one line.
    """
    import pandas  # noqa: F401  the page's tables need it: better missed now than after the model has run

    from saobp.measure import inspect
    from saobp.measure.inspection import explorer

    samples = inspect.number_of_texts(tokens) if samples is None else samples
    inspect.check(factor, strengths, samples, tokens, spare, measures)
    items, source = _source(text, images, samples)
    if not items:
        raise ValueError(f"{images or text}: holds no {'pictures' if images else 'text'}")
    folder = out or Path(f"inspect-{Path(name).name}")
    explorer.refuse_unwritable(folder)
    started, opened = time.perf_counter(), _opened(name, bool(images))
    if not images and tokens > PARAGRAPH:
        longest = min(tokens, positions(opened.model))
        items, source = joined(items, opened.tokenizer, longest), f"texts of joined {source}"
    inspection = inspect.inspect(
        opened.model,
        opened.tokenizer,
        items,
        factor=factor,
        strengths=strengths,
        samples=samples,
        tokens=tokens,
        spare=spare,
        measures=measures,
        curve=True,
        progress=True,
    )
    inspection.name = opened.name
    seconds = time.perf_counter() - started
    inspection.facts |= {"source": source, "note": opened.note, "seconds": seconds}
    files = inspection.save(folder)
    rows = explorer.layer_rows(inspection)
    strength = "" if factor in WITHOUT_MESSAGES else f", λ = {inspection.strengths[0]:g}"
    spared = "" if spare is None else f", spare = {spare}"
    return f"{explorer.terminal(rows)}\n\n{factor}{strength}{spared}; {files[0]}"


def joined(blocks: Sequence[str], tokenizer: Any, tokens: int) -> list[str]:
    """Join paragraphs into texts of at least so many tokens; the last may be shorter."""
    texts, parts, count = [], [], 0
    for block in blocks:
        parts.append(block)
        count += len(tokenizer(block)["input_ids"])
        if count >= tokens:
            texts.append("\n\n".join(parts))
            parts, count = [], 0
    return [*texts, "\n\n".join(parts)] if parts else texts


def _opened(name: str, pictures: bool) -> Opened:
    """Open a model without the loaders' reports. Raises ValueError for one that reads pictures
    where text is given.
    """
    import huggingface_hub.utils.logging
    from transformers.utils import logging

    from saobp.models.models_by_name import open_model

    # a report of weights that are not used, such as a classifier's
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # a line per retry where there is no network
    huggingface_hub.utils.logging.set_verbosity_error()
    opened = open_model(name)
    sees = getattr(opened.model, "main_input_name", "") == "pixel_values"
    if sees != pictures:
        inputs, option = ("pictures", "--images FOLDER") if sees else ("text", "--text FILE")
        raise ValueError(f"{name}: reads {inputs}; give it some with {option}")
    return opened


def _source(text: Path | None, images: Path | None, samples: int) -> tuple[list[Any], str]:
    """Return all paragraphs of a text file or the first pictures of a folder, and what they are
    called.
    """
    if images is not None:
        if text is not None:
            raise ValueError(
                f"{images}: give text or pictures, not both: leave out --images or --text"
            )
        if not images.is_dir():
            raise ValueError(f"{images}: no such folder of pictures")
        files = [file for file in sorted(images.iterdir()) if file.suffix.lower() in PICTURES]
        return [_picture(file) for file in files[:samples]], f"pictures of {images.name}"
    if text is not None:
        try:
            lines = [line.strip() for line in text.read_text(encoding="utf-8").splitlines()]
        except OSError as error:
            raise ValueError(f"{text}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ValueError(f"{text}: is not text in UTF-8") from None
        blocks = [" ".join(block) for filled, block in itertools.groupby(lines, bool) if filled]
        return blocks, f"paragraphs of {text.name}"
    from saobp.measure.prose import prose

    return prose(), "paragraphs of the embedded prose"


def _picture(file: Path) -> Any:
    """Return a picture. Raises ValueError for one that is not whole, or too large to be held."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as picture:
                return picture.convert("RGB")
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        most = Image.MAX_IMAGE_PIXELS // 10**6
        raise ValueError(f"{file}: has over {most} million pixels; make it smaller") from None
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{file}: is no whole picture ({error})") from None
