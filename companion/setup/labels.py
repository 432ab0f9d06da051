"""What models, algorithms and counts are called."""

from collections.abc import Sequence

from companion.setup.sizes_and_strengths import SIZES

PAPER_SIZES = ("mini", "small", "medium")
DECODER = "gpt2-"

# in the order of every legend; their colours: figures/style.py
ALGORITHMS = {
    "original": "Original",
    "high": "High",
    "low": "Low",
    "elemmul": "ElemMul",
    "entropy_reg": "Entropy-Reg",
    "eigen_reg": "Eigen-Reg",
    "high_all_rows": "High, all rows (leaks)",
    "sinkhorn": "Sinkhorn",
    "uniform": "Uniform",
    "shuffled": "Shuffled",
}
# the rows of Tables 1, 2, 8 and 9, in their order
PAPER_ALGORITHMS = ("original", "high", "low", "elemmul")

# compared everywhere
ATTENTION_MEASURES = ("gtd", "indirect_entropy", "entropy", "sparsity", "column_mass_maximum")
# of the graph of a head's attention
GRAPH_MEASURES = ("clustering_barrat", "betweenness")


def size(model: str) -> str:
    """The size in the paper that a model has or is scaled down from: "gpt2-mini-quarter" ->
    "mini".
    """
    return model.removeprefix(DECODER).partition("-")[0]


def is_scaled_down(model: str) -> bool:
    """Whether a model is a scaled-down model ("mini-quarter", "mini-narrow") for the size in its
    name.
    """
    return "-" in model.removeprefix(DECODER)


def is_decoder(model: str) -> bool:
    """Whether a model is one of the causal ones of Table 7."""
    return model.startswith(DECODER)


def published_model(model: str) -> str:
    """A model's name in the published tables: "mini-quarter" -> "Mini", "gpt2-mini" ->
    "GPT2-Mini".
    """
    return ("GPT2-" if is_decoder(model) else "") + size(model).capitalize()


WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PUBLIC = {"minilm": "MiniLM", "smollm2": "SmolLM2-135M-Instruct"}


def model_title(model: str) -> str:
    """A model's name for readers: "BERT-Mini", "GPT2-Small", "MiniLM"; a scaled-down one's layers
    and width with it.

    "BERT-Mini (4 × 128)" has BERT-Mini's place in a table, 4 layers and width 128.
    """
    if model in PUBLIC:
        return PUBLIC[model]
    family = "" if is_decoder(model) else "BERT-"
    shape = SIZES.get(model.removeprefix(DECODER))
    scaled = f" ({shape.layers} × {shape.hidden})" if shape and shape.scaled_from else ""
    return family + published_model(model) + scaled


def algorithm_title(algorithm: str) -> str:
    """An algorithm's name for readers, and in the published tables; an unknown one keeps its own
    name.
    """
    return ALGORITHMS.get(algorithm, algorithm)


def counted(number: int, noun: str) -> str:
    """A count with its noun, in the plural but for one: "1 epoch", "2,400 steps"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def spelled(number: int) -> str:
    """A count as it is written in a sentence: "six", "no" for 0, and from 10 on in digits."""
    return WORDS[number] if 0 <= number < len(WORDS) else f"{number:,}"


def joined(words: Sequence[str]) -> str:
    """Words in a row: "seeds, items and sequences"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
