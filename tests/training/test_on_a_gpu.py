"""Models on a GPU: the answers and measures of a processor, and training that runs and goes on
there.
"""

import pandas as pd
import pytest
import torch
from small_models import RandomText, network, pretrain, word_tokenizer

from companion.data.masking import SeededMasking
from companion.evaluation.heldout import HeldOut, curve
from companion.training import regularizers
from saobp.measure.capture import capture

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

WORDS, MASK = torch.randint(5, 100, (3, 16)), torch.ones(3, 16, dtype=torch.long)
MASK[0, 9:] = 0


@pytest.mark.parametrize("algorithm", ["original", "high", "low", "elemmul", "uniform", "sinkhorn"])
def test_a_model_answers_as_on_a_processor(algorithm, tmp_path):
    """The same encoder with padding: logits, gradients and what is measured of its attention."""
    found = {}
    for place in ("cpu", "cuda"):
        model = network(algorithm).to(place).eval()
        given = {"input_ids": WORDS, "attention_mask": MASK}
        out = model(**{name: values.to(place) for name, values in given.items()}).logits[
            MASK.bool().to(place)
        ]
        out.square().mean().backward()
        found[place] = [out, *(x.grad for x in model.parameters() if x.grad is not None)]
        capture(model, [given], tmp_path / f"{place}.parquet", progress=False)
    for one, other in zip(found["cuda"], found["cpu"], strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=2e-5, rtol=2e-4)
    tables = [pd.read_parquet(tmp_path / f"{place}.parquet") for place in found]
    # rounding takes single entries over 1/L
    shares = [table.pop("sparsity") for table in tables]
    pd.testing.assert_frame_equal(*tables, rtol=1e-3, atol=1e-4)
    pd.testing.assert_series_equal(*shares, rtol=0, atol=0.1)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("algorithm", ["original", "high", "entropy_reg", "eigen_reg"])
def test_pretraining_runs(tmp_path, precision, algorithm):
    """A model trains to the end in every precision, its loss falls, and the held-out measures are
    numbers.
    """
    text = RandomText()
    measure = HeldOut(text, SeededMasking(word_tokenizer(), 0.3, 0), len(text), 10)
    model = regularizers.attach(network(algorithm), algorithm)
    log = pretrain(model, tmp_path, measure=measure, precision=precision)
    first, *_, last = curve(log)
    assert last["loss"] < first["loss"]
    assert len(last["gtd"]) == len(last["entropy"])
