"""One sentence through MiniLM, before and after the step: the data of Figure 1, and how they were made.

`python -m saobp.study.figures.example_map` writes them anew; a figure is then drawn without the model.
"""

import json
from pathlib import Path
from typing import Any

from saobp.study.setup import paths

SENTENCE = "The trophy did not fit into the brown suitcase because it was too large, so she left it at home."
DIGITS = 5


def file() -> Path:
    """Where the tracked data are."""
    return paths.root() / "data" / "examples" / "minilm.json"


def load() -> dict[str, Any]:
    """Return model, strength (nats), text, tokens, heads (layer, head, largest column before and after), one map."""
    return json.loads(file().read_text(encoding="utf-8"))


def make(strength: float) -> dict[str, Any]:
    """Run MiniLM with High on `SENTENCE`: the largest column sum of every head, and the map with the largest of all.

    Raises PublicModelError where MiniLM is not there.
    """
    import torch

    import saobp
    from saobp.models import public
    from saobp.models.apply import raw_attentions

    model, tokenizer = public.load("minilm")
    given = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad(), raw_attentions(saobp.apply(model, "high", strength)) as pairs:
        model(**given)
    maps = torch.stack([torch.stack([raw[0], refined[0]]) for raw, refined in pairs])  # layer, side, head, L, L
    columns = maps.sum(-2).amax(-1).transpose(1, 2)  # layer, head, side
    layer, head = divmod(int(columns[..., 0].argmax()), columns.shape[1])
    raw, refined = ([[round(value, DIGITS) for value in row] for row in side[head].tolist()] for side in maps[layer])
    heads = [
        {"layer": at + 1, "head": number + 1, "raw": round(before, DIGITS), "refined": round(after, DIGITS)}
        for at, rows in enumerate(columns.tolist())
        for number, (before, after) in enumerate(rows)
    ]
    return {
        "model": "minilm", "factor": "high", "strength": strength, "text": SENTENCE,
        "tokens": tokenizer.convert_ids_to_tokens(given["input_ids"][0].tolist()),
        "heads": heads, "map": {"layer": layer + 1, "head": head + 1, "raw": raw, "refined": refined},
    }  # fmt: skip


def main() -> None:
    """Write the tracked data with the strength that the study gives MiniLM."""
    from saobp.study.setup.sizes_and_strengths import SIZES

    paths.write_text(file(), json.dumps(make(SIZES["minilm"].strength)) + "\n")


if __name__ == "__main__":
    main()
