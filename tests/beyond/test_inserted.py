"""What the step leaves of the vectors of a public encoder: as a loop finds it, refused where nothing is ranked."""

import math
from itertools import combinations

import pytest
import torch
from scipy.stats import spearmanr

from saobp.study.beyond import inserted


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other)) / math.hypot(*one) / math.hypot(*other)


def test_what_is_kept_of_embeddings_is_what_a_loop_over_texts_and_pairs_finds():
    plain, vectors = torch.randn(2, 5, 7, dtype=torch.float64)
    before, after = ([cosine(*pair) for pair in combinations(rows.tolist(), 2)] for rows in (plain, vectors))
    same = sum(map(cosine, vectors.tolist(), plain.tolist())) / 5
    change = sum(after) / 10 - sum(before) / 10
    assert inserted.kept(plain, vectors) == pytest.approx((same, change, spearmanr(before, after).statistic))
    assert inserted.kept(plain, plain) == pytest.approx((1, 0, 1))


@pytest.mark.parametrize("texts", [1, 2])
def test_fewer_than_three_texts_have_no_order_and_are_refused_in_one_line(texts):
    vectors = torch.randn(texts, 7)
    with pytest.raises(ValueError, match=f"^texts: {texts} is too few, pairs of them are ranked: take 3 or more$"):
        inserted.kept(vectors, vectors)
    assert all(map(math.isfinite, inserted.kept(torch.randn(3, 7), torch.randn(3, 7))))
