"""The studies of sparing the sink and of the dose: text, factors, scores and the records."""

import datasets
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from small_models import word_tokenizer
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import saobp
from companion import records
from companion.data.splits import DataError
from companion.evaluation import settled_beliefs
from companion.studies import plan
from companion.studies.spare import dose, factors, passages, run, similarity
from companion.studies.spare.sections import Dose, Spare
from saobp.models.models_by_name import Opened

SPARE = plan.section(plan.file(), "spare", Spare)
DOSE = plan.section(plan.file(), "dose", Dose)
SMALL_TEXT = SPARE.decoder.changed(blocks={32: 4, 16: 4}, after=100, novels=["A", "B"])
SMALL_PAIRS = SPARE.encoder.changed(pairs={"stsb": 12, "mrpc": 15, "qqp": None})


class Texts:
    """A source whose texts are random words, from a list of numbers so that each can be told."""

    name = "mirror"

    def load(self, dataset, config, split):
        random = np.random.default_rng(len(dataset))
        words = [f"w{n}" for n in random.integers(100, size=4000)]
        if dataset == "Salesforce/wikitext":
            return datasets.Dataset.from_dict({"text": [" ".join(words)]})
        if dataset == "local/novels":
            half = [" ".join(words[:2000]), " ".join(words[2000:])]
            return datasets.Dataset.from_dict({"text": half, "book": ["A", "B"]})
        first, second = (
            ("question1", "question2") if config == "qqp" else ("sentence1", "sentence2")
        )
        texts = [" ".join(words[n : n + 3 + n % 5]) for n in range(40)]
        labels = [n % 5 for n in range(20)] if config == "stsb" else [n % 2 for n in range(20)]
        return datasets.Dataset.from_dict({first: texts[:20], second: texts[20:], "label": labels})

    def completeness(self, dataset, config, split):
        known = {"rows": 20, "hub_rows": 20, "complete": True, "note": ""}
        return {"dataset": dataset, "config": config, "split": split} | known


def encoder():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(num_hidden_layers=2, vocab_size=105, initializer_range=0.5, **shape)
    return BertModel(config).eval(), word_tokenizer()


def decoder():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}
    config = LlamaConfig(num_hidden_layers=2, vocab_size=105, initializer_range=0.5, **shape)
    return Opened("a decoder", LlamaForCausalLM(config).eval(), word_tokenizer(), "of a file")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("companion.data.sources.resolve", lambda name: Texts())
    monkeypatch.setattr("saobp.models.public.load", lambda name: encoder())
    for module in (run, dose):
        monkeypatch.setattr(module, "opened", decoder)


def random_attention(causal, length=7):
    scores = torch.randn(2, 2, length, length, dtype=torch.float64)
    visible = torch.ones(length, length, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    return scores.masked_fill(~visible, -torch.inf).softmax(-1), visible


def messages_to(row, length, causal):
    return [i for i in range(row if causal else length) if i != row]


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_on_the_sink_alone_is_that_of_a_loop_over_rows(causal):
    prior, visible = random_attention(causal)
    refined = factors.sink_alone(prior, torch.tensor(0.7, dtype=prior.dtype), visible)
    change = 1 - np.exp(-0.7)
    for matrix, ours in zip(prior.flatten(0, 1), refined.flatten(0, 1)):
        expected = matrix.clone()
        for row in range(len(matrix)):
            for i in messages_to(row, len(matrix), causal):
                expected[row, 0] *= 1 - change * matrix[i, 0]
        torch.testing.assert_close(ours, expected / expected.sum(-1, keepdim=True))


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_on_the_sink_alone_is_high_with_every_other_key_spared(causal):
    prior, visible = random_attention(causal)
    others = torch.arange(prior.shape[-1]) > 0
    expected = saobp.refine(prior, "high", 0.7, causal=causal, spare=others)
    refined = factors.sink_alone(prior, torch.tensor(0.7, dtype=prior.dtype), visible)
    torch.testing.assert_close(refined, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_the_damped_step_is_that_of_a_loop_over_rows(causal):
    prior, visible = random_attention(causal)
    refined = factors.damped(prior, torch.tensor(0.3, dtype=prior.dtype), visible)
    for matrix, ours in zip(prior.flatten(0, 1), refined.flatten(0, 1)):
        expected = matrix.clone()
        for row in range(len(matrix)):
            heard = matrix[: row + 1] if causal else matrix
            slope = 1 + 0.3 * (heard * (1 - heard)).sum(0)
            expected[row] *= torch.exp(-0.3 * heard.sum(0) / slope)
        torch.testing.assert_close(ours, expected / expected.sum(-1, keepdim=True))


def test_the_damped_step_of_all_rows_is_that_of_the_convex_function():
    prior, visible = random_attention(False)
    refined = factors.damped(prior, torch.tensor(0.3, dtype=prior.dtype), visible)
    for matrix, ours in zip(prior.flatten(0, 1), refined.flatten(0, 1)):
        bias = settled_beliefs.damped_bias(matrix.log(), 0.3)
        torch.testing.assert_close(ours, (matrix.log() + bias).softmax(-1))


def test_both_factors_pass_the_trial_of_a_registered_factor():
    factors.register()


def test_blocks_and_passages_are_taken_apart_from_what_was_read_and_from_each_other():
    tokenizer = word_tokenizer()
    design = SMALL_TEXT.changed(after=600)
    parts, splits = passages.stretches(design, Texts(), tokenizer)
    words = Texts().load("Salesforce/wikitext", None, "")["text"][0]
    text = tokenizer(words, add_special_tokens=False)["input_ids"]
    first, second, *novels = parts
    assert [part.source for part in parts] == ["wikitext"] * 2 + ["novels"] * 2
    assert first.tokens == text[600:1160] and second.tokens == text[-560:]
    assert len({tuple(part.tokens) for part in novels}) == 2
    taken = [passages.blocks(design, parts, length)[0].tokens for length in (32, 16)]
    taken.append(passages.dose_passages(parts, 2)[0].tokens)
    assert sum(taken, []) == first.tokens
    assert not any(split["complete"] for split in splits) and len(splits) == 2


@pytest.mark.parametrize(
    ("length", "marks", "count"), [(16, None, 32), (16, (1, 2), 32), (512, (1, 2), 1)]
)
def test_a_passage_is_cut_into_pieces_of_the_length_that_share_no_token(length, marks, count):
    cut = passages.pieces(list(range(1000, 1512)), length, marks)
    assert len(cut) == count and {len(piece) for piece in cut} == {length}
    bodies = [piece[1:-1] if marks else piece for piece in cut]
    assert sum(bodies, []) == list(range(1000, 1000 + count * (length - 2 * bool(marks))))
    if marks:
        assert {(piece[0], piece[-1]) for piece in cut} == {marks}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"novels": ["A", "C"]}, "novels: local/novels validation has no C; choose among A, B"),
        ({"after": 3990}, "wikitext: 10 tokens do not hold 2 stretches of 560; ask for fewer"),
        ({"blocks": {32: 4, 16: 8}}, r"blocks: \[4, 8\] do not divide .*; give every length"),
        ({"blocks": {32: 6, 16: 6}}, r"blocks: \[6\] do not divide among WikiText and 2 novels"),
    ],
)
def test_text_that_cannot_be_had_is_refused_in_one_line(changes, said):
    with pytest.raises(DataError, match=f"^{said}") as error:
        passages.stretches(SMALL_TEXT.changed(**changes), Texts(), word_tokenizer())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("count", [3, 6])
def test_more_passages_than_stretches_and_an_odd_number_are_refused(count):
    parts, _ = passages.stretches(SMALL_TEXT, Texts(), word_tokenizer())
    with pytest.raises(DataError, match=f"^passages: {count} cannot be halved among 2 stretches"):
        passages.dose_passages(parts, count)


def test_a_score_is_a_rank_correlation_or_the_share_of_pairs_in_the_right_order():
    random = np.random.default_rng(0)
    predicted, gold = random.normal(size=(2, 50))
    assert similarity.score("stsb", predicted, gold) == 100 * spearmanr(predicted, gold).statistic
    duplicate = gold > 0
    order = predicted[duplicate][:, None] > predicted[~duplicate]
    assert similarity.score("qqp", predicted, duplicate) == pytest.approx(100 * order.mean())


@pytest.mark.parametrize("name", ["stsb", "mrpc"])
def test_the_score_of_a_draw_is_the_score_of_the_pairs_drawn(name):
    random = np.random.default_rng(1)
    # with ties
    gold = random.integers(6 if name == "stsb" else 2, size=40)
    predicted = random.integers(12, size=40) / 10 + gold
    rows = random.integers(40, size=(3, 40))
    expected = [similarity.score(name, predicted[row], gold[row]) for row in rows]
    assert similarity.resampled_scores(name, predicted, gold, rows) == pytest.approx(expected)


def test_changes_are_of_the_same_pairs_and_their_mean_is_over_the_sets():
    random = np.random.default_rng(0)
    gold = {"stsb": random.normal(size=80), "mrpc": random.integers(2, size=60)}
    plain = {name: values + random.normal(size=len(values)) for name, values in gold.items()}
    same = similarity.differences(plain, plain, gold, draws=10)
    nothing = {"difference": 0.0, "interval": [0, 0], "interval_90": [0, 0]}
    assert same == dict.fromkeys([*gold, similarity.MEAN], nothing)
    better = similarity.differences(gold, plain, gold, draws=100)
    for change in better.values():
        (low, high), (inner, outer) = change["interval"], change["interval_90"]
        assert 0 < low < inner < change["difference"] < outer <= high
    mean = (better["stsb"]["difference"] + better["mrpc"]["difference"]) / 2
    assert better[similarity.MEAN]["difference"] == pytest.approx(mean)


def made(entries, folder, chosen):
    for name, make, _ in entries:
        if name in chosen:
            make(folder / f"{name}.json", folder)
    return {path.stem: records.read(path) for path in sorted(folder.glob("*.json"))}


def test_each_arm_of_the_encoder_has_a_record_and_their_changes_one_more(tmp_path):
    design = SMALL_PAIRS.changed(strengths=[0.5])
    study = SPARE.changed(encoder=design)
    names = [f"spare-minilm-{name}-0.5" for name in (*design.arms, *design.exploratory)]
    found = made(run.records_of(study), tmp_path, {"spare-minilm-original", *names})
    assert set(found) == {"spare-minilm-original", *names}
    plain = found["spare-minilm-original"]["metrics"]["sets"]
    assert {name: entry["pairs"] for name, entry in plain.items()} == {
        "stsb": 12,
        "mrpc": 15,
        "qqp": 20,
    }
    cosines = [tuple(found[name]["metrics"]["sets"]["qqp"]["cosines"]) for name in found]
    assert len(set(cosines)) == len(found)
    (intervals,) = made(run.records_of(study), tmp_path, {"spare-minilm-intervals"}).keys() - set(
        found
    )
    changes = records.read(tmp_path / f"{intervals}.json")["metrics"]["changes"]
    assert [change["arm"] for change in changes] == [*design.arms, *design.exploratory]
    (high,) = (change["sets"]["mrpc"] for change in changes if change["arm"] == "high")
    scores = [
        found[name]["metrics"]["sets"]["mrpc"]["score"]
        for name in ("spare-minilm-high-0.5", "spare-minilm-original")
    ]
    assert high["difference"] == pytest.approx(scores[0] - scores[1])


def test_changes_are_refused_while_an_arm_is_missing(tmp_path):
    path = tmp_path / "spare-minilm-intervals.json"
    with pytest.raises(ValueError, match="spare-minilm-original.json: not there yet") as error:
        run.run_intervals(SMALL_PAIRS, path, tmp_path)
    assert "\n" not in str(error.value)


def test_each_arm_of_the_decoder_has_a_record_of_every_block(tmp_path):
    design = SMALL_TEXT.changed(strengths=[0.5])
    found = made(
        run.records_of(SPARE.changed(decoder=design)),
        tmp_path,
        {f"spare-smollm2-{name}" for name in ("original", "first-0.5", "high-0.5", "uniform-0.5")},
    )
    assert len(found) == 4
    lengths = {name: set(record["metrics"]["blocks"]) for name, record in found.items()}
    assert lengths.pop("spare-smollm2-uniform-0.5") == {"16"}
    assert set(map(frozenset, lengths.values())) == {frozenset({"16", "32"})}
    blocks = [found[name]["metrics"]["blocks"]["16"] for name in found]
    assert {tuple(block["sources"]) for block in blocks} == {("wikitext",) * 2 + ("novels",) * 2}
    assert len({tuple(block["losses"]) for block in blocks}) == 4


def test_the_loss_of_a_block_is_the_mean_of_its_predicted_tokens():
    model = decoder().model
    tokens = torch.randint(5, 105, (3, 9))
    blocks = [passages.Stretch("", row.tolist()) for row in tokens]
    expected = [model(input_ids=row[None], labels=row[None]).loss.item() for row in tokens]
    assert run.block_losses(model, blocks) == pytest.approx(expected)


@pytest.mark.parametrize("model", ["minilm", "smollm2"])
def test_the_dose_has_a_cell_per_length_and_passage_and_none_does_harm_at_strength_0(
    tmp_path, model
):
    study = DOSE.changed(strengths=[0.5], lengths=[16, 64], passages={model: 2})
    names = {f"dose-{model}-0", f"dose-{model}-0.5"}
    found = made(dose.records_of(study, SMALL_TEXT), tmp_path, names)
    plain, refined = (found[name]["metrics"]["cells"] for name in sorted(names))
    places = [(cell["length"], cell["passage"]) for cell in plain]
    assert places == [(16, 0), (16, 1), (64, 0), (64, 1)]
    for before, after in zip(plain, refined):
        assert len(before["sink_by_layer"]) == 2
        assert after["sink_by_layer"][0] < before["sink_by_layer"][0]
        assert after["entropy_by_layer"] != before["entropy_by_layer"]
        assert after["harm"] != before["harm"]
    if model == "minilm":
        assert [cell["harm"] for cell in plain] == pytest.approx([0] * 4, abs=1e-6)
