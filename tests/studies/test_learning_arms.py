"""The forms of attention of the study `learning`, against loops written from their equations."""

import math

import pytest
import torch
from scipy.optimize import brentq

import saobp
from companion.setup.studies import load_study
from companion.studies.hops import questions
from companion.studies.hops import run as multihop
from companion.studies.learning import arms

STRENGTH = 0.2
LENGTH = 6
STORIES = load_study("stories").multihop.changed(hidden=16, heads=2, items=4)


def scores_of(seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    shape = (2, 2, LENGTH, LENGTH)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def softmax(row):
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def literal_bias(attention):
    """B_jk = sum over i != j of log(1 - (1 - e^-strength) A_ik), entry by entry."""
    change = 1 - math.exp(-STRENGTH)
    bias = [[0.0] * LENGTH for _ in range(LENGTH)]
    for j in range(LENGTH):
        for k in range(LENGTH):
            for i in range(LENGTH):
                if i != j:
                    bias[j][k] += math.log(1 - change * attention[i][k])
    return bias


def literal_rows(scores, bias):
    return [softmax([s + b for s, b in zip(*rows)]) for rows in zip(scores, bias)]


def literal_entropy(attention):
    return -sum(value * math.log(value) for row in attention for value in row)


def literal_high(scores):
    attention = [softmax(row) for row in scores]
    return literal_rows(scores, literal_bias(attention))


def literal_rolled(scores):
    bias = literal_bias([softmax(row) for row in scores])
    moved = [[row[(k - 1) % LENGTH] for k in range(LENGTH)] for row in bias]
    return literal_rows(scores, moved)


def literal_temperature(scores):
    target = literal_entropy(literal_high(scores))

    def excess(inverse):
        return literal_entropy([softmax([inverse * s for s in row]) for row in scores]) - target

    inverse = 1.0 if excess(1.0) >= 0 else brentq(excess, 0.01, 1.0, xtol=1e-12)
    return [softmax([inverse * s for s in row]) for row in scores]


def literal_plus_one(scores):
    rows = []
    for row in scores:
        total = 1 + sum(math.exp(value) for value in row)
        rows.append([math.exp(value) / total for value in row])
    return rows


def literal_damped(scores):
    attention = [softmax(row) for row in scores]
    bias = []
    for k in range(LENGTH):
        load = sum(row[k] for row in attention)
        curvature = sum(row[k] * (1 - row[k]) for row in attention)
        bias.append(-STRENGTH * load / (1 + STRENGTH * curvature))
    return literal_rows(scores, [bias] * LENGTH)


def literal_settled(scores):
    bias = [0.0] * LENGTH
    for _ in range(4000):
        attention = literal_rows(scores, [bias] * LENGTH)
        wanted = [-STRENGTH * sum(row[k] for row in attention) for k in range(LENGTH)]
        bias = [0.7 * b + 0.3 * w for b, w in zip(bias, wanted)]
    return literal_rows(scores, [bias] * LENGTH)


LITERAL = {
    "detached": literal_high,
    "straight-through": lambda scores: [softmax(row) for row in scores],
    "rolled": literal_rolled,
    "temperature": literal_temperature,
    "plus-one": literal_plus_one,
    "learned-bias": lambda scores: [softmax(row) for row in scores],
    "settled": literal_settled,
    "damped": literal_damped,
}


@pytest.mark.parametrize("arm", LITERAL)
def test_an_arm_s_attention_is_its_equation_in_loops(arm):
    scores = scores_of()
    attention = arms.FORMS[arm](scores, STRENGTH)
    expected = [[LITERAL[arm](head) for head in story] for story in scores.tolist()]
    # the temperature ends where its interval was halved often enough
    tolerance = 1e-3 if arm == "temperature" else 1e-9
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(attention, expected, atol=tolerance, rtol=0)
    # or the comparison says nothing
    plain = scores.softmax(-1)
    unlike = (expected - plain).abs().max() > 10 * tolerance
    assert unlike or arm in ("straight-through", "learned-bias")


def test_a_matrix_that_high_sharpens_keeps_its_temperature():
    # the middle key is crowded, and the two others share what it loses unevenly
    flat = torch.zeros(1, LENGTH, LENGTH, dtype=torch.float64)
    torch.testing.assert_close(arms.temperature(flat, STRENGTH), flat.softmax(-1))


def gradient_of(form, scores, weights):
    scores = scores.clone().requires_grad_()
    (form(scores, STRENGTH) * weights).sum().backward()
    return scores.grad


def refined(scores, strength):
    return saobp.refine(scores.softmax(-1), "high", strength)


def test_detached_messages_pass_no_gradient():
    scores, weights = scores_of(), scores_of(1)
    gradient = gradient_of(arms.detached, scores, weights)
    attention = refined(scores, STRENGTH)
    # of a softmax with a constant bias
    mean = (attention * weights).sum(-1, keepdim=True)
    torch.testing.assert_close(gradient, attention * (weights - mean))
    whole = gradient_of(refined, scores, weights)
    assert (gradient - whole).abs().max() > 0.01


def test_straight_through_passes_the_gradient_of_high():
    scores, weights = scores_of(), scores_of(1)
    gradient = gradient_of(arms.straight_through, scores, weights)
    torch.testing.assert_close(gradient, gradient_of(refined, scores, weights))
    plain = gradient_of(arms.plain, scores, weights)
    assert (gradient - plain).abs().max() > 0.01


@pytest.mark.parametrize("arm", ["settled", "damped", "rolled", "plus-one"])
def test_an_arm_s_gradient_is_that_of_its_differences(arm):
    scores = scores_of()[:1, :1].requires_grad_()

    def form(scores):
        return arms.FORMS[arm](scores, STRENGTH)

    assert torch.autograd.gradcheck(form, (scores,), eps=1e-6, atol=1e-5)


def test_the_temperature_is_a_constant_to_the_gradient():
    scores, weights = scores_of(), scores_of(1)
    gradient = gradient_of(arms.temperature, scores, weights)
    attention = arms.temperature(scores, STRENGTH)
    ratio = (attention[..., :1].log() - attention[..., 1:2].log()) / (
        scores[..., :1] - scores[..., 1:2]
    )
    mean = (attention * weights).sum(-1, keepdim=True)
    torch.testing.assert_close(gradient, ratio * attention * (weights - mean))


def batch_of(stories):
    return questions.stacked(questions.exam(stories))


def test_arms_that_change_nothing_at_the_start_begin_with_the_loss_of_plain_attention():
    batch, losses = batch_of(STORIES), {}
    for arm in (*arms.ALGORITHMS, *arms.FORMS):
        network = arms.put_arm(multihop.untrained(STORIES, 2, 0), arm, STRENGTH)
        losses[arm] = network(**batch).loss.item()
    same = {"original", "warmup-1000", "straight-through", "learned-bias"}
    for arm, loss in losses.items():
        assert (abs(loss - losses["original"]) < 1e-5) == (arm in same), arm
    assert losses["detached"] == pytest.approx(losses["high"], abs=1e-5)


def test_the_learned_bias_is_linear_in_the_layer_s_input_and_learns():
    network = arms.put_arm(multihop.untrained(STORIES, 1, 0), "learned-bias", STRENGTH)
    module = network.bert.encoder.layer[0].attention.self
    learned = getattr(module, arms.KEY_BIAS)
    torch.nn.init.normal_(learned.direction.weight)
    seen = {}
    module.register_forward_pre_hook(lambda module, inputs: seen.update(hidden=inputs[0]))
    network.zero_grad()
    outputs = network.bert(
        inputs_embeds=torch.randn(1, 5, STORIES.hidden),
        position_ids=torch.zeros(1, 5, dtype=torch.long),
        output_attentions=True,
    )
    hidden = seen["hidden"]
    query = module.query(hidden).view(1, 5, 2, 8).transpose(1, 2)
    key = module.key(hidden).view(1, 5, 2, 8).transpose(1, 2)
    scores = query @ key.mT / math.sqrt(8)
    for head in range(2):
        bias = hidden[0] @ learned.direction.weight[head]
        expected = (scores[0, head] + bias).softmax(-1)
        torch.testing.assert_close(outputs.attentions[0][0, head], expected, atol=1e-5, rtol=1e-4)
    network(**batch_of(STORIES)).loss.backward()
    assert learned.direction.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda network: arms.put_arm(network, "low", 0.2), "arm 'low': is none of original, "),
        (
            lambda network: arms.put_arm(network, "damped", 0.2).bert(
                inputs_embeds=torch.zeros(2, 3, STORIES.hidden),
                position_ids=torch.zeros(2, 3, dtype=torch.long),
                attention_mask=torch.tensor([[1, 1, 1], [1, 1, 0]]),
            ),
            "attention_mask: the arms of this study know no padding",
        ),
    ],
)
def test_what_an_arm_cannot_do_is_refused_in_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call(multihop.untrained(STORIES, 1, 0))
    assert "\n" not in str(error.value)
