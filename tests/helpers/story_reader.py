"""A reader of the story world's English that knows nothing of how it is made: facts first, then
answers.

It reads sentences by patterns, keeps (relation, subject, object) triples, and evaluates a
description in every way that its words allow. Each value comes with the set of facts that it took;
the smallest set counts the hops.
"""

import re

NAME, WORD = r"([A-Z]\w+)", r"(\w+)"
SENTENCES = [
    (rf"{NAME} owns the {WORD}", ("own", 1, 2)),
    (rf"The {WORD} belongs to {NAME}", ("own", 2, 1)),
    (rf"{NAME} is the owner of the {WORD}", ("own", 1, 2)),
    (rf"{NAME} lives in {NAME}", ("live", 1, 2)),
    (rf"{NAME}'s home is in {NAME}", ("live", 1, 2)),
    (rf"{NAME} is the home town of {NAME}", ("live", 2, 1)),
    (rf"The {WORD} (?:is|is kept|can be found) in {NAME}", ("at", 1, 2)),
    (rf"{NAME}'s {WORD} is {NAME}", (2, 1, 3)),
    (rf"{NAME} is {NAME}'s {WORD}", (3, 2, 1)),
    (rf"{NAME} is the {WORD} of {NAME}", (2, 3, 1)),
    (rf"{NAME} is {WORD} by {NAME}", (2, 3, 1)),
    (rf"{NAME} (?:is|works as) an? {WORD}", ("job", 1, 2)),
    (rf"{NAME} (?:is|feels) ([a-z]+)", ("mood", 1, 2)),
    (rf"{NAME} ([a-z]+s) {NAME}", (2, 1, 3)),
]
# descriptions of which there is one by their meaning: one home, place, job and owner, and "the
# brother"
SINGLE = re.compile(
    r"the (home town|town that holds|job|owner|person who owns|\w+ of)|.*'s \w+$|the \w+$"
)
# verbs that state nothing of what questions ask for
UNRELATED = {"know", "want"}

# description -> relation (or the group that names it), group of the inner description, read
# backwards?
DESCRIPTIONS = [
    (r"(.+)'s (\w+)", 2, 1, False),
    (r"the person whose home is in (.+)", "live", 1, True),
    (r"the person whose (\w+) is (.+)", 1, 2, True),
    (r"the person (\w+) by (.+)", 1, 2, False),
    (r"the person who lives in (.+)", "live", 1, True),
    (r"the (?:person who owns|owner of) (.+)", "own", 1, True),
    (r"the person who feels (.+)", "mood", 1, True),
    (r"the person who (\w+) (.+)", 1, 2, True),
    (r"the thing (?:owned by|that belongs to) (.+)", "own", 1, False),
    (r"the thing (?:kept )?in (.+)", "at", 1, True),
    (r"the home town of (.+)", "live", 1, False),
    (r"the town that holds (.+)", "at", 1, False),
    (r"the (\w+) of (.+)", 1, 2, False),
]

QUESTIONS = [
    (r"Whose (\w+) is (.+)\?", r"the person whose \1 is \2"),
    (r"Who is (\w+ed) by (.+)\?", r"the person \1 by \2"),
    (r"Who is (.+)\?", r"\1"),
    (r"Whom does (.+) (\w+)\?", r"the person \2 by \1"),
    (r"By whom is (.+) (\w+)\?", r"the person who \2 \1"),
    (r"To whom does (.+) belong\?", r"the owner of \1"),
    (r"Who (?!is )(\w+s) (.+)\?", r"the person who \1 \2"),
    (r"What does (.+) own\?", r"the thing owned by \1"),
    (r"Which thing belongs to (.+)\?", r"the thing owned by \1"),
    (r"Which thing is in (.+)\?", r"the thing in \1"),
    (r"(?:Where|In which town) does (.+) live\?", r"the home town of \1"),
    (r"(?:Where|In which town) is (.+)\?", r"the town that holds \1"),
    (r"What does (.+) work as\?", r"the job of \1"),
    (r"How does (.+) feel\?", r"the mood of \1"),
    (r"What is (.+)\?", r"\1"),
]

# statement -> the description that it makes a claim of, and the claim
CLAIMS = [
    (r"(.+?) is (.+)", r"\2", r"\1"),
    (r"(.+) is (\w+)'s (\w+)", r"the person whose \3 is \1", r"\2"),
    (r"(.+) is (\w+ed) by (\w+)", r"the person who \2 \1", r"\3"),
    (r"(\w+) is (\w+ed) by (.+)", r"the person \2 by \3", r"\1"),
    (r"(.+) (?:is|can be found) in (\w+)", r"the town that holds \1", r"\2"),
    (r"(.+) is in (.+)", r"the thing in \2", r"\1"),
    (r"the home of (.+) is in (\w+)", r"the home town of \1", r"\2"),
    (r"(.+) lives in (\w+)", r"the home town of \1", r"\2"),
    (r"(.+) owns (the \w+)", r"the thing owned by \1", r"\2"),
    (r"(the \w+) belongs to (.+)", r"the thing owned by \2", r"\1"),
    (r"(.+) belongs to (\w+)", r"the owner of \1", r"\2"),
    (r"(.+) (?:is|works as) an? (\w+)", r"the job of \1", r"\2"),
    (r"(.+) (?:is|feels) (\w+)", r"the mood of \1", r"\2"),
    (r"(.+) ([a-z]+s) (\w+)", r"the person \2 by \1", r"\3"),
    (r"(\w+) ([a-z]+s) (.+)", r"the person who \2 \3", r"\1"),
]

YES_NO = [
    (r"does (.+) live in (.+)", r"\1 lives in \2"),
    (r"does (.+) own (.+)", r"\1 owns \2"),
    (r"does (.+) belong to (.+)", r"\1 belongs to \2"),
    (r"does (.+) work as (.+)", r"\1 works as \2"),
    (r"does (.+) ([a-z]+) (\w+)", r"\1 \2s \3"),
    (r"does (\w+) ([a-z]+) (.+)", r"\1 \2s \3"),
    (r"can (.+) be found in (\w+)", r"\1 is in \2"),
]


def stem(word):
    """Return what a verb's forms have in common: trusts, trusted and trust are one."""
    word = re.sub("(ies|ied)$", "y", word)
    return re.sub("(eed|es|ed|s|e)$", "", word).rstrip("s")


def facts(text):
    """Return the facts that a text states, as (relation, subject, object)."""
    found = set()
    for sentence in text.rstrip(".").split(". "):
        for pattern, (relation, subject, other) in SENTENCES:
            if match := re.fullmatch(pattern, sentence):
                named = stem(match[relation]) if isinstance(relation, int) else relation
                found.add((named, match[subject], match[other]))
                break
    return {fact for fact in found if fact[0] not in UNRELATED}


def fewest(readings):
    """Return {value: hops} of pairs, by the reading of a value that takes the fewest."""
    found = {}
    for value, hops in readings:
        found[value] = min(hops, found.get(value, 99))
    return found


def values(description, known):
    """Return what a description means in every reading: {value: size of the smallest set of
    facts}.
    """
    return fewest((value, len(used)) for value, used in _readings(description, known))


def _readings(description, known):
    """Yield (value, facts used) for each way of reading a description."""
    leaf = description.removeprefix("the ")
    holders = {fact for fact in known if fact == ("job", fact[1], leaf) and leaf != description}
    yield from ((fact[1], frozenset({fact})) for fact in holders)
    if not holders and any(leaf in fact[1:] for fact in known):
        yield leaf, frozenset()
    for pattern, relation, inner, backwards in DESCRIPTIONS:
        if match := re.fullmatch(pattern, description):
            named = stem(match[relation]) if isinstance(relation, int) else relation
            for value, used in _readings(match[inner], known):
                for fact in known:
                    start, end = (fact[2], fact[1]) if backwards else fact[1:]
                    if fact[0] == named and start == value:
                        yield end, used | {fact}


def depth(description, story):
    """Return the number of facts that a description asks for, whether they are stated or not."""
    for pattern, _, inner, _ in DESCRIPTIONS:
        if match := re.fullmatch(pattern, description):
            return 1 + depth(match[inner], story)
    return int(re.search(rf"\ban? {description.removeprefix('the ')}\b", story) is not None)


def asked(question):
    """Return the descriptions that a question may ask for."""
    return [
        re.sub(pattern, made, question)
        for pattern, made in QUESTIONS
        if re.fullmatch(pattern, question)
    ]


def answer(story, question):
    """Return {answer: hops} over all readings of a question."""
    known = facts(story)
    return fewest(
        pair for description in asked(question) for pair in values(description, known).items()
    )


def verdict(story, statement, closed=False):
    """Return {"true" or "false": hops} over all readings of a statement; {} where the story leaves
    it open.

    Another value makes it false where the relation has one value by its meaning, or in a `closed`
    world.
    """
    known, found = facts(story), []
    statement = re.sub("^The ", "the ", statement.rstrip("."))
    for pattern, made, claim in CLAIMS:
        if match := re.fullmatch(pattern, statement):
            description = match.expand(made)
            for value, hops in values(description, known).items():
                for claimed, taken in _claims(match.expand(claim), known).items():
                    if hops and (value == claimed or closed or SINGLE.match(description)):
                        found.append(("true" if value == claimed else "false", hops + taken))
    return fewest(found)


def _claims(phrase, known):
    """Return the entity that a short phrase names, known or not."""
    phrase = re.sub("^an? ", "", phrase)
    if re.fullmatch(r"the \w+", phrase):
        return values(phrase, known) or {phrase[4:]: 0}
    return {phrase: 0} if re.fullmatch(r"\w+", phrase) else {}


def yes_no(story, question):
    """Return the verdict on a question without its mark, over all readings."""
    statements = [
        re.sub(was, made, question) for was, made in YES_NO if re.fullmatch(was, question)
    ]
    if question.startswith("is "):
        words = question.removeprefix("is ").split(" ")
        statements = [" ".join([*words[:i], "is", *words[i:]]) for i in range(1, len(words))]
    return fewest(pair for said in statements for pair in verdict(story, said, closed=True).items())
