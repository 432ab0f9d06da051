"""The callback logs the model's attention, changes nothing in the training."""

import families
import pytest
import torch
import transformers as hf

import saobp
from saobp import AttentionCallback
from saobp.measure.callback import measured

NAMES = {"column_sum", "row_entropy", "sink_rate", "max_logit", "gtd"}


def texts(count, length=12):
    ids = torch.randint(3, families.VOCABULARY, (count, length))
    return [{"input_ids": row, "labels": row} for row in ids]


def trained(tmp_path, factor, every=None, **options):
    """Train a small model for four steps and return its trainer and callback."""
    hf.set_seed(0)
    model = hf.BertForMaskedLM(hf.BertConfig(**families.TOKENS, **families.SIZES))
    model = saobp.apply(model, factor) if factor else model
    arguments = hf.TrainingArguments(
        str(tmp_path),
        max_steps=4,
        logging_steps=1,
        per_device_train_batch_size=8,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = hf.Trainer(model, arguments, train_dataset=texts(32))
    callback = AttentionCallback(trainer, every=every, **options) if every else None
    if callback:
        trainer.add_callback(callback)
    trainer.train()
    return trainer, callback


@pytest.mark.parametrize("factor", [None, "high"])
def test_the_numbers_of_every_layer_stand_in_the_log(factor, tmp_path):
    trainer, callback = trained(tmp_path, factor, every=2, sequences=3)
    logged = [entry for entry in trainer.state.log_history if "attention/layer_1/gtd" in entry]
    assert [entry["step"] for entry in logged] == [2, 4]
    keys = {f"attention/layer_{layer}/{name}" for layer in (1, 2) for name in NAMES}
    assert keys <= logged[0].keys() and callback.batch["input_ids"].shape == (3, 12)
    now = measured(trainer.model, callback.batch)
    assert {f"attention/{name}": value for name, value in now.items()}.items() <= logged[1].items()
    with (
        torch.no_grad(),
        saobp.models.apply.raw_attentions(
            saobp.apply(trainer.model.eval(), factor or "none")
        ) as pairs,
    ):
        trainer.model(**callback.batch)
    for layer, (_, attention) in enumerate(pairs, start=1):
        entropy = saobp.attention_entropy(attention).mean().item()
        assert now[f"layer_{layer}/row_entropy"] == pytest.approx(entropy, abs=1e-4)
        largest = attention.sum(-2).amax(-1).mean().item()
        assert now[f"layer_{layer}/column_sum"] == pytest.approx(largest, abs=1e-4)
        gtd = saobp.gtd(attention).mean().item()
        assert now[f"layer_{layer}/gtd"] == pytest.approx(gtd, abs=1e-4)


def test_the_training_is_the_same_with_and_without_it(tmp_path):
    with_it, _ = trained(tmp_path, "high", every=1)
    without, _ = trained(tmp_path, "high")
    for name, weight in without.model.state_dict().items():
        assert torch.equal(weight, with_it.model.state_dict()[name]), name
    assert with_it.model.training == without.model.training


def test_without_probes_gtd_is_left_out(tmp_path):
    trainer, _ = trained(tmp_path, None, every=4, probes=0)
    entry = next(e for e in trainer.state.log_history if "attention/layer_1/row_entropy" in e)
    assert "attention/layer_1/gtd" not in entry


class OneHot(hf.BertForMaskedLM):
    """A model whose own forward makes what its body reads."""

    def forward(self, words, labels=None, **kwargs):
        embedded = self.bert.embeddings.word_embeddings(words)
        return super().forward(inputs_embeds=embedded, labels=labels, **kwargs)


def test_a_model_with_inputs_of_its_own_is_measured_on_them():
    model = OneHot(hf.BertConfig(**families.TOKENS, **families.SIZES)).train()
    words = torch.randint(3, families.VOCABULARY, (4, 12))
    callback = AttentionCallback(None, sequences=2)
    callback.on_train_begin(None, None, None, model)
    model(words=words, labels=words)
    numbers = measured(model, callback.batch)
    assert callback.batch["words"].tolist() == words[:2].tolist()
    assert numbers["layer_2/row_entropy"] > 0 and model.training


@pytest.mark.parametrize(
    ("options", "words"),
    [({"every": 0}, "every must be"), ({"sequences": 0}, "sequences must be")],
)
def test_numbers_that_mean_nothing_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        AttentionCallback(None, **options)


def test_a_model_that_cannot_be_measured_is_refused_before_the_first_step():
    model = saobp.apply(families.build("bert"), "elemmul")
    before = dict(model._forward_pre_hooks)
    with pytest.raises(ValueError, match="needs the L x L matrix"):
        AttentionCallback(None).on_train_begin(None, None, None, model)
    assert dict(model._forward_pre_hooks) == before
