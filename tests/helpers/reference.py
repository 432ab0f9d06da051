"""Slow loops transcribed from the paper's equations: the oracles of the tests.

Everything here is float64 and one matrix at a time: a loop for each sum, a loop for each product.
"""

import itertools
import math

import torch


def potts(strength: float, low: bool = False):
    """Return psi(r, k): Eq. 7, or Eq. 16 with `low`."""
    unlike = math.exp(-strength) if low else math.exp(strength)
    return lambda r, k: 1.0 if r == k else unlike


def message(row, k: int, psi) -> float:
    """Return m_{f_ij -> j}(k), the sum over labels r of psi(r, k) phi_i(r), first line of Eq. 9."""
    return sum(psi(r, k) * float(row[r]) for r in range(len(row)))


def normalised(values: list[float]) -> list[float]:
    total = sum(values)
    return [value / total for value in values]


def spared_tokens(attention, spare, mask=None):
    """Return a list that says of each key whether it is spared, by the words of `saobp.refine`."""
    length = len(attention)
    places = [k for k in range(length) if mask is None or mask[k]]
    if spare is None:
        return [False] * length
    if isinstance(spare, str):
        ends = {"first": places[:1], "edges": [places[0], places[-1]]}[spare]
        return [k in ends for k in range(length)]
    if isinstance(spare, torch.Tensor):
        return spare.tolist()
    shares = [sum(float(attention[i, k]) for i in places) / len(places) for k in range(length)]
    return [share > spare for share in shares]


def equation_11(
    attention,
    strength,
    *,
    low=False,
    exclude_self=True,
    causal=False,
    mask=None,
    spare=None,
):
    """Return Eq. 11 by three loops; `mask` and `causal` leave silent rows out of the product, and
    `spare` a key's whole product.
    """
    length = len(attention)
    psi = potts(strength, low)
    real = [True] * length if mask is None else mask.tolist()
    spared = spared_tokens(attention, spare, mask)
    refined = torch.zeros(length, length, dtype=torch.float64)
    for j in filter(real.__getitem__, range(length)):
        beliefs = [float(attention[j, k]) for k in range(length)]
        for k, i in itertools.product(range(length), repeat=2):
            if spared[k]:
                continue
            if real[i] and not (exclude_self and i == j) and not (causal and i > j):
                # so that no message is a message of 1
                beliefs[k] *= message(attention[i], k, psi) / psi(0, 1)
        refined[j] = torch.tensor(normalised(beliefs), dtype=torch.float64)
    return refined


def equation_15(attention, *, causal=False, mask=None):
    """Return Eq. 15 by three loops, over real and visible tokens only."""
    length = len(attention)
    real = [True] * length if mask is None else mask.tolist()
    refined = torch.zeros(length, length, dtype=torch.float64)
    for i, j in itertools.product(range(length), repeat=2):
        if real[i] and real[j] and not (causal and j > i):
            refined[i, j] = sum(float(attention[i, k] * attention[j, k]) for k in range(length))
    refined[real] /= refined[real].sum(1, keepdim=True)
    return refined


def algorithm_1(attention, strength, reading="intended"):
    """Return Algorithm 1 by its own loops, lines 1 to 10.

    "intended": P_k is the product over rows i of M_ik, and MP_jk = P_k / M_jk leaves the
    self-message out. The other readings take line 5 as printed, P_i = product over labels k of
    M_ik, and give MP, which has no index in line 7, the one of row j ("own row"), the last one
    written ("last row") or the product of all ("product of rows").
    """
    length = len(attention)
    refined = torch.zeros(length, length, dtype=torch.float64)
    m, mp = torch.zeros_like(refined), torch.zeros_like(refined)
    for j in range(length):
        for i in range(length):
            m[i] = math.exp(strength) * attention[i].sum() + (1 - math.exp(strength)) * attention[i]
            mp[i] = m[i].prod() / m[i]
        choices = {
            "intended": m.prod(0) / m[j],
            "own row": mp[j],
            "last row": mp[length - 1],
            # a scale a row, lest it overflow
            "product of rows": (mp / mp.mean(1, keepdim=True)).prod(0),
        }
        update = attention[j] * choices[reading]
        refined[j] = update / update.sum()
    return refined


def loopy_belief_propagation(attention, strength, rounds, *, low=False):
    """Return the beliefs of sum-product BP with cavity messages on the complete graph (Eq. 3, 4 and
    5).

    Variable i tells j the sum over r of psi(r, k) phi_i(r) times what all but j told i. All
    messages of a round are sent at once, the first from uniform ones.
    """
    length = len(attention)
    psi = potts(strength, low)
    told = {(i, j): [1.0 / length] * length for i in range(length) for j in range(length) if i != j}
    for _ in range(rounds):
        sent = {}
        for i, j in told:
            cavity = [float(attention[i, r]) for r in range(length)]
            for n in set(range(length)) - {i, j}:
                cavity = [cavity[r] * told[n, i][r] for r in range(length)]
            cavity = normalised(cavity)
            sent[i, j] = normalised([message(cavity, k, psi) for k in range(length)])
        told = sent
    beliefs = torch.zeros(length, length, dtype=torch.float64)
    for j in range(length):
        product = [float(attention[j, k]) for k in range(length)]
        for i in set(range(length)) - {j}:
            product = [product[k] * told[i, j][k] for k in range(length)]
        beliefs[j] = torch.tensor(normalised(product), dtype=torch.float64)
    return beliefs


def exact_marginals(attention, strength):
    """Return the marginals of prod_j phi_j(x_j) prod_{i<j} psi(x_i, x_j), summed over all L^L
    labellings.
    """
    length, psi = len(attention), potts(strength)
    marginals = torch.zeros(length, length, dtype=torch.float64)
    for labels in itertools.product(range(length), repeat=length):
        weight = math.prod(float(attention[j, labels[j]]) for j in range(length))
        for i, j in itertools.combinations(range(length), 2):
            weight *= psi(labels[i], labels[j])
        for j in range(length):
            marginals[j, labels[j]] += weight
    return marginals / marginals.sum(1, keepdim=True)
