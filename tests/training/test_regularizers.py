import math

import pytest
import torch
from safetensors.torch import load_file
from small_models import RandomText, network, pretrain, word_tokenizer

from companion.data import masking
from companion.training import regularizers
from companion.training.regularizers import EntropyRegularizer, SpectrumRegularizer


def attentions(layers=2, batch=3, heads=2, length=6, seed=0, sharp=3.0):
    generator = torch.Generator().manual_seed(seed)
    return [
        (sharp * torch.randn(batch, heads, length, length, generator=generator)).softmax(-1)
        for _ in range(layers)
    ]


def literal_entropy_penalty(layers, thresholds, tolerance):
    total = 0.0
    for layer, row_of_thresholds in zip(layers, thresholds):
        heads, length = layer.shape[1:3]
        for head in range(heads):
            rows = layer[:, head].reshape(-1, length).tolist()
            entropy = -sum(p * math.log(p) for row in rows for p in row if p > 0) / len(rows)
            deviation = entropy - row_of_thresholds[head] * math.log(length)
            total += deviation**2 / heads if abs(deviation) > tolerance * math.log(length) else 0
    return total / len(layers)


def test_entropy_penalty_equals_its_authors_algorithm():
    layers, thresholds = attentions(), [[0.1, 0.9], [0.5, 1.0]]
    penalty = EntropyRegularizer(2, 2, coefficient=1.0, tolerance=0.2)
    with torch.no_grad():
        penalty.offset.copy_(torch.tensor(thresholds) - 0.5)
    expected = literal_entropy_penalty(layers, thresholds, 0.2)
    assert expected > 0
    assert penalty(layers).item() == pytest.approx(expected, rel=1e-5)
    assert EntropyRegularizer(2, 2, tolerance=1.0)(layers).item() == 0, "within the tolerance"
    assert all(EntropyRegularizer(2, 2)(attentions(sharp=sharp)) > 0 for sharp in (30.0, 0.01)), (
        "low and high alike"
    )


def test_padded_rows_do_not_count_and_one_hot_attention_has_a_finite_gradient():
    layers, real = attentions(layers=1), torch.ones(3, 6, dtype=torch.bool)
    real[:, 4:] = False
    changed = layers[0].clone()
    changed[:, :, 4:] = torch.eye(6)[4:]
    penalty = EntropyRegularizer(1, 2, coefficient=1.0, tolerance=0.0)
    assert penalty([changed], real) == penalty(layers, real)
    assert penalty([changed]) != penalty(layers)
    layer = torch.eye(4).expand(1, 2, 4, 4).clone().requires_grad_()
    EntropyRegularizer(1, 2, coefficient=1.0)([layer]).backward()
    assert layer.grad.isfinite().all()


@pytest.mark.parametrize(("length", "coefficient"), [(128, 1e-5), (256, 1e-5), (512, 5e-5)])
def test_the_coefficient_is_the_authors_for_the_length(length, coefficient):
    one_hot, expected = (
        [torch.eye(length).expand(1, 1, length, length)],
        coefficient * (0.5 * math.log(length)) ** 2,
    )
    assert EntropyRegularizer(1, 1)(one_hot).item() == pytest.approx(expected, rel=1e-4)


def test_spectrum_penalty_is_the_variance_of_eigenvalues_and_the_square_of_how_far_their_mean_has_moved():
    pairs = [(torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)) for _ in range(2)]
    penalty = SpectrumRegularizer(pairs, 3, coefficient=2.0)
    start, spread = penalty.moments()
    for layer, (query, key) in enumerate(pairs):
        for head in range(3):
            rows = slice(4 * head, 4 * head + 4)
            product = query.weight[rows].T @ key.weight[rows]
            eigenvalues = torch.linalg.eigvalsh((product + product.T) / 2)
            assert start[layer, head].item() == pytest.approx(eigenvalues.mean().item(), abs=1e-6)
            assert spread[layer, head].item() == pytest.approx(
                eigenvalues.var(correction=0).item(), rel=1e-4
            )
    # nothing has moved yet
    assert penalty().item() == pytest.approx(2 * spread.mean().item())
    with torch.no_grad():
        for query, _ in pairs:
            query.weight.mul_(4)
    mean, variance = penalty.moments()
    assert (mean - start).abs().max() > 0.05
    assert penalty().item() == pytest.approx(2 * (variance + (mean - start).square()).mean().item())


@pytest.mark.parametrize("algorithm", ["entropy_reg", "eigen_reg"])
def test_a_penalty_is_in_the_training_loss_and_nowhere_else(algorithm):
    model = network(algorithm)
    names = set(model.state_dict())
    inputs = masking.SeededMasking(word_tokenizer(), 0.3, 0)([RandomText()[k] for k in range(4)])
    plain = model.train()(**inputs).loss.item()
    assert not hasattr(regularizers.attach(model, "high"), regularizers.NAME), (
        "other algorithms get none"
    )
    regularizers.attach(model, algorithm, coefficient=10.0)
    with_penalty = model(**inputs)
    assert with_penalty.loss.item() > plain + 1e-4
    with_penalty.loss.backward()
    assert model.bert.encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0
    assert model.eval()(**inputs).loss.item() == pytest.approx(plain, abs=1e-6)
    regularizers.detach(model)
    assert model.train()(**inputs).loss.item() == pytest.approx(plain, abs=1e-6)
    assert set(model.state_dict()) == names


@pytest.mark.parametrize("algorithm", ["entropy_reg", "eigen_reg"])
def test_a_penalty_and_its_thresholds_survive_in_checkpoints(algorithm, tmp_path):
    model = regularizers.attach(network(algorithm), algorithm)
    pretrain(model, tmp_path, steps=6)
    saved = load_file(tmp_path / "checkpoint-6" / "model.safetensors")
    kept = {name for name in saved if name.startswith(regularizers.NAME)}
    assert kept == {"regularizer.offset" if algorithm == "entropy_reg" else "regularizer.start"}
    if algorithm == "entropy_reg":
        # they were learned
        assert saved["regularizer.offset"].abs().max() > 0
