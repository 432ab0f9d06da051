"""Stories in the fewest words, with questions whose number of hops is known: what the multi-hop
study is about.

A story is a row of sentences in no order, and a sentence a set of words: a fact is two entities and
their relation, "ellen own rope"; a question an entity, the relations to follow and a mask for what
they lead to, "ellen own at [MASK]". Chains of the same relations run side by side: nothing but the
facts tells the end, and chance is 1 / chains.
"""

from functools import cache
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

from companion.data.tokenizers import SPECIAL
from companion.setup.recipes import MultiHop
from companion.storyworld import lexicon, world

MASK = SPECIAL["mask_token"]
NAMES: dict[str, list[str]] = {"person": []}
for female, male in zip(lexicon.WORDS["female"], lexicon.WORDS["male"]):
    NAMES["person"] += [female, male]
for kind in ("object", "town", "job", "mood"):
    NAMES[kind] = lexicon.WORDS[kind]


@cache
def tokenizer(entities: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of one token a word, for stories about so many entities of a kind."""
    words = [*SPECIAL.values(), *world.RELATIONS]
    words += [name.lower() for names in NAMES.values() for name in names[:entities]]
    numbers = {word: index for index, word in enumerate(words)}
    backend = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def puzzle(random: Random, plan: MultiHop) -> world.Puzzle:
    """Draw parallel chains of the plan's relations, as long as its longest question; no kind comes
    twice in a chain.
    """
    allowed = frozenset(name for name in world.WEIGHTS if name.rstrip("-") in plan.relations)
    kinds: list[str] = []
    while len(set(kinds)) < plan.hops + 1:
        steps = world.draw_steps(random, plan.hops, allowed)
        kinds = [steps[0].source, *(step.target for step in steps)]
    layers = []
    for kind in kinds:
        names = [name.lower() for name in NAMES[kind][: plan.entities]]
        layers.append(tuple(random.sample(names, plan.chains)))
    return world.Puzzle(steps, tuple(layers))


class Stories(Dataset):
    """Stories with their questions, as many as are asked for; the same seed and index give the same
    one.

    Each says every fact once and asks, for each number of hops, one question a chain, all from one
    place. "input_ids" (sentence, word), "labels" (sentence; of a question its end, else -100),
    "token_type_ids" (sentence; 1 a question), "words" of each sentence, "asked": each question's
    hops and the tokens of all ends, the right one first.
    """

    def __init__(self, plan: MultiHop, seed: int | str, count: int):
        self.plan, self.seed, self.count = plan, seed, count
        self.tokens = tokenizer(plan.entities).get_vocab()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, list]:
        if not 0 <= index < self.count:
            raise IndexError(f"story {index} of {self.count}")
        longest, pad = self.plan.hops + 2, self.tokens[SPECIAL["pad_token"]]
        sentences = self._sentences(Random(f"{self.seed}/stories/{index}"))
        tokens = [[self.tokens[word] for word in words] for words, _ in sentences]
        return {
            "input_ids": [row + [pad] * (longest - len(row)) for row in tokens],
            "labels": [question[1][0] if question else -100 for _, question in sentences],
            "token_type_ids": [int(question is not None) for _, question in sentences],
            "asked": [question for _, question in sentences if question],
            "words": [words for words, _ in sentences],
        }

    def _sentences(self, random: Random) -> list[tuple[list[str], tuple[int, list[int]] | None]]:
        """Draw a story: the words of each sentence, with what "asked" has of it, None for a
        fact.
        """
        plan, story = self.plan, puzzle(random, self.plan)
        layers, chains = story.layers, range(plan.chains)
        relations = [step.relation for step in story.steps]
        sentences = []
        for n, relation in enumerate(relations):
            for chain in chains:
                sentences.append(([layers[n][chain], relation, layers[n + 1][chain]], None))
        for hops in range(1, plan.hops + 1):
            start = random.randrange(plan.hops - hops + 1)
            ends = [self.tokens[name] for name in layers[start + hops]]
            for chain in chains:
                question = [layers[start][chain], *relations[start : start + hops], MASK]
                sentences.append((question, (hops, ends[chain:] + ends[:chain])))
        random.shuffle(sentences)
        return sentences


def exam(plan: MultiHop) -> list[dict[str, Any]]:
    """Return the `plan.items` stories that every model of a plan is asked; no training run has
    their seed.
    """
    stories = Stories(plan, plan.exam, plan.items)
    return [stories[index] for index in range(plan.items)]


def paths(plan: MultiHop | None) -> dict[int, list[str]]:
    """Return hops -> the path of relations that each story of the plan's exam asks about, "own at"
    say.
    """
    # a study may set no exam
    items = exam(plan) if plan else ()
    paths_of: dict[int, list[str]] = {}
    for item in items:
        # all questions of so many hops ask for the same relations
        relations = {len(words) - 2: words[1:-1] for words in item["words"] if words[-1] == MASK}
        for hops, path in relations.items():
            paths_of.setdefault(hops, []).append(" ".join(path))
    return dict(sorted(paths_of.items()))


def as_text(plan: MultiHop) -> str:
    """Return the first story of the exam as text, one sentence per line, each question with its
    answer.
    """
    story, vocabulary = exam(plan)[0], tokenizer(plan.entities)
    lines = []
    for words, label in zip(story["words"], story["labels"]):
        line = " ".join(words)
        if label != -100:
            line += f"   -> {vocabulary.convert_ids_to_tokens(label)}"
        lines.append(line)
    return "\n".join(lines)


def stacked(items: list[dict[str, list]]) -> dict[str, torch.Tensor]:
    """Stack stories of one plan to a batch."""
    return {
        name: torch.tensor([item[name] for item in items])
        for name in ("input_ids", "labels", "token_type_ids")
    }
