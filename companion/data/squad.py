"""SQuAD v1.1: windows over long contexts, the best span, and the owners' exact match and F1.

Source: Rajpurkar et al. 2016 and its evaluation script, version 1.1; windows as in Devlin et al.
    2019.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import datasets
import numpy as np

SCORING_COLUMNS = ("item", "offsets")
# Devlin et al.'s maximum; a longer question loses its end
QUESTION_TOKENS = 64
# the longest span that may be predicted
ANSWER_TOKENS = 30
# starts and ends that are paired in a window
CANDIDATES = 20
# the offset of a token outside the context
NOWHERE = (-1, -1)


def windows(
    batch: Mapping[str, list], indices: Sequence[int], spec: Any, tokenizer: Any, length: int
) -> dict[str, list]:
    """Cut every context into overlapping windows behind its question, which loses its end where it
    is long.

    A window that does not hold the first gold answer whole is unanswerable: both positions are 0,
    [CLS].
    Raises ValueError if `length` leaves no room for a context.
    """
    questions, texts = [text.strip() for text in batch[spec.texts[0]]], list(batch[spec.texts[1]])
    most, overlap = min(QUESTION_TOKENS, length // 2), min(128, length // 3)
    tokens = tokenizer(questions, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    questions = [
        text if len(spans) <= most else text[: spans[most - 1][1]]
        for text, spans in zip(questions, tokens)
    ]
    room = (
        length - min(most, max(map(len, tokens))) - tokenizer.num_special_tokens_to_add(pair=True)
    )
    if overlap >= room:
        raise ValueError(
            f"length={length} leaves {room} tokens for a context, of which {overlap} overlap: give more"
        )
    options = {"return_overflowing_tokens": True, "return_offsets_mapping": True}
    encoded = tokenizer(
        questions, texts, truncation="only_second", max_length=length, stride=overlap, **options
    )
    items = encoded.pop("overflow_to_sample_mapping")
    offsets = [
        [span if part == 1 else NOWHERE for span, part in zip(spans, encoded.sequence_ids(window))]
        for window, spans in enumerate(encoded.pop("offset_mapping"))
    ]
    places = [located(text, gold) or NOWHERE for text, gold in zip(texts, batch[spec.gold])]
    # the tokens that have any of the answer
    answers = [set() for _ in texts]
    for spans, item in zip(offsets, items):
        begin, end = places[item]
        answers[item] |= {span for span in spans if span[0] < end and span[1] > begin}
    # [CLS], unless a window has the whole answer
    covered = [[0] for _ in items]
    for window, (spans, item) in enumerate(zip(offsets, items)):
        if answers[item] and answers[item] <= set(spans):
            covered[window] = [token for token, span in enumerate(spans) if span in answers[item]]
    positions = {
        "start_positions": [at[0] for at in covered],
        "end_positions": [at[-1] for at in covered],
    }
    return {**encoded, **positions, "item": [indices[item] for item in items], "offsets": offsets}


def located(context: str, gold: Mapping[str, list]) -> tuple[int, int] | None:
    """Return begin and end of a first gold answer in its context, or None if it does not lie where
    it says.
    """
    text, start = gold["text"][0], gold["answer_start"][0]
    return (start, start + len(text)) if start >= 0 and context.startswith(text, start) else None


def best_answers(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    features: datasets.Dataset,
    rows: datasets.Dataset,
) -> list[str]:
    """Return the text of the best span over all windows of each item.

    The score of a span is its start logit plus its end logit; it lies in the context, ends no
    earlier than it starts and has at most 30 tokens. Every question of version 1.1 has an answer,
    so none is never chosen.
    """
    best, contexts = [(-np.inf, "")] * len(rows), rows["context"][:]
    for window, (item, offsets) in enumerate(zip(features["item"][:], features["offsets"][:])):
        span = best_span(start_logits[window], end_logits[window], np.asarray(offsets))
        if span is not None and span[0] > best[item][0]:
            score, first, last = span
            best[item] = score, contexts[item][offsets[first][0] : offsets[last][1]]
    return [text for _, text in best]


def best_span(
    start_logits: np.ndarray, end_logits: np.ndarray, offsets: np.ndarray
) -> tuple[float, int, int] | None:
    """Return the score, first and last token of a window's best span, or None without a context
    token.
    """
    # also drops the padding behind the window
    inside = np.flatnonzero(offsets[:, 0] >= 0)
    if not len(inside):
        return None
    starts = inside[np.argsort(-start_logits[inside], kind="stable")[:CANDIDATES]]
    ends = inside[np.argsort(-end_logits[inside], kind="stable")[:CANDIDATES]]
    length = ends[None, :] - starts[:, None] + 1
    scores = start_logits[starts][:, None] + end_logits[ends][None, :]
    scores = np.where((length >= 1) & (length <= ANSWER_TOKENS), scores, -np.inf)
    row, column = np.unravel_index(np.argmax(scores), scores.shape)
    # the likely starts all lie behind the likely ends: one token then
    if np.isinf(scores[row, column]):
        token = inside[np.argmax(start_logits[inside] + end_logits[inside])]
        return float(start_logits[token] + end_logits[token]), int(token), int(token)
    return float(scores[row, column]), int(starts[row]), int(ends[column])


def normalize_answer(text: str) -> str:
    """Lower the case, drop punctuation and the articles a, an, the, and squeeze the blanks."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def exact_match_and_f1(prediction: str, golds: Sequence[str]) -> tuple[int, float]:
    """Return 1 if the prediction is one of the gold answers, normalised, else 0, and F1 with the
    nearest (0 to 1).

    F1 is of shared words; no word shared is 0.
    """
    answer, answers = normalize_answer(prediction), [normalize_answer(gold) for gold in golds]
    words, best = Counter(answer.split()), 0.0
    for gold in (Counter(text.split()) for text in answers):
        if shared := (words & gold).total():
            best = max(best, 2 * shared / (words.total() + gold.total()))
    return int(answer in answers), best
