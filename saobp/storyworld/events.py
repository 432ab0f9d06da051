"""What happens next (HellaSwag): the wrong endings are other steps of the same activity."""

from random import Random

from saobp.storyworld import activities, lexicon


def hellaswag(random: Random, index: int) -> dict:
    """Return a step or two, and four endings of which one is the next step.

    The first step is no ending, since it never is the next one: that would give it away.
    """
    position, male = index % 4, random.random() < 0.5
    name = lexicon.draw(random, lexicon.MALE if male else lexicon.FEMALE)
    title, steps = activities.telling(random, random.choice(list(activities.STEPS)), male)
    now = random.randrange(1, len(steps))
    told = range(0 if now <= 2 else now - 1, now)
    endings = random.sample([steps[i] for i in range(1, len(steps)) if i != now and i not in told], 3)
    endings.insert(position, steps[now])
    who = "He" if male else "She"
    so_far = " ".join(f"{who if i > told[0] else name} {steps[i]}." for i in told)
    return {
        "ind": 0,
        "activity_label": title,
        "ctx_a": so_far,
        "ctx_b": who,
        "ctx": f"{so_far} {who}",
        "endings": [f"{ending}." for ending in endings],
        "source_id": "",
        "split": "",
        "split_type": "indomain",
        "label": str(position),
        "hops": 0,
    }
