"""Stories in the fewest words, with statements whose number of hops is known: what the multi-hop study is about.

A sequence is [CLS] sentences [SEP]; a sentence is an entity and, for each hop, a relation and the entity it leads to:
"ellen own rope .", "ellen own rope at belmere .". Chains of facts through the same relations run side by side, so that
nothing but the facts tells a right end from a wrong one, and chance is 1 / chains. Every fact is said twice, in
either direction; what one statement hides, the other tells.
"""

from collections.abc import Collection
from functools import cache
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from saobp.study.profile import MultiHop
from saobp.study.synthetic import lexicon, world

MARKS = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
NAMES = {
    "person": [name for pair in zip(lexicon.FEMALE, lexicon.MALE) for name in pair],
    "object": lexicon.OBJECTS,
    "town": lexicon.TOWNS,
    "job": lexicon.JOBS,
    "mood": [*lexicon.MOODS_GOOD, *lexicon.MOODS_BAD],
}


@cache
def tokenizer(entities: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of one token a word, for stories about so many entities of a kind."""
    words = [*MARKS.values(), ".", *world.KINDS]
    words += [name.lower() for names in NAMES.values() for name in names[:entities]]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **MARKS)


def puzzle(random: Random, plan: MultiHop) -> world.Puzzle:
    """Draw parallel chains of the plan's relations, as long as its longest question; no kind comes twice in a chain."""
    steps = _steps(random, plan)
    kinds = [steps[0].source] + [step.target for step in steps]
    return world.Puzzle(steps, tuple(tuple(random.sample(NAMES[kind][: plan.entities], plan.chains)) for kind in kinds))


def _steps(random: Random, plan: MultiHop) -> tuple[world.Step, ...]:
    """Draw relations until they lead through kinds that are all different."""
    allowed = frozenset(name for name in world.WEIGHTS if name.rstrip("-") in plan.relations)
    while True:
        steps = world.draw_steps(random, plan.hops, allowed)
        if len({steps[0].source, *(step.target for step in steps)}) == plan.hops + 1:
            return steps


def path(story: world.Puzzle, chain: int, start: int, hops: int) -> list[str]:
    """Say the way along a chain from its entity behind `start` steps, `hops` steps far; 1 step is a fact."""
    words = [story.layers[start][chain]]
    for place in range(start, start + hops):
        words += [story.steps[place].relation, story.layers[place + 1][chain]]
    return [*words, "."]


def turned(sentence: list[str]) -> list[str]:
    """Say a fact from its other end: "ellen own rope ." becomes "rope own ellen ."; kinds tell who owns what."""
    first, relation, last, stop = sentence
    return [last, relation, first, stop]


class Stories(Dataset):
    """Training stories, as many as are asked for; the same seed and index give the same one.

    Of each fact said twice one saying hides a word, which the other tells; a longer statement hides its end, and each
    entity on the way in half of the cases. All chains of a story hide the same: which word is mentioned how often
    says nothing about which chain it is of, a short cut that a model finds long before it looks anything up.
    `{"input_ids", "labels"}` are lists of tokens; "token_type_ids" number the sentences, as BERT's segments do its
    two, and "position_ids" the words of each sentence, for the order of sentences says nothing.
    """

    def __init__(self, plan: MultiHop, seed: int, count: int):
        self.plan, self.seed, self.count, self.words = plan, seed, count, tokenizer(plan.entities)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        if not 0 <= index < self.count:
            raise IndexError(f"story {index} of {self.count}")
        random = Random(f"{self.seed}/stories/{index}")
        story, said = puzzle(random, self.plan), []
        for start in range(self.plan.hops):
            hidden = random.randrange(3)
            for chain in range(self.plan.chains):
                said += self._twice(random, path(story, chain, start, 1), hidden)
        for hops in range(2, self.plan.hops + 1):
            start = random.randrange(self.plan.hops - hops + 1)
            hidden_between = {place for place in between(hops) if random.random() < 0.5}
            said += [questioned(path(story, chain, start, hops), hidden_between) for chain in range(self.plan.chains)]
        random.shuffle(said)
        return encoded(self.words, said)

    def _twice(self, random: Random, fact: list[str], hidden: int) -> list[list[tuple[str, bool]]]:
        """Say a fact twice, each time from either end, the second time without its word at `hidden`."""
        first, second = (random.random() < 0.5 for _ in range(2))
        place = 2 - hidden if second else hidden
        sayings = [turned(fact) if first else fact, turned(fact) if second else fact]
        return [[(word, False) for word in sayings[0]], [(word, n == place) for n, word in enumerate(sayings[1])]]


def encoded(words: PreTrainedTokenizerFast, said: list[list[tuple[str, bool]]]) -> dict[str, list[int]]:
    """Turn sentences of (word, hidden) into tokens, labels, sentence numbers and places in the sentence."""
    lower = [[(word.lower(), hidden) for word, hidden in sentence] for sentence in said]
    marked = [[(words.cls_token, False)], *lower, [(words.sep_token, False)]]
    flat = [word for sentence in marked for word in sentence]
    tokens = words.convert_tokens_to_ids([word for word, _ in flat])
    return {
        "input_ids": [words.mask_token_id if hidden else token for token, (_, hidden) in zip(tokens, flat)],
        "labels": [token if hidden else -100 for token, (_, hidden) in zip(tokens, flat)],
        "token_type_ids": [number % (len(said) + 1) for number, sentence in enumerate(marked) for _ in sentence],
        "position_ids": [place for sentence in marked for place in range(len(sentence))],
    }


def between(hops: int) -> range:
    """Where the entities between the first and the last stand in a statement of so many hops."""
    return range(2, 2 * hops, 2)


def questioned(words: list[str], hidden: Collection[int]) -> list[tuple[str, bool]]:
    """Make a question of a statement: its end is hidden, and so are the words at the given places."""
    return [(word, place == len(words) - 2 or place in hidden) for place, word in enumerate(words)]


def exam(plan: MultiHop, seed: int) -> list[dict[str, Any]]:
    """Return `plan.items` stories that say each fact once and ask one question a chain and a number of hops.

    A question hides every entity but the first. Beside the tokens, `"asked"` lists for each question: which of the
    story's hidden words is its end, its hops, the tokens of all ends, the right one among them first.
    """
    return [_examination(plan, Random(f"{seed}/exam/{index}")) for index in range(plan.items)]


def _examination(plan: MultiHop, random: Random) -> dict[str, Any]:
    words, story = tokenizer(plan.entities), puzzle(random, plan)
    facts = [path(story, chain, start, 1) for start in range(plan.hops) for chain in range(plan.chains)]
    said = [([(word, False) for word in (turned(fact) if random.random() < 0.5 else fact)], None) for fact in facts]
    for hops in range(1, plan.hops + 1):
        start = random.randrange(plan.hops - hops + 1)
        for chain in range(plan.chains):
            ends = [story.layers[start + hops][(chain + shift) % plan.chains].lower() for shift in range(plan.chains)]
            asked = (hops, words.convert_tokens_to_ids(ends))
            said.append((questioned(path(story, chain, start, hops), between(hops)), asked))
    random.shuffle(said)
    asked, hidden = [], 0
    for sentence, question in said:
        hidden += sum(is_hidden for _, is_hidden in sentence)
        asked += [(hidden - 1, *question)] if question else []  # its end is the last word that it hides
    return encoded(words, [sentence for sentence, _ in said]) | {"asked": asked}


def told(plan: MultiHop, seed: int = 0) -> str:
    """Return one story of the exam as text, a sentence a line, each question with its answer."""
    words, item = tokenizer(plan.entities), exam(plan, seed)[0]
    hidden, lines = [label for label in item["labels"] if label != -100], []
    for number in range(1, max(item["token_type_ids"]) + 1):
        tokens = [token for token, of in zip(item["input_ids"], item["token_type_ids"]) if of == number]
        answers = [hidden.pop(0) for token in tokens if token == words.mask_token_id]
        said = " ".join(words.convert_ids_to_tokens(tokens))
        lines.append(said + (f"   -> {' '.join(words.convert_ids_to_tokens(answers))}" if answers else ""))
    return "\n".join(lines)


def padded(items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Stack stories to a batch, the shorter ones padded."""
    length = max(len(item["input_ids"]) for item in items)
    fill = {"input_ids": 0, "labels": -100, "token_type_ids": 0, "position_ids": 0}
    batch = {
        name: torch.tensor([item[name] + [value] * (length - len(item[name])) for item in items])
        for name, value in fill.items()
    }
    real = torch.tensor([[1] * len(item["input_ids"]) + [0] * (length - len(item["input_ids"])) for item in items])
    return batch | {"attention_mask": real}
