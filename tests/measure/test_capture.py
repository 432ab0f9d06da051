"""saobp.measure.capture: its numbers are those of the single matrices, whatever is batched, padded
or killed.
"""

import functools
import itertools
import json
import math
import os
import resource
import signal

import families
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers as hf

import saobp
from saobp.measure import gtd_and_entropy
from saobp.measure.capture import capture
from saobp.measure.capture_files import summary
from saobp.measure.graph import graph_measures
from saobp.measure.measurement import token_classes
from saobp.measure.observed import observed

VOCABULARY = 60
LENGTHS = (9, 5, 12, 7, 3, 12, 8)
run = functools.partial(capture, progress=False)


def bert(factor=None, kind=hf.BertModel, layers=2, strength=0.2, **options):
    """A tiny encoder with attention far from uniform, refined if a factor is given."""
    torch.manual_seed(0)
    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
    }
    config = hf.BertConfig(
        **sizes, intermediate_size=16, max_position_embeddings=128, initializer_range=1.0, **options
    )
    model = kind(config)
    return saobp.apply(model, factor, strength) if factor else model


def samples(lengths=LENGTHS):
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(4, VOCABULARY, (length,), generator=generator) for length in lengths]


def batches(size=3, lengths=LENGTHS, total=None, left=False):
    """The samples, `size` to a batch, padded to the longest of the batch or to `total`."""
    tokens, found = samples(lengths), []
    for start in range(0, len(tokens), size):
        group = tokens[start : start + size]
        width = total or max(map(len, group))
        batch = {"input_ids": torch.zeros(len(group), width, dtype=torch.long)}
        batch["attention_mask"] = torch.zeros_like(batch["input_ids"])
        for row, sample in enumerate(group):
            place = slice(width - len(sample), width) if left else slice(len(sample))
            batch["input_ids"][row, place] = sample
            batch["attention_mask"][row, place] = 1
        found.append(batch)
    return found


def frame(path):
    return pq.read_table(path).to_pandas().set_index(["sample", "layer", "head", "matrix"])


def seen(model, tokens):
    """The (raw, refined) maps of one sample, each (layer, head, query, key)."""
    return [torch.cat(maps) for maps in zip(*families.seen(model, tokens[None]))]


def close(one, other, **options):
    one, other = (
        np.asarray(x.tolist() if hasattr(x, "tolist") else x, float) for x in (one, other)
    )
    np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5, **options)


class Tokenizer:
    """The few members of a tokenizer that matter."""

    cls_token_id, sep_token_id, eos_token_id = 2, 3, None

    def __len__(self):
        return 12

    def batch_decode(self, rows):
        return [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            ".",
            "##,",
            " !",
            "$",
            "a.",
            "word",
            "word",
            "?",
        ]


DIVIDED = {"one": batches(1), "three": batches(), "all": batches(7), "padded": batches(3, total=20)}


@pytest.mark.parametrize("data", DIVIDED.values(), ids=DIVIDED)
def test_every_row_of_the_table_is_the_diagnostic_of_one_unpadded_matrix(data, tmp_path):
    model = bert("high").eval()
    run(model, data, tmp_path / "a.parquet", beta=0.8, hops=3)
    table = frame(tmp_path / "a.parquet")
    assert len(table) == len(LENGTHS) * 2 * 2 * 2
    for sample, tokens in enumerate(samples()):
        pair = seen(model, tokens)
        for (name, maps), layer in itertools.product(zip(("raw", "refined"), pair), range(2)):
            found, attention = (
                table.loc[[(sample, layer, head, name) for head in range(2)]],
                maps[layer],
            )
            for measure, values in gtd_and_entropy.measure(attention, 0.8, 3).items():
                close(found[measure], values)
            close(found.moved, (attention - pair[0][layer]).abs().sum(-1).mean(-1) / 2)
            assert (found.tokens == len(tokens)).all()


@pytest.mark.parametrize("factor", [None, "high"])
def test_logits_values_and_hidden_states_are_those_of_one_unpadded_sequence(factor, tmp_path):
    model = bert(factor).eval()
    run(model, batches(3, total=20), tmp_path / "a.parquet")
    table = frame(tmp_path / "a.parquet")
    calls = []
    for sample, tokens in enumerate(samples()):
        calls.clear()
        with torch.no_grad(), observed(model, calls.append):
            hidden = model(tokens[None], output_hidden_states=True).hidden_states[1:]
        for (layer, call), head in itertools.product(enumerate(calls), range(2)):
            norms = call.value[0, head].norm(dim=-1)
            scores = call.query[0, head] @ call.key[0, head].T / 8**0.5
            states = hidden[layer].abs()
            for matrix in ("raw", "refined"):
                row = table.loc[sample, layer, head, matrix]
                close(row.max_logit, scores.max())
                close(row.massive_activation, states.max() / states.median())
                maps = seen(model, tokens)[matrix == "refined"] if factor else None
                if maps is not None:
                    sums = maps[layer, head].sum(0)
                    close(row.sink_value_norm, norms[sums.argmax()] / norms.median())


def test_refinement_shows_in_the_refined_matrices_only_and_a_plain_model_is_left_as_it_was(
    tmp_path,
):
    model = bert(attn_implementation="sdpa").train()
    # a part that is frozen
    model.encoder.layer[0].eval()
    training = [module.training for module in model.modules()]
    plain = run(model, batches(), tmp_path / "a.parquet")["matrices"]
    assert plain["raw"] == plain["refined"] and model.config._attn_implementation == "sdpa"
    assert [module.training for module in model.modules()] == training
    none = run(bert("none"), batches(), tmp_path / "b.parquet")["matrices"]
    close(plain["raw"]["gtd"], none["refined"]["gtd"])
    high = run(bert("high", strength=1.0), batches(), tmp_path / "c.parquet")["matrices"]
    close(high["raw"]["gtd"][0], plain["raw"]["gtd"][0])
    assert high["refined"]["gtd"] != high["raw"]["gtd"]
    assert min(high["refined"]["moved"][0]) > 0 and high["raw"]["moved"][0] == [0.0, 0.0]


def test_a_decoder_padded_on_the_left_is_measured_at_the_positions_of_its_real_tokens(tmp_path):
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2, n_positions=32, n_inner=16
    )
    model = saobp.apply(hf.GPT2LMHeadModel(config), "high", 0.5)
    data = batches(left=True)
    for batch in data:
        batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp_min(0)
    left = run(model, data, tmp_path / "a.parquet", tokenizer=Tokenizer())["matrices"]["refined"]
    right = run(model, batches(), tmp_path / "b.parquet")["matrices"]["refined"]
    close(left["positional_entropy"], right["positional_entropy"])
    close(left["gtd"], right["gtd"])
    # the first token sees itself alone
    assert left["positional_entropy"][0] == pytest.approx(0, abs=1e-6)


def test_the_summary_is_the_mean_of_the_table(tmp_path):
    whole = {"graph_nodes": np.int64(6), "hops": np.int64(3), "keep_maps": np.int64(1)}
    options = {
        "part_samples": 2,
        "beta": np.float32(0.5),
        "graph_threshold": np.float32(0),
        **whole,
    }
    found = run(bert("high"), batches(), tmp_path / "a.parquet", **options)
    table = frame(tmp_path / "a.parquet").drop(columns="tokens")
    assert (found["samples"], found["tokens"], found["layers"], found["heads"]) == (
        7,
        sum(LENGTHS),
        2,
        2,
    )
    for matrix in ("raw", "refined"):
        means, here = found["matrices"][matrix], table.xs(matrix, level="matrix")
        for name, column in here.items():
            close(means[name], column.groupby(["layer", "head"]).mean().unstack())
            close(means["by_layer"][name], column.groupby("layer").mean())
            close(means["overall"][name], column.mean())
            assert found["nan"][matrix][name] == column.isna().sum()
    assert json.loads(json.dumps(found)) == found == summary(tmp_path / "a.parquet")


def test_positional_entropy_and_cross_layer_gtd_are_means_over_the_samples_that_have_them(tmp_path):
    model = bert("high", layers=3).eval()
    found = run(model, batches(), tmp_path / "a.parquet", hops=3)["matrices"]["refined"]
    maps = [seen(model, tokens)[1] for tokens in samples()]
    entropies = [gtd_and_entropy.row_entropy(one).mean((0, 1)).tolist() for one in maps]
    positions = (
        [values[place] for values in entropies if len(values) > place]
        for place in range(max(LENGTHS))
    )
    close(found["positional_entropy"], [sum(values) / len(values) for values in positions])
    crossed = [gtd_and_entropy.cross_layer_gtd([*one[:, None]], hops=3).item() for one in maps]
    close(found["cross_layer_gtd"], [sum(crossed) / len(crossed)])
    assert (
        "cross_layer_gtd"
        not in run(model, batches(), tmp_path / "b.parquet", hops=4)["matrices"]["raw"]
    )


def test_undefined_values_are_counted_and_left_out_of_the_means_and_a_head_that_has_diverged_is_not_hidden(
    tmp_path,
):
    # one token: no Hoyer; fewer than three nodes: nobody has two neighbours
    lengths = (6, 1, 2)
    found = run(bert(), batches(3, lengths), tmp_path / "a.parquet", graph_nodes=40)
    counted = {name: found["nan"]["raw"][name] for name in ("hoyer", "clustering_binary", "gtd")}
    assert counted == {"hoyer": 4, "clustering_binary": 8, "gtd": 0}
    assert all(map(math.isfinite, sum(found["matrices"]["raw"]["hoyer"], [])))
    model = bert()
    # head 0 of the upper layer
    model.encoder.layer[1].attention.self.query.weight.data[:8] = math.nan
    found = run(model, batches(), tmp_path / "b.parquet")
    assert found["nan"]["raw"]["gtd"] == found["nan"]["raw"]["sparsity"] == len(LENGTHS)
    assert list(map(math.isnan, found["matrices"]["raw"]["gtd"][1])) == [True, False]


def test_graph_measures_are_those_of_the_first_real_tokens_and_kept_maps_are_whole_and_without_padding(
    tmp_path,
):
    model = bert("high").eval()
    options = {"graph_nodes": 5, "graph_threshold": 0.01, "keep_maps": 3, "part_samples": 2}
    run(model, batches(2), tmp_path / "a.parquet", **options)
    table, kept = frame(tmp_path / "a.parquet"), np.load(tmp_path / "a.maps.npz")
    assert sorted(kept.files) == sorted(
        f"{n}_{i}" for n in ("raw", "refined", "input_ids") for i in range(3)
    )
    for sample, tokens in enumerate(samples()):
        raw, refined = seen(model, tokens)
        for name, values in graph_measures(raw[1], 5, 0.01).items():
            close(
                table.loc[[(sample, 1, head, "raw") for head in range(2)], name],
                values,
                equal_nan=True,
            )
        if sample < 3:
            assert kept[f"input_ids_{sample}"].tolist() == tokens.tolist()
            close(kept[f"raw_{sample}"], raw)
            close(kept[f"refined_{sample}"], refined)


def test_the_shares_of_cls_sep_punctuation_and_content_sum_to_one_and_are_those_of_their_columns(
    tmp_path,
):
    names, classes = token_classes(Tokenizer())
    assert names == ("cls", "sep", "punctuation", "content")
    assert classes[:10].tolist() == [3, 3, 0, 1, 2, 2, 2, 2, 3, 3]
    # of which some are beyond the tokenizer's: content
    tokens = torch.tensor([[2, 10, 4, 59, 3], [2, 12, 3, 0, 0]])
    model = bert("high").eval()
    data = [{"input_ids": tokens, "attention_mask": (tokens > 0).long()}]
    run(model, data, tmp_path / "a.parquet", tokenizer=Tokenizer())
    table = frame(tmp_path / "a.parquet")
    np.testing.assert_allclose(table[[f"mass_{name}" for name in names]].sum(axis=1), 1, atol=1e-5)
    refined = seen(model, tokens[0])[1][0]
    for name, columns in zip(names, ([0], [4], [2], [1, 3])):
        expected = refined[..., columns].sum(-1).mean(-1)
        close(table.loc[[(0, 0, head, "refined") for head in range(2)], f"mass_{name}"], expected)


def test_without_a_cls_token_the_first_real_token_has_a_class_of_its_own(tmp_path):
    tokenizer = Tokenizer()
    tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.eos_token_id = None, None, 5
    names, kinds = token_classes(tokenizer)
    # a decoder's end is its separator
    assert names[0] == "first" and kinds[5] == 1
    model = bert("high").eval()
    run(model, batches(left=True), tmp_path / "a.parquet", tokenizer=tokenizer)
    batch = batches(left=True)[0]
    column = batch["attention_mask"][1].argmax()
    expected = families.seen(model, **batch)[1][1][1, :, column:, column].mean(-1)
    close(
        frame(tmp_path / "a.parquet").loc[[(1, 1, h, "refined") for h in range(2)], "mass_first"],
        expected,
    )


def test_a_factor_of_the_callers_own_is_measured_again_and_maps_are_of_this_capture_or_gone(
    tmp_path, monkeypatch
):
    path, maps, found = tmp_path / "a.parquet", tmp_path / "a.maps.npz", []
    for power in (1.0, 0.5):
        own = lambda prior, *_, power=power: prior**power / (prior**power).sum(-1, keepdim=True)  # noqa: E731
        monkeypatch.setitem(saobp.equations.factors.OWN, "mine", own)
        found.append(
            run(bert("mine"), batches(), path, keep_maps=2)["matrices"]["refined"]["overall"][
                "entropy"
            ]
        )
    assert found[1] > found[0] and maps.exists()
    run(bert("high"), batches(), path)
    assert not maps.exists()
    run(bert("high"), batches(), path, keep_maps=2)
    maps.unlink()
    run(bert("high"), batches(), path, keep_maps=2)
    assert maps.exists()


def failing(data, after, kill=False):
    yield from data[:after]
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("power cut")


def counting(model):
    """Count the model's forward passes; with a hook, which may change them, a capture would start
    over.
    """
    calls, forward = [], model.forward

    @functools.wraps(forward)
    def counted(*given, **named):
        calls.append(1)
        return forward(*given, **named)

    model.forward = counted
    return calls


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_was_finished_before_a_failure_or_a_kill_is_not_computed_again(kill, tmp_path):
    model, data, path = bert("high"), batches(1), tmp_path / "a.parquet"
    options = {"part_samples": 2, "keep_maps": 2}
    calls = counting(model)
    child = os.fork() if kill else None
    if child:
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    else:
        try:
            with pytest.raises(RuntimeError, match="power cut"):
                run(model, failing(data, 5, kill), path, **options)
        finally:
            if kill:
                # not reached, unless the capture fails first
                os._exit(1)
        # the fifth batch's part was never full
        assert len(calls) == 4
    assert not path.exists()
    calls.clear()
    resumed = run(model, data, path, **options)
    assert len(calls) == 3
    assert resumed == run(model, data, tmp_path / "b.parquet", **options)
    assert pq.read_table(path).equals(pq.read_table(tmp_path / "b.parquet"))
    assert sorted(os.listdir(tmp_path)) == ["a.maps.npz", "a.parquet", "b.maps.npz", "b.parquet"]


# plain: transformers leaves hooks of its own on it
@pytest.mark.parametrize("factor", ["high", None])
def test_a_finished_capture_is_returned_without_running_the_model(factor, tmp_path):
    model, path = bert(factor) if factor else bert(), tmp_path / "a.parquet"
    first, calls = run(model, batches(), path), counting(model)
    assert run(model, batches(), path) == first and not calls
    run(model, batches(), path, resume=False)
    assert len(calls) == 3


def test_a_capture_of_something_else_is_never_taken_for_this_one(tmp_path):
    model, path = bert("high", kind=hf.BertForMaskedLM), tmp_path / "a.parquet"
    first, layer = run(model, batches(), path), model.bert.encoder.layer[0]
    changes = {
        "weights": lambda: layer.attention.self.query.weight.data[0, 0].add_(1),
        "strength": lambda: saobp.apply(model, "high", 0.3),
        "strength of the body alone": lambda: saobp.apply(model.bert, "high", 2.0),
        "buffer": lambda: model.bert.embeddings.token_type_ids.fill_(1),
        "hook": lambda: layer.register_forward_hook(lambda module, given, out: 0 * out),
        "inputs": lambda: data[1]["input_ids"][0, 0].fill_(5),
        "rows": lambda: data[2].update(
            {name: values.reshape(2, -1) for name, values in data[2].items()}
        ),
        "plan": lambda: options.update(beta=0.5),
    }
    data, options = batches(), {}
    for name, change in changes.items():
        change()
        found = run(model, data, path, **options)
        assert found == run(model, data, tmp_path / f"{name}.parquet", **options) != first, name
        first = found


def test_parts_of_other_inputs_beside_the_file_are_not_mixed_in(tmp_path):
    model, path = bert("high"), tmp_path / "a.parquet"
    with pytest.raises(RuntimeError):
        run(model, failing(batches(1), 6), path, part_samples=2, keep_maps=4)
    other = batches(1, LENGTHS[::-1])
    found = run(model, other, path, part_samples=2, keep_maps=1)
    assert found == run(model, other, tmp_path / "b.parquet", part_samples=2, keep_maps=1)
    assert len(np.load(tmp_path / "a.maps.npz").files) == 3
    path, data = tmp_path / "c.parquet", batches(1)
    with pytest.raises(RuntimeError):
        run(model, failing(data, 5), path, part_samples=2)
    # nor are the numbers of their samples
    run(model, [batches(3)[0], data[2], data[3]], path, part_samples=2)
    assert pq.read_table(path)["sample"].unique().to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_peak_memory_does_not_grow_with_the_number_of_samples(tmp_path):
    model = bert("high", layers=4)
    data = [{"input_ids": torch.randint(4, VOCABULARY, (8, 96))}]
    # MiB of one batch, raw and refined
    maps = 8 * 4 * 2 * 96 * 96 * 4 * 2 / 2**20
    # whose peak is its own, not that of the tests before
    child, grown = os.fork(), math.inf
    if child == 0:
        try:
            run(model, data * 2, tmp_path / "a.parquet", part_samples=16)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            run(model, data * 12, tmp_path / "b.parquet", part_samples=16)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        finally:
            # of the 10 batches more
            os._exit(not grown < 4 * maps)
    assert os.waitpid(child, 0)[1] == 0


def test_attention_on_padding_is_refused(tmp_path):
    class Deaf(hf.BertModel):
        def forward(self, input_ids, attention_mask=None, **options):
            return super().forward(input_ids, **options)

    with pytest.raises(ValueError, match="^model: .*padding"):
        run(bert(kind=Deaf), batches(), tmp_path / "a.parquet")


def test_a_capture_that_fails_while_its_file_is_joined_leaves_no_file(tmp_path, monkeypatch):
    written, whole = [], pq.ParquetWriter.write_table

    def full(self, *given, **options):
        written.append(1)
        # three parts have been written, the disk is full at the whole
        if len(written) == 4:
            raise OSError("disk full")
        return whole(self, *given, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(OSError, match="disk full"):
        run(bert("high"), batches(), tmp_path / "a.parquet", part_samples=3)
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hops", 4.9),
        ("hops", "4"),
        ("beta", True),
        ("beta", None),
        ("graph_threshold", "x"),
        ("keep_maps", True),
        ("keep_maps", -1),
        ("part_samples", 0),
        ("tokenizer", "x"),
    ],
)
def test_a_number_that_is_none_is_refused_by_its_name(name, value, tmp_path):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        run(bert(), batches(), tmp_path / "a.parquet", **{name: value})
