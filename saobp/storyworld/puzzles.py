"""A story with a question that takes a given number of facts, within a given length."""

# ruff: noqa: SIM905  a list of words reads better as text

from dataclasses import dataclass
from random import Random

from saobp.storyworld import language, narrative, world
from saobp.storyworld.world import Puzzle

TOKENS = 104  # of story, question and answer, estimated; with special tokens they fit into 128


@dataclass(frozen=True)
class Told:
    """A puzzle, its story, and the chain that is asked for."""

    puzzle: Puzzle
    story: str
    chain: int

    @property
    def start(self) -> str:
        """The entity that the question starts from."""
        return self.puzzle.layers[0][self.chain]

    @property
    def answer(self) -> str:
        """The entity at the end of the chain."""
        return self.puzzle.layers[-1][self.chain]

    @property
    def ends(self) -> tuple[str, ...]:
        """The entities of the last layer, of one kind and mentioned equally often."""
        return self.puzzle.layers[-1]

    def other_end(self, random: Random) -> str:
        """Draw the end of another chain."""
        return random.choice([end for end in self.ends if end != self.answer])


def tell(
    random: Random,
    hops: int,
    chains: int | tuple[int, ...],
    *,
    last=None,
    allowed=None,
    one_gender: bool = False,
    broken: bool | None = None,
) -> Told:
    """Draw a story of parallel chains, and the chain to ask for.

    `broken` None: all chains join. True or False: one chain of the story does not join, and it is the one to
    ask for, or is not; the two stories look alike.
    """
    count = chains if isinstance(chains, int) else random.choice(chains)
    while True:
        steps = world.draw_steps(random, hops, allowed, last=last, cost=(TOKENS - 10 - 3 * hops) // count)
        strangers = broken is not None
        puzzle, spare = world.draw_puzzle(random, steps, count, strangers=strangers, one_gender=one_gender)
        chain = random.randrange(count)
        if broken is not None:
            other = random.choice([c for c in range(count) if c != chain])
            puzzle = world.break_chain(puzzle, chain if broken else other, spare[0] if hops > 1 else "")
        sentences = language.story_sentences(random, puzzle, terse=count * hops >= 12)
        asked = language.question(random, steps, puzzle.layers[0][chain])
        room = TOKENS - language.length(" ".join(sentences)) - language.length(asked) - 2
        if room >= 0:
            return Told(puzzle, " ".join(_with_filler(random, sentences, room)), chain)


def _with_filler(random: Random, sentences: list[str], room: int) -> list[str]:
    """Put a sentence that says nothing of the facts among them, where there is room."""
    filler = narrative.scene(random, narrative.FILLERS)
    words = set(" ".join(sentences).lower().replace(".", "").split()) - _COMMON
    clash = words & set(filler.lower().replace(".", "").split())
    if clash or language.length(filler) + 12 > room or random.random() < 0.5:
        return sentences
    at = random.randrange(len(sentences) + 1)
    return [*sentences[:at], filler, *sentences[at:]]


_COMMON = frozenset("the a an is was of in by near under it".split())
