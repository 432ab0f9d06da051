"""Whatever is handed in: an answer that holds, or one line that says what is wrong. A nightly run makes thousands."""

import copy
import json
import math
import tempfile
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saobp import refine, saobp_attention
from saobp.refine import FACTORS
from saobp.study import paths
from saobp.study.profile import Profile, ProfileError, load_profile
from saobp.study.sources import DataError, FolderSource

COUNTS = {"refine": (200, 5000), "attention": (150, 3000), "loaders": (100, 1500), "profile": (150, 1500)}
SMOKE = yaml.safe_load((paths.root() / "notebooks" / "profiles" / "smoke.yaml").read_text())

junk = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 70), st.floats(), st.text(max_size=5), st.lists(st.integers())
)
numbers = st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-40, 1e30, math.nan, math.inf, -math.inf])
types = st.sampled_from([torch.float32] * 4 + [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool])


def both(what, **strategies):
    """Run a check on the cases of `make test`, and, as another test, on those of the nightly run."""

    def decorate(check):
        few, many = COUNTS[what]
        usual = {"deadline": None, "suppress_health_check": list(HealthCheck)}
        everyday, thousands = (
            settings(max_examples=count, **usual)(given(**strategies)(check)) for count in (few, many)
        )
        return everyday, pytest.mark.nightly(thousands)

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
    """Random numbers of any type and scale, now and then with a few that are no numbers."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    values = torch.randn(*shape, generator=generator) * draw(st.sampled_from([0.1, 3.0, 100.0]))
    if draw(st.integers(0, 9)) == 0 and values.numel():
        values.view(-1)[draw(st.integers(0, values.numel() - 1))] = draw(numbers)
    return values.to(draw(types))


@st.composite
def masks(draw, batch, length):
    """A boolean mask of one of the two shapes, or something else."""
    shape = draw(st.sampled_from([(length,), (batch, length), (batch, length), (length + 1,)]))
    return draw(st.one_of(st.none(), st.just(torch.rand(*shape) < draw(st.sampled_from([0.5, 0.9, 0.0]))), junk))


@st.composite
def strengths(draw, heads):
    """A strength as anybody might give it."""
    positive = tensors(heads).map(lambda x: x.abs() if x.is_floating_point() else x)
    return draw(st.one_of(st.just(0.2), numbers, junk, tensors(heads), positive, tensors(1)))


@st.composite
def refinements(draw):
    """Arguments of `refine`, most of them sensible."""
    batch, heads, length = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(0, 6))
    scores = draw(tensors(batch, heads, length, draw(st.sampled_from([length] * 9 + [length + 1]))))
    causal, mask = draw(st.booleans()), draw(masks(batch, length))
    if draw(st.booleans()) and scores.is_floating_point() and scores.shape[-1] == scores.shape[-2]:
        hidden = torch.ones(length, length).tril() == 0 if causal else torch.zeros(length, length, dtype=torch.bool)
        if isinstance(mask, torch.Tensor) and mask.shape[-1] == length:
            hidden = hidden | ~(mask if mask.ndim == 1 else mask[:, None, None, :])
        scores = scores.masked_fill(hidden, -torch.inf)
    attention = scores.softmax(-1) if scores.is_floating_point() and draw(st.integers(0, 9)) else scores
    options = {"mask": mask, "causal": causal, "exclude_self": draw(st.booleans())}
    for name in draw(st.lists(st.sampled_from(["steps", "damping", "seed", "causal", "exclude_self"]), max_size=2)):
        options[name] = draw(st.one_of(st.integers(1, 3), st.floats(0, 0.9), junk))
    return attention, draw(st.one_of(st.sampled_from(FACTORS), junk)), draw(strengths(heads)), options


@both("refine", arguments=refinements())
def check_refine(arguments):
    attention, factor, strength, options = arguments
    refined = answer_or_line(ValueError, lambda: refine(attention, factor, strength, **options))
    if refined is None:
        return
    assert refined.shape == attention.shape and refined.dtype == attention.dtype
    assert refined.isfinite().all() and (refined >= 0).all()
    mask = options["mask"]
    real = torch.ones(refined.shape[:1] + refined.shape[-1:], dtype=torch.bool) if mask is None else mask
    real = real.expand(refined.shape[0], refined.shape[-1])
    rows = refined.double().sum(-1).transpose(1, 2)[real]
    assert (rows - 1).abs().max() < (1e-3 if refined.dtype in (torch.float32, torch.float64) else 3e-2)


@st.composite
def attentions(draw):
    """Arguments of `saobp_attention`, most of them sensible."""
    batch, heads, length = draw(st.integers(1, 2)), draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, 6))
    groups, width = draw(st.sampled_from([1, heads, heads, 3])), draw(st.integers(1, 3))
    kind = draw(types)
    shapes = [(heads, length, width), (groups, length, width), (groups, length, 2)]
    inputs = [draw(tensors(batch, *shape)).to(kind) for shape in shapes]
    options = {"factor": draw(st.one_of(st.sampled_from(FACTORS), junk)), "strength": draw(strengths(heads))}
    options |= {"mask": draw(masks(batch, length)), "is_causal": draw(st.booleans())}
    for name in draw(st.lists(st.sampled_from(["scale", "dropout_p", "exclude_self", "is_causal"]), max_size=2)):
        options[name] = draw(st.one_of(st.floats(0, 0.9), junk))
    return inputs, options


@both("attention", arguments=attentions())
def check_attention(arguments):
    inputs, options = arguments
    output = answer_or_line(ValueError, lambda: saobp_attention(*inputs, **options))
    if output is not None and all(x.isfinite().all() and x.abs().max() < 1e3 for x in inputs):
        assert output.shape == (*inputs[0].shape[:3], inputs[2].shape[-1]) and output.dtype == inputs[0].dtype
        assert output.isfinite().all()


def damaged(draw, content):
    """Cut, flip or replace bytes of a file."""
    kind = draw(st.sampled_from(["whole", "cut", "flip", "other"]))
    if kind == "cut":
        return content[: draw(st.integers(0, len(content)))]
    if kind == "flip":
        place = draw(st.integers(0, len(content) - 1))
        return content[:place] + bytes([content[place] ^ draw(st.integers(1, 255))]) + content[place + 1 :]
    return draw(st.binary(max_size=40)) if kind == "other" else content


@both("loaders", data=st.data())
def check_loaders(data):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        file = root / "owner" / "set" / "default" / "train-00000-of-00001.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"text": ["one", "two", "three"]}), file)
        file.write_bytes(damaged(data.draw, file.read_bytes()))
        said = {"owner/set": {"default": {"train": {"rows": 3, "complete": True}}}}
        (root / "manifest.json").write_bytes(damaged(data.draw, json.dumps(said).encode()))
        dataset = data.draw(st.one_of(st.just("owner/set"), st.text(max_size=12), st.just("../owner/set")))
        config = data.draw(st.sampled_from(["default", None, "other", "../default"]))
        split = data.draw(st.one_of(st.sampled_from(["train", "train[:2]", "train[50%:]", "train+train"]), st.text()))
        source = FolderSource(root)
        for ask in (source.load, source.completeness, source.fingerprint, source.intervals):
            answer_or_line(DataError, partial(ask, dataset, config, split))
        rows = answer_or_line(DataError, lambda: list(source.stream(dataset, config, split)))
        assert rows is None or all(set(row) for row in rows)


def places(values, path=()):
    """Every key of a profile, nested ones included, as a path."""
    found = []
    for key, value in values.items():
        found.append((*path, key))
        found += places(value, (*path, key)) if isinstance(value, dict) else []
    return found


@st.composite
def profiles(draw):
    """The smoke profile with a few values changed, keys dropped or added."""
    values = copy.deepcopy(SMOKE)
    for path in draw(st.lists(st.sampled_from(places(SMOKE)), min_size=1, max_size=3)):
        holder = values
        for key in path[:-1]:
            holder = holder.get(key) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            change = draw(st.sampled_from(["set", "drop", "add"]))
            if change == "drop":
                holder.pop(path[-1], None)
            else:
                holder[path[-1] if change == "set" else draw(st.text(max_size=6))] = draw(junk)
    return values


@both("profile", values=profiles())
def check_profile(values):
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "smoke.yaml"
        file.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
        study = answer_or_line(ProfileError, lambda: load_profile(file))
        assert study is None or (isinstance(study, Profile) and study.pairs() and study.fingerprint())


test_refine, test_refine_nightly = check_refine
test_attention, test_attention_nightly = check_attention
test_loaders, test_loaders_nightly = check_loaders
test_profile, test_profile_nightly = check_profile
