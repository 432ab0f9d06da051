"""From a benchmark's rows to the batches its head takes: encoding, truncation, padding."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
from transformers import (
    DataCollatorForMultipleChoice,
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
)

from companion.data import squad
from companion.setup.tasks_and_metrics import TaskSpec

# RACE's cloze questions leave a blank for the option
BLANK = "_"


def encode(
    spec: TaskSpec, rows: datasets.Dataset, tokenizer: PreTrainedTokenizerBase, length: int
) -> datasets.Dataset:
    """Return features of at most `length` tokens, unpadded, with `labels` (a span: start and end
    positions).

    One text or a pair loses tokens from its longer text. A choice is a list of options, each with
    the article cut to make room: question and option stay whole. A context without a question loses
    its start, as much for each option, for its end is what an option goes on from. A span gives one
    or more windows an item, which overlap by a third of the length, 128 tokens at most, and keep
    `item` and `offsets`.
    Raises ValueError if `length` cannot hold a question with its option.
    """
    return rows.map(
        {"choice": _choices, "span": squad.windows}.get(spec.kind, _texts),
        batched=True,
        with_indices=spec.kind == "span",
        fn_kwargs={"spec": spec, "tokenizer": tokenizer, "length": length},
        remove_columns=rows.column_names,
        keep_in_memory=True,
        load_from_cache_file=False,
        desc=f"encode {spec.name}",
    )


def collator(
    spec: TaskSpec, tokenizer: PreTrainedTokenizerBase
) -> Callable[[Sequence[Mapping]], dict[str, Any]]:
    """Return what pads features, without those that only scoring needs; choices become (batch,
    option, token).
    """
    pad = (
        DataCollatorForMultipleChoice(tokenizer)
        if spec.kind == "choice"
        else DataCollatorWithPadding(tokenizer)
    )

    def batch(features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        kept = [
            {name: f[name] for name in f if name not in squad.SCORING_COLUMNS} for f in features
        ]
        return dict(pad(kept))

    return batch


def option_texts(spec: TaskSpec, row: Mapping[str, Any]) -> list[str]:
    """Return each option with its question: in the question's blank if it has one, else behind
    it.
    """
    _, question, options = spec.texts
    if not question:
        return list(row[options])
    text = row[question]
    return [text.replace(BLANK, o, 1) if BLANK in text else f"{text} {o}" for o in row[options]]


def _texts(
    batch: Mapping[str, list], spec: TaskSpec, tokenizer: PreTrainedTokenizerBase, length: int
) -> dict[str, list]:
    texts = [list(batch[column]) for column in spec.texts]
    return {**tokenizer(*texts, truncation=True, max_length=length), "labels": batch["label"]}


def _choices(
    batch: Mapping[str, list], spec: TaskSpec, tokenizer: PreTrainedTokenizerBase, length: int
) -> dict[str, list]:
    rows = [dict(zip(batch, values)) for values in zip(*batch.values())]
    texts = [text for row in rows for text in option_texts(spec, row)]
    # as many options in every row
    needed, count = tokens_needed(texts, tokenizer), len(texts) // len(rows)
    items = [slice(start, start + count) for start in range(0, len(texts), count)]
    if (most := max(needed)) > length:
        whole = f"question and option whole ({texts[needed.index(most)][:60]!r}, {spec.name})"
        raise ValueError(f"length={length} cannot hold {whole}: give at least {most}")
    articles = batch[spec.texts[0]]
    if not spec.texts[1]:
        articles = _ends(articles, [length + 1 - max(needed[item]) for item in items], tokenizer)
    firsts = [article for article in articles for _ in range(count)]
    encoded = tokenizer(firsts, texts, truncation="only_first", max_length=length)
    nested = {name: [values[item] for item in items] for name, values in encoded.items()}
    return {**nested, "labels": batch["label"]}


def _ends(texts: list[str], rooms: list[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Cut each text from its start, between two words, until it has as many tokens as there is room
    for.
    """
    encoded, ends = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True), []
    for number, (text, room) in enumerate(zip(texts, rooms)):
        words, places = encoded.word_ids(number), encoded["offset_mapping"][number]
        start = max(0, len(words) - room)
        while 0 < start < len(words) and words[start] == words[start - 1]:
            start += 1
        ends.append(text[places[start][0] :] if start < len(words) else "")
    return ends


def tokens_needed(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Count what each question with its option takes beside special tokens and one token of the
    article.
    """
    more = tokenizer.num_special_tokens_to_add(pair=True) + 1
    return [len(ids) + more for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
