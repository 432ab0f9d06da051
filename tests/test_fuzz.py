"""Whatever is handed in: an answer that holds, or one line that says what is wrong. A nightly run
makes thousands.
"""

import json
import math
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from companion.data.sources import DataError, FolderSource
from saobp import refine, saobp_attention
from saobp.equations.refine import FACTORS

junk = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers())
)
odd = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-40, 1e30, math.nan, math.inf, -math.inf])
floating = st.sampled_from(
    [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
)
REFINEMENT = {
    "steps": st.integers(1, 3),
    "damping": st.floats(0, 0.9),
    "seed": st.integers(0, 9),
    "exclude_self": st.booleans(),
}


def both(*counts, **strategies):
    """Run a check on the cases of `make test`, and, as another test, on those of the nightly
    run.
    """

    usual = {"deadline": None, "suppress_health_check": list(HealthCheck)}

    def decorate(check):
        usually, nightly = (
            settings(max_examples=n, **usual)(given(**strategies)(check)) for n in counts
        )
        return usually, pytest.mark.nightly(nightly)

    return decorate


def answer_or_line(error, call):
    """Return a call's answer, or None where it refused in one line."""
    try:
        return call()
    except error as refusal:
        assert len(str(refusal)) > 10 and "\n" not in str(refusal)
        return None


@st.composite
def tensors(draw, *shape):
    """Random numbers of any scale and floating type."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    return (torch.randn(*shape, generator=generator) * draw(st.sampled_from([0.1, 3.0, 100.0]))).to(
        draw(floating)
    )


@st.composite
def spoilt(draw, value):
    """Something else in the place of an argument: another shape, type or number, or nothing like
    it.
    """
    if not isinstance(value, torch.Tensor):
        return draw(st.one_of(odd, junk))
    entry = value.clone()
    if entry.numel():
        entry.view(-1)[draw(st.integers(0, entry.numel() - 1))] = (
            draw(odd) if entry.is_floating_point() else False
        )
    others = [
        entry,
        value * 0.9,
        value[..., 1:],
        value[:0],
        value[None],
        value.long(),
        value > 0,
        value.tolist(),
    ]
    return draw(st.one_of(st.sampled_from(others), junk))


def sensible_or_spoilt(draw, arguments):
    """Leave most sets of arguments as they are, and spoil one or two of the others."""
    names = (
        []
        if draw(st.integers(0, 2))
        else draw(st.lists(st.sampled_from(list(arguments)), min_size=1, max_size=2))
    )
    return {
        name: draw(spoilt(value)) if name in names else value for name, value in arguments.items()
    }


def real(draw, batch, length):
    """Return a mask with a real token in every sequence, or None."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    mask = torch.rand(batch, length, generator=generator) < 0.7
    mask[:, draw(st.integers(0, length - 1))] = True
    return (
        draw(st.sampled_from([None, mask, mask[0]]))
        if batch == 1
        else draw(st.sampled_from([None, mask]))
    )


def strength(draw, heads):
    """Return a number, or one a head."""
    return draw(st.one_of(st.sampled_from([0.0, 0.2, 5.0, 500.0]), tensors(heads).map(torch.abs)))


@st.composite
def refinements(draw):
    """Arguments of `refine`."""
    batch, heads, length = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    mask, causal, factor = (
        real(draw, batch, length),
        draw(st.booleans()),
        draw(st.sampled_from(FACTORS)),
    )
    hidden = (
        torch.ones(length, length).tril() == 0
        if causal
        else torch.zeros(length, length, dtype=torch.bool)
    )
    if mask is not None:
        hidden = hidden | ~(mask if mask.ndim == 1 else mask[:, None, None, :])
    attention = (
        draw(tensors(batch, heads, length, length)).masked_fill(hidden, -torch.inf).softmax(-1)
    )
    # the rows of padded queries that see nothing
    attention = attention.nan_to_num(0, 0, 0)
    arguments = {
        "attention": attention,
        "factor": factor,
        "strength": strength(draw, heads),
        "mask": mask,
    }
    names = ("seed", "exclude_self") if factor in ("elemmul", "sinkhorn") else REFINEMENT
    arguments |= {name: draw(REFINEMENT[name]) for name in names} | {"causal": causal}
    return sensible_or_spoilt(draw, arguments)


@both(100, 5000, arguments=refinements())
def check_refine(arguments):
    refined = answer_or_line(ValueError, lambda: refine(**arguments))
    if refined is None:
        return
    attention, mask = arguments["attention"], arguments["mask"]
    assert refined.shape == attention.shape and refined.dtype == attention.dtype
    assert refined.isfinite().all() and (refined >= 0).all()
    real = (
        torch.ones(refined.shape[:1] + refined.shape[-1:], dtype=torch.bool)
        if mask is None
        else mask
    )
    sums = refined.double().sum(-1).reshape(len(refined), -1, refined.shape[-1]).mT
    rows = sums[real.expand(len(refined), -1)] if refined.ndim > 2 else sums
    assert (rows - 1).abs().max() < (
        1e-3 if refined.dtype in (torch.float32, torch.float64) else 3e-2
    )


@st.composite
def attentions(draw):
    """Arguments of `saobp_attention`."""
    batch, heads, length = (
        draw(st.integers(1, 2)),
        draw(st.sampled_from([1, 2, 4])),
        draw(st.integers(1, 6)),
    )
    groups, width, kind = draw(st.sampled_from([1, heads])), draw(st.integers(1, 3)), draw(floating)
    shapes = {
        "query": (heads, length, width),
        "key": (groups, length, width),
        "value": (groups, length, 2),
    }
    arguments = {name: draw(tensors(batch, *shape)).to(kind) for name, shape in shapes.items()}
    arguments |= {"factor": draw(st.sampled_from(FACTORS)), "strength": strength(draw, heads)}
    arguments |= {"mask": real(draw, batch, length), "is_causal": draw(st.booleans())}
    arguments |= {
        "scale": draw(st.sampled_from([None, 0.5])),
        "dropout_p": draw(st.sampled_from([0.0, 0.0, 0.5])),
    }
    return sensible_or_spoilt(draw, arguments | {"exclude_self": draw(st.booleans())})


@both(75, 3000, arguments=attentions())
def check_attention(arguments):
    output = answer_or_line(ValueError, lambda: saobp_attention(**arguments))
    if output is None:
        return
    query, value = arguments["query"], arguments["value"]
    assert output.shape == (*query.shape[:3], value.shape[-1]) and output.dtype == query.dtype
    if all(arguments[name].isfinite().all() for name in ("query", "key", "value")):
        assert output.isfinite().all()


def damaged(draw, content):
    """Cut, flip or replace bytes of a file."""
    place = draw(st.integers(0, len(content) - 1))
    flipped = bytes([content[place] ^ draw(st.integers(1, 255))])
    cut, other = content[:place], draw(st.binary(max_size=40))
    return draw(st.sampled_from([cut, cut + flipped + content[place + 1 :], other]))


@both(40, 1500, data=st.data())
def check_loaders(data):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        file = root / "owner" / "set" / "default" / "train-00000-of-00001.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"text": ["one", "two", "three"]}), file)
        hit = data.draw(st.sampled_from(["nothing", "parquet", "manifest"]))
        if hit == "parquet":
            file.write_bytes(damaged(data.draw, file.read_bytes()))
        said = {"owner/set": {"default": {"train": {"rows": 3, "complete": True}}}}
        manifest = json.dumps(said).encode()
        (root / "manifest.json").write_bytes(
            damaged(data.draw, manifest) if hit == "manifest" else manifest
        )
        dataset = data.draw(
            st.sampled_from(["owner/set"] * 20 + ["../owner/set", "/", "owner", "", "o\\n"])
        )
        config = data.draw(st.sampled_from(["default"] * 12 + [None, "other", "../default"]))
        splits = ["train", "train[:2]", "train[50%:]", "train+train", "train[-1:]"]
        split = data.draw(st.sampled_from(splits) if data.draw(st.integers(0, 4)) else st.text())
        source = FolderSource(root)
        for ask in (source.load, source.completeness, source.fingerprint, source.intervals):
            answer_or_line(DataError, partial(ask, dataset, config, split))
        rows = answer_or_line(DataError, lambda: list(source.stream(dataset, config, split)))
        assert rows is None or all(set(row) for row in rows)


test_refine, test_refine_nightly = check_refine
test_attention, test_attention_nightly = check_attention
test_loaders, test_loaders_nightly = check_loaders
