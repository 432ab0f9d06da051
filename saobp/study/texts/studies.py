"""The tracked studies by what they are about: those that were seen before the plan, and the planned ones."""

ENCODERS, FRESH_ENCODERS = "narrow", "scratch"  # trained on real text; the planned study is of seeds that none had seen
EXAM, FRESH_EXAM = "stories", "hops"  # questions of several hops, likewise
PUBLIC_ENCODER = "retrofit"  # with the step inserted
ALTERNATIONS = "cost"  # of Original and High, 300 in each setting
PLANNED = (FRESH_EXAM, PUBLIC_ENCODER, FRESH_ENCODERS, "branched", "branched-again", "decoders", ALTERNATIONS)
TRACKED = (ENCODERS, "laptop", EXAM, *PLANNED)
