"""The words of the story world, and the few rules of English that inflect them.

Every list is ordered by how often its words are drawn (`draw` favours the front), so that stories
have the long tail of natural text. First names are generic; towns are made of two invented halves.
"""

from random import Random

# slot -> the words that may fill it
WORDS = {
    slot: words.split()
    for slot, words in {
        "female": """Anna Mary Emma Alice Clara Lucy Sarah Julia Helen Ruth Grace Nora Rose Laura Diana Eva Martha
        Jane Ellen Sophie Ida Nina Vera Paula Carol Linda Susan Karen Nancy Betty Donna Sandra Ashley Emily Amanda
        Melissa Rebecca Sharon Cynthia Kathleen Amy Angela Shirley Brenda Pamela Nicole Christine Catherine Rachel
        Janet Maria Heather Diane Joyce Victoria Kelly Christina Joan Evelyn Lauren Judith Olivia Frances Cheryl Megan
        Andrea Hannah Jacqueline Gloria Jean Kathryn Teresa Sara Janice Marie Abigail Isabella Natalie Marilyn
        Charlotte Sylvia Beth Erin Molly Stella Lydia Audrey Monica Claire Naomi Gina Tracy Elaine Irene Bella Lena
        Greta Ingrid Astrid Flora Edith Mabel Agnes Harriet Miriam Rosa Elena Sonia Tara Leah Phoebe Daisy Violet Ivy
        Pearl Celia Hilda Zoe Yvonne""",
        "male": """Tom Ben Max Peter John Paul Mark David James Henry Simon Daniel Adam Jack Leo Oscar Felix Hugo
        Victor Robert Michael William Richard Joseph Charles Thomas Anthony Donald Steven Andrew Kenneth Joshua Kevin
        Brian Edward Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Jonathan Stephen Larry Justin Scott
        Brandon Benjamin Samuel Gregory Alexander Patrick Dennis Jerry Tyler Aaron Nathan Douglas Kyle Walter Ethan
        Jeremy Harold Keith Christian Roger Noah Gerald Terry Sean Arthur Austin Carl Lawrence Dylan Jesse Jordan
        Bryan Bruce Albert Willie Gabriel Alan Juan Logan Wayne Ralph Roy Eugene Randy Vincent Russell Louis Philip
        Bobby Johnny Bradley Martin Stanley Leonard Nathaniel Edgar Ernest Frank Fred George Harry Howard Ivan Julian
        Karl Lewis Marcus Neil Otto Rufus Theodore Hector Conrad""",
        "object": """lamp drum kite clock box ring book boat key map violin mirror basket bell candle chair coat cup
        doll flag guitar hammer hat ladder lantern letter mask necklace painting pen piano plate purse radio rope rug
        saddle scarf shield spoon statue suitcase sword table teapot telescope ticket tent trumpet trunk umbrella vase
        wagon watch wheel whistle bicycle blanket bottle bowl bracelet broom brush bucket button camera card carpet
        cart chain chest coin comb compass couch cradle crown curtain cushion desk diary dish drawer dress easel
        engine fan fiddle fork frame glass globe glove gown harp helmet hook horn jacket jar jewel jug kettle knife
        lens lock locket loom magnet marble medal microscope mug needle net notebook oar organ oven paddle pan parcel
        pillow pipe pitcher pocketknife poster pot puppet puzzle quilt rake razor ribbon robe rocket sail sandal saw
        scroll shawl shovel skate sled slipper spade stool stove sweater tapestry thimble toolbox torch towel toy tray
        tripod typewriter vest wallet wand wardrobe wheelbarrow wig windmill xylophone abacus accordion album anchor
        apron armchair atlas axe bagpipe ball balloon banjo barrel""",
        "colour": """red blue green yellow black white brown grey purple orange pink golden silver crimson violet
        turquoise scarlet beige ivory amber""",
        "quality": """old small large new heavy broken wooden round plain bright tiny dusty shiny narrow wide thick
        thin smooth rough square curved polished painted faded modern antique cheap costly lovely ugly dirty clean
        soft hard sturdy fragile hollow solid rusty striped spotted crooked elegant simple odd rare common light dark
        deep tall short long""",
        "job": """baker farmer painter sailor pilot singer writer dancer carpenter gardener plumber miner judge poet
        potter tailor weaver hunter fisher butcher grocer cook waiter porter driver engineer architect actor artist
        editor reporter printer librarian chemist astronomer musician composer sculptor jeweller blacksmith mason
        roofer welder mechanic electrician firefighter soldier officer inspector clerk banker accountant cashier
        secretary manager merchant barrister magician juggler clown acrobat drummer violinist pianist organist
        translator historian geologist botanist zoologist surgeon optician veterinarian shepherd beekeeper brewer
        miller cobbler locksmith watchmaker glazier upholsterer umpire referee athlete boxer swimmer cyclist
        explorer""",
        "good": """happy proud calm cheerful glad hopeful excited merry content grateful delighted joyful relaxed
        pleased peaceful confident thrilled lively amused optimistic jolly radiant carefree blissful enthusiastic
        elated serene satisfied overjoyed eager playful thankful charmed comforted encouraged inspired refreshed
        relieved triumphant euphoric""",
        "bad": """sad angry tired gloomy nervous worried lonely jealous upset bored afraid bitter ashamed grumpy
        miserable anxious furious hopeless annoyed frightened disappointed unhappy sorrowful weary irritated restless
        troubled tense downcast heartbroken discouraged frustrated embarrassed resentful melancholy desperate dejected
        offended exhausted distressed""",
        "food": """apple cheese cake pie salad egg potato onion carrot pear plum grape cherry lemon melon peach tomato
        pepper bean pea mushroom pumpkin turnip radish noodle dumpling sausage steak pancake waffle biscuit muffin
        pudding sandwich omelette apricot raspberry blueberry walnut almond chestnut roll bun tart fig olive banana
        mango coconut cucumber pickle""",
        "dish": """bread soup rice fish corn cabbage spinach garlic bacon ham stew porridge custard jam honey butter
        yogurt cream pasta ginger cinnamon vanilla chocolate meat beef broth gravy mustard toast celery cereal""",
        "animal": """dog cat horse cow goat sheep pig duck hen rabbit mouse bird owl fox bear wolf deer frog turtle
        snake crow parrot swan goose donkey pony lamb calf kitten puppy squirrel hedgehog badger otter beaver bat
        eagle hawk falcon heron robin sparrow pigeon dove peacock turkey lizard toad beetle butterfly bee ant spider
        snail cricket dragonfly moth whale dolphin seal crab lobster salmon trout eel camel zebra lion tiger monkey
        elephant giraffe kangaroo""",
        "pet": "dog cat rabbit goat pony lamb puppy kitten donkey goose duck parrot",
        "plant": """oak rose tulip daisy pine willow maple lily ivy fern birch elm cedar poppy violet orchid lavender
        sunflower daffodil clover thistle moss reed holly jasmine bamboo cactus hazel ash beech chestnut cypress""",
        "place": """river market bridge park school church library garden harbour mill station castle forest field
        lake hill tower inn theatre museum hospital bakery farm shop square fountain beach meadow orchard stable barn
        cottage palace cave cliff valley canal lighthouse chapel courtyard gate wall path road street corner cellar
        attic kitchen porch balcony hall tavern workshop factory warehouse pier dock island marsh waterfall quarry
        vineyard windmill monastery stadium gallery""",
        "season": "day night week month autumn winter spring summer year weekend",
        "time": "morning evening afternoon night day autumn winter spring summer weekend",
        "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "weather": """cold warm sunny rainy windy cloudy foggy snowy stormy mild hot frosty humid clear misty dry icy
        breezy damp chilly pleasant dull grey bright freezing""",
        "adverb": """slowly quickly quietly carefully happily loudly softly gently kindly bravely eagerly calmly
        proudly badly neatly politely patiently suddenly silently cheerfully nervously gladly lazily wildly boldly
        sadly angrily gracefully clumsily secretly honestly firmly briefly thoroughly smoothly warmly coldly sweetly
        steadily swiftly anxiously cautiously curiously foolishly gloomily hastily humbly merrily obediently playfully
        promptly seriously skilfully solemnly sternly tenderly thoughtfully timidly tirelessly wearily wisely""",
        "trait": """kind clever brave quiet honest funny patient careful friendly polite shy lazy strong wise gentle
        busy young stubborn curious generous loyal modest noisy neat talented charming sensible ambitious cautious
        clumsy creative daring decent determined diligent energetic fair famous forgetful frank greedy humble
        imaginative impatient intelligent inventive mischievous mysterious obedient outgoing practical reliable rude
        selfish sincere skilful sociable strict tidy timid trustworthy truthful witty""",
        "topic": """music school money health travel history art food sport work love friendship politics war fishing
        cooking science nature family religion luck danger truth beauty justice courage freedom fashion poetry trade
        farming gardening chess medicine""",
        "event": """game race party wedding concert picnic meeting lecture trial contest parade festival fair dinner
        lunch breakfast supper feast ceremony accident surprise quarrel rehearsal exhibition auction election storm
        harvest play dance lesson experiment""",
        "tool": """hammer chisel brush sponge needle ruler rope ladder wrench pencil trowel sieve pulley lever bucket
        cloth scraper""",
        "instrument": "violin guitar piano trumpet flute harp drum organ accordion banjo fiddle horn",
        "clothes": """coat hat scarf shirt jacket dress skirt sweater cap vest apron belt cloak gown blouse tunic
        uniform raincoat""",
        "sewn": "shirt jacket skirt vest cloak gown blouse coat apron dress",
        "fabric": "wool silk cotton velvet linen leather fur denim lace satin felt canvas",
        "material": """wood stone glass paper leather iron copper clay brass marble straw steel tin bronze wax silver
        gold plastic rubber ivory cardboard bamboo""",
        "number": "two three four five six seven eight nine ten eleven twelve",
        # Regular verbs only: `past` and `third` inflect them by rule.
        "act": """paint wash carry clean repair fix move polish pack measure borrow collect examine count decorate
        admire cover lift drag weigh sketch design wrap empty fill open close mend finish copy describe destroy
        discover display drop enjoy explain guard inspect invent load lock mark notice order pick place press print
        protect pull push raise record remove rent rescue return scratch select share sort stack store study touch
        trade unlock unpack use varnish wipe""",
        "motion": """walk hurry march wander climb jump dance hop stroll limp skip race gallop float sail drift rush
        crawl roll stumble trot dash plod scamper scurry sprint trudge""",
        "speech": """whisper shout explain answer announce promise admit claim complain declare mention remark reply
        report suggest warn add agree boast confess insist joke murmur mutter recall reveal""",
        "verb": """trust like admire help envy fear miss follow respect love visit call blame praise watch thank
        pity defend avoid support""",
        "doing": "smiles laughs waves nods sings leaves sighs hums yawns coughs blushes whistles",
        "kinsman": "brother uncle father son nephew grandfather grandson",
        "kinswoman": "sister aunt mother daughter niece grandmother granddaughter",
        # No word that holds both ways, as "friend" does: "Anna's friend" and "whose friend is Anna"
        # must differ.
        "role": """teacher doctor boss tutor coach lawyer mentor guide dentist barber assistant landlord trainer nanny
        patron""",
    }.items()
}
_TOWN_STARTS = """Bel Cor Dal Fen Gar Hal Kel Lor Mar Nor Pel Ral Sel Tam Ver Wes Yar Zel Bran Cal Dor El Far Gil Har
Jor Kar Lin Mel Nar Or Pol Rin San Tor Val Wil Bry"""
_TOWN_ENDS = ("mere", "wick", "holm", "vale", "garth", "haven", "fell", "stow")
WORDS |= {
    "town": [start + end for end in _TOWN_ENDS for start in _TOWN_STARTS.split()],
    "mood": WORDS["good"] + WORDS["bad"],
    "blood": WORDS["kinsman"] + WORDS["kinswoman"],
    "subject": WORDS["animal"] + WORDS["job"],
}
_IRREGULAR = """sheep:sheep deer:deer fish:fish trout:trout salmon:salmon mouse:mice goose:geese wolf:wolves calf:calves
knife:knives potato:potatoes tomato:tomatoes piano:pianos radio:radios banjo:banjos kangaroo:kangaroos bamboo:bamboos"""
_PLURALS = dict(pair.split(":") for pair in _IRREGULAR.split())
_DOUBLED = frozenset({"drop", "hop", "skip", "trot", "wrap", "drag", "plod", "admit"})


def draw(random: Random, slot: str) -> str:
    """Draw a word for a slot, the front of its list more often (density 1 / (2 sqrt(u)), a mild
    long tail).
    """
    words = WORDS[slot]
    return words[int(len(words) * random.random() ** 2)]


def draw_new(random: Random, slot: str, taken: set[str]) -> str:
    """Draw a word that is not in `taken`, and add it there."""
    while (word := draw(random, slot)) in taken:
        pass
    taken.add(word)
    return word


def person(random: Random) -> tuple[str, str]:
    """Draw a first name, and the pronoun for it that begins a sentence."""
    male = random.random() < 0.5
    return draw(random, "male" if male else "female"), "He" if male else "She"


def article(word: str) -> str:
    """Return the word behind "a" or "an", by the sound that it starts with."""
    silent, you = (
        word.startswith(("hour", "honest", "heir")),
        word.startswith(("uni", "use", "eu", "one")),
    )
    return ("an " if silent or (word[0].lower() in "aeiou" and not you) else "a ") + word


def third(verb: str) -> str:
    """Return the third person singular of a regular verb."""
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "s"


def past(verb: str) -> str:
    """Return the past tense of a regular verb."""
    if verb in _DOUBLED:
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2] not in "aeiou" else verb + "ed"


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    return _PLURALS.get(noun) or third(noun)


def capitalized(sentence: str) -> str:
    """Return a sentence with a capital first letter."""
    return sentence[0].upper() + sentence[1:]
