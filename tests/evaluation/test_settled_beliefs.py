"""The convex function that rounds of High minimise to first order, and a damped step towards it."""

import pytest
import torch
from torch.autograd.functional import hessian

from companion.evaluation import settled_beliefs

STRENGTHS = (0.05, 0.2, 5.0)


@pytest.fixture(params=[0.5, 2.0, 8.0], ids=["diffuse", "peaked", "nearly one-hot"])
def scores(request):
    generator = torch.Generator().manual_seed(0)
    return request.param * torch.randn(9, 9, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_its_gradient_is_the_column_sums_and_a_share_of_the_bias(scores, strength):
    bias = torch.linspace(-1, 1, 9, dtype=torch.float64, requires_grad=True)
    value = settled_beliefs.price(scores, bias, strength)
    (gradient,) = torch.autograd.grad(value, bias)
    sums = settled_beliefs.column_sums(scores, bias)
    torch.testing.assert_close(gradient, sums + bias / strength)
    attention = (scores + bias).softmax(-1)
    torch.testing.assert_close(sums, attention.sum(0))


@pytest.mark.parametrize("strength", STRENGTHS)
def test_its_second_derivative_is_the_hessian_of_the_column_sums_and_a_constant(scores, strength):
    bias = torch.linspace(-1, 1, 9, dtype=torch.float64)
    expected = hessian(lambda b: settled_beliefs.price(scores, b, strength), bias)
    ours = settled_beliefs.hessian(scores, bias) + torch.eye(9, dtype=torch.float64) / strength
    torch.testing.assert_close(ours, expected)
    assert torch.linalg.eigvalsh(ours)[0] > 0


@pytest.mark.parametrize("strength", STRENGTHS)
def test_settled_beliefs_are_a_fixed_point_of_the_rounds(scores, strength):
    bias = settled_beliefs.settled_bias(scores, strength)
    sums = settled_beliefs.column_sums(scores, bias)
    torch.testing.assert_close(bias, -strength * sums, rtol=1e-5, atol=1e-6)


def test_the_softmax_and_the_doubly_stochastic_matrix_are_its_ends(scores):
    weak = settled_beliefs.settled_bias(scores, 1e-6)
    assert weak.abs().max() < 1e-5
    strong = settled_beliefs.settled_bias(scores, 1e5)
    sums = settled_beliefs.column_sums(scores, strong)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-3)


@pytest.mark.parametrize("strength", STRENGTHS)
def test_the_damped_step_is_newton_s_with_the_diagonal_alone(scores, strength):
    zero = torch.zeros(9, dtype=torch.float64)
    gradient = settled_beliefs.column_sums(scores, zero)
    diagonal = settled_beliefs.hessian(scores, zero).diagonal() + 1 / strength
    damped = settled_beliefs.damped_bias(scores, strength)
    torch.testing.assert_close(damped, -gradient / diagonal)
