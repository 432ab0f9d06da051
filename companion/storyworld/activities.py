"""Everyday activities told step by step: what happens next is known from the order of the steps.

`{food} {object} {town} ...` are drawn once a telling; `{her}` follows the person. A step is a verb
phrase in the past tense that continues "Anna ..." or "She ...".
"""

from random import Random

from companion.storyworld import lexicon

ACTIVITIES = {
    "making tea": """filled the kettle with cold water|put the kettle on the stove|waited until the water boiled
        |poured the boiling water over the tea leaves|added milk and a spoon of sugar
        |drank the hot tea by the window""",
    "baking bread": """mixed flour, water and yeast in a bowl|kneaded the dough on the table|left the dough to rise
        |shaped the risen dough into a loaf|slid the loaf into the oven|took the brown loaf out and let it cool""",
    "cooking {food} soup": """bought {a_food} at the market|peeled the {food} with a knife|cut it into small pieces
        |dropped the pieces into the pot|stirred the soup until it was thick|served the soup with fresh bread""",
    "painting the {object}": """spread old newspapers on the floor|sanded the {object} until it was smooth
        |opened a tin of {colour} paint|dipped the brush into the paint|covered the {object} with a thin coat
        |washed the brush and waited for the paint to dry""",
    "posting a letter": """took a clean sheet of paper|wrote a long letter to {her} cousin|folded the sheet twice
        |put it into an envelope|stuck a stamp on the envelope|dropped it into the letter box""",
    "planting a tree": """chose a sunny place in the garden|dug a deep hole with a spade
        |set the young {plant} in the hole|filled the hole with earth|pressed the earth down with {her} boots
        |watered the roots with a full can""",
    "washing clothes": """gathered the dirty clothes in a basket|sorted them by colour
        |washed them in warm soapy water|rinsed them until the water ran clear|hung them on the line to dry
        |ironed the dry shirts""",
    "taking the train to {town}": """looked up the times of the trains|packed a small suitcase
        |walked to the station|bought a ticket to {town}|found a seat beside the window|got off the train in {town}""",
    "mending a bicycle": """turned the bicycle upside down|took off the front wheel|pulled out the flat tube
        |found the hole and glued a patch on it|pumped air into the tube|put the wheel back and rode away""",
    "going fishing": """dug up worms behind the barn|carried the rod down to the lake|put a worm on the hook
        |threw the line far into the water|felt a strong pull on the line|lifted a shining fish into the boat""",
    "making a fire": """collected dry twigs in the forest|built a ring of stones|piled the twigs inside the ring
        |lit a match under the twigs|blew gently until the flames rose|laid a heavy log on the fire""",
    "visiting the library": """walked up the steps of the library|asked where the books on {topic} were
        |searched the long shelf|found a thick book on {topic}|showed {her} card at the desk|carried the book home""",
    "bathing the {pet}": """filled the tub with warm water|lifted the {pet} into the tub|rubbed soap into its coat
        |rinsed the foam away|dried the {pet} with a towel|let the clean {pet} run into the garden""",
    "sewing {a_sewn}": """measured {her} arms and shoulders|drew the pattern on brown paper|cut the {colour} cloth
        |threaded the needle|stitched the pieces together|tried on the new {sewn} in front of the mirror""",
    "building a kite": """tied two thin sticks into a cross|stretched paper over the sticks
        |glued the edges of the paper|fixed a long tail to it|ran across the meadow against the wind
        |watched the kite climb into the sky""",
    "going to the dentist": """felt a sharp pain in a tooth|called the dentist|sat down in the waiting room
        |opened {her} mouth under the bright lamp|held still while the tooth was filled
        |paid the bill at the counter""",
    "giving a concert": """practised the {instrument} every day|hung up posters all over {town}
        |tuned the {instrument}|bowed to the crowd|played a difficult piece without a mistake
        |received flowers from the mayor""",
    "making apple juice": """climbed the ladder into the apple tree|picked a basket of ripe apples
        |washed the apples|crushed them in the press|caught the juice in a jug|poured the juice into clean bottles""",
    "moving house": """wrapped the plates in newspaper|packed everything into boxes|labelled every box with a pen
        |loaded the boxes onto a truck|drove the truck to the new flat|unpacked the boxes until midnight""",
    "climbing a mountain": """studied the map at breakfast|laced up {her} strong boots
        |followed the path through the woods|crossed a stream on a log|reached the top at noon
        |looked down at the tiny roofs of {town}""",
    "growing beans": """soaked the beans overnight|pressed them into small pots of soil
        |put the pots on a sunny sill|watered them each morning|saw the first green leaves
        |moved the young plants into the garden""",
    "cleaning the room": """picked the toys up from the floor|made the bed|dusted the shelves|swept under the bed
        |mopped the wooden boards|opened the window to let in fresh air""",
    "taking a photograph": """looked for a pretty view|set up the tripod|screwed the camera onto it
        |focused the lens|pressed the button|printed the picture and framed it""",
    "making pottery": """kneaded a lump of wet clay|threw the clay onto the wheel
        |shaped a tall vase with both hands|let the vase dry for a week|painted {colour} leaves around its neck
        |fired it in the hot kiln""",
    "catching a bus": """heard the alarm clock ring|jumped out of bed|ate a piece of toast in a hurry
        |ran to the bus stop|waved at the driver|sat down out of breath in the last row""",
    "making jam": """picked ripe berries in the woods|removed the stems|weighed the berries and the sugar
        |boiled them together in a large pan|filled the jam into jars|wrote the date on every jar""",
    "shopping": """wrote a list of what was missing|took a bag from the hook|pushed a cart along the aisles
        |put {a_food} into the cart|stood in the queue|paid and carried everything home""",
    "playing chess": """set up the pieces on the board|moved a pawn two squares|brought out the knight
        |captured the black bishop|attacked the king from both sides|shook hands after the checkmate""",
    "repairing the roof": """heard water drip into the attic|looked for the leak with a torch
        |leaned a ladder against the wall|climbed onto the roof|replaced three cracked tiles
        |checked after the next rain that the attic stayed dry""",
    "keeping bees": """put on a hat with a veil|puffed smoke into the hive|lifted out the heavy combs
        |cut the wax from the combs|let the honey run into a pail|sold the golden honey at the market""",
    "learning to swim": """put on a swimming suit|stepped into the shallow end|held on to the edge and kicked
        |let go of the edge|swam a few careful strokes|crossed the whole pool without a rest""",
    "writing a book": """made notes in a small notebook|planned the chapters|wrote a page every morning
        |corrected the whole story twice|sent the pages to a printer|held the finished book in {her} hands""",
    "flying to an island": """booked a flight to a warm island|packed a sun hat|took a taxi to the airport
        |showed {her} passport to the officer|boarded the plane|saw the green island under the clouds""",
    "voting": """read the plans of all parties|walked to the town hall|showed {her} papers to the clerk
        |took a ballot|marked a name behind the curtain|dropped the ballot into the box""",
    "carving a spoon": """split a piece of dry wood|drew the outline of a spoon on it|cut away the corners
        |hollowed out the bowl|smoothed it with sandpaper|rubbed oil into the finished spoon""",
    "making ice cream": """beat eggs and sugar until they were pale|warmed the cream on the stove
        |stirred the two together|let the mixture cool|froze it for five hours|put two scoops into a glass""",
    "going to a wedding": """found the invitation in the post|bought a gift wrapped in {colour} paper
        |wore {her} best clothes|cried a little during the vows|threw rice at the couple
        |danced until the band went home""",
    "finding a lost {pet}": """noticed that the {pet} was gone|searched the whole garden|asked the people next door
        |pinned a note to every tree|heard a soft noise behind the shed|carried the frightened {pet} home""",
    "rowing across the lake": """pushed the boat into the water|stepped carefully aboard
        |took the oars in both hands|rowed with steady strokes|tied the boat to the pier on the other side
        |rested in the grass""",
    "framing a painting": """measured the sides of the painting|sawed four strips of wood
        |joined the corners with glue|laid the glass and the painting inside|drove a nail into the wall
        |hung the painting and stepped back""",
}
STEPS = {
    name: [" ".join(step.split()) for step in text.split("|")] for name, text in ACTIVITIES.items()
}


def telling(random: Random, who: str) -> tuple[str, list[str]]:
    """Return the title and the steps of an activity with its slots filled for one person, He or
    She.
    """
    activity = random.choice(list(ACTIVITIES))
    slots = ("food", "object", "colour", "plant", "topic", "pet", "sewn", "instrument", "town")
    fields = {slot: lexicon.draw(random, slot) for slot in slots}
    fields |= {f"a_{slot}": lexicon.article(word) for slot, word in fields.items()}
    fields["her"] = "his" if who == "He" else "her"
    return activity.format(**fields), [step.format(**fields) for step in STEPS[activity]]


def hellaswag(random: Random, index: int) -> dict:
    """Return a step or two of an activity, and four endings, other steps of it, of which one is the
    next (HellaSwag).

    The first step is no ending, since it never is the next one: that would give it away.
    """
    position, (name, who) = index % 4, lexicon.person(random)
    title, steps = telling(random, who)
    now = random.randrange(1, len(steps))
    past_steps = range(0 if now <= 2 else now - 1, now)
    wrong = [steps[i] for i in range(1, len(steps)) if i != now and i not in past_steps]
    endings = random.sample(wrong, 3)
    endings.insert(position, steps[now])
    so_far = " ".join(f"{who if i > past_steps[0] else name} {steps[i]}." for i in past_steps)
    return {
        "ind": 0,
        "activity_label": title,
        "ctx_a": so_far,
        "ctx_b": who,
        "ctx": f"{so_far} {who}",
        "endings": [f"{step}." for step in endings],
        # for the writer to fill in
        "source_id": "",
        "split": "",
        "split_type": "indomain",
        "label": str(position),
        "hops": 0,
    }
