"""The text of the study `lockstep` in one token file, for a machine without the text or a network.

`python -m companion.studies.lockstep.text FILE [--tokens N] [--plan FILE]` writes it from the data
that SAOBP_DATA names.
"""

from pathlib import Path
from typing import Any

import click
from transformers import PreTrainedTokenizerBase

from companion.data import corpora, sources
from companion.data.corpora import Blocks
from companion.data.splits import Absent, DataError
from companion.data.tokenizers import make_tokenizer
from companion.studies import plan
from companion.studies.lockstep import design
from companion.studies.lockstep.design import Lockstep
from saobp.measure.command import OneLine, show


def content(planned: Lockstep) -> dict[str, Any]:
    """Return what tells the token file of this plan from another's."""
    return {
        "study": design.NAME,
        "tokenizer": planned.tokenizer,
        "corpus": planned.corpus,
        "length": planned.length,
        "held_out": planned.held_out,
    }


def write(planned: Lockstep, source: sources.Source, file: Path) -> Path:
    """Write the token file: the mixture's text, and sequences of each source's held-out text."""
    tokenizer = make_tokenizer(planned.tokenizer, source, planned.corpus, None)
    train = corpora.token_blocks(
        source, planned.corpus, tokenizer, planned.length, limit_tokens=planned.text_tokens
    )
    held_out = held_out_of(planned, source, tokenizer)
    about = content(planned) | {"source": source.name}
    return corpora.write_file(file, tokenizer, train, held_out, about)


def held_out_of(
    planned: Lockstep, source: sources.Source, tokenizer: PreTrainedTokenizerBase
) -> Blocks:
    """Return the held-out sequences, in equal parts of the sources that have held-out text.

    Raises DataError where none has.
    """
    parts: dict[str, Blocks] = {}
    for name in planned.corpus:
        try:
            parts[name] = corpora.token_blocks(
                source, {name: 1.0}, tokenizer, planned.length, split="validation"
            )
        except Absent:
            continue
    if not parts:
        raise DataError(f"{', '.join(planned.corpus)}: none has held-out text; add one that has")
    return corpora.gathered(parts, planned.held_out)


def read(planned: Lockstep, file: Path) -> tuple[PreTrainedTokenizerBase, Blocks, Blocks]:
    """Return the tokenizer, the text and the held-out sequences of a token file.

    Raises DataError, one line, if it is missing, damaged, or of another plan.
    """
    tokenizer, train, held_out, about = corpora.read_file(file)
    for name, value in content(planned).items():
        if about.get(name) != value:
            raise DataError(
                f"{file}: {name} {about.get(name)}, not {value}: write it for this plan, with "
                f"python -m companion.studies.lockstep.text {file.name}"
            )
    return tokenizer, train, held_out


@click.command(cls=OneLine, help="Write the text of the study to one file of tokens.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--tokens", type=click.IntRange(1), help="of the text; the plan's without it")
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), default=plan.file)
def main(file: Path, tokens: int | None, plan_file: Path) -> None:
    """Write the token file."""
    try:
        planned = plan.section(plan_file, design.NAME, Lockstep)
        if tokens:
            planned = planned.changed(text_tokens=tokens)
        # the mirror that SAOBP_DATA names
        write(planned, sources.resolve("hub"), file)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    show(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
