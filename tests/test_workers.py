"""Pieces of work side by side: all done, each on one thread, errors heard, settings and forks unharmed."""

import os
import threading

import pytest
import torch

from saobp.attention import saobp_attention
from saobp.tiles.workers import side_by_side


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_every_piece_is_worked_on_once_by_a_thread_that_is_alone(two_threads):
    seen = []
    side_by_side(lambda piece: seen.append((piece, torch.get_num_threads())), [(i,) for i in range(9)])
    assert sorted(seen) == [(i, 1) for i in range(9)]


def test_the_callers_setting_and_that_of_new_threads_stay(two_threads):
    side_by_side(lambda: None, [()] * 4)
    found = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert [torch.get_num_threads(), *found] == [2, 2]


def test_fewer_pieces_than_threads_stay_on_this_one(two_threads):
    seen = []
    side_by_side(lambda: seen.append(threading.current_thread()), [()])
    assert seen == [threading.current_thread()]


def test_no_piece_records_gradients(two_threads):
    for count in (1, 2):
        seen = []
        side_by_side(lambda: seen.append(torch.is_grad_enabled()), [()] * count)  # noqa: B023
        assert seen == [False] * count


def test_an_error_of_a_piece_reaches_the_caller(two_threads):
    def fail(number):
        if number == 3:
            raise RuntimeError("third piece")

    with pytest.raises(RuntimeError, match="third piece"):
        side_by_side(fail, [(i,) for i in range(5)])


def test_a_forked_process_starts_threads_of_its_own(two_threads):
    side_by_side(lambda: None, [()] * 4)
    child = os.fork()
    if child == 0:
        seen = []
        side_by_side(lambda: seen.append(1), [()] * 4)
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4


OPTIONS = [{}, {"is_causal": True}, {"factor": "elemmul"}, {"strength": torch.rand(6)}]


@pytest.mark.parametrize("options", OPTIONS)
def test_attention_and_gradients_do_not_depend_on_the_number_of_threads(options):
    inputs = [torch.randn(5, 6, 33, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        output = saobp_attention(*inputs, **options)
        runs.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    torch.set_num_threads(1)
    for other in runs[1:]:
        for one, two in zip(runs[0], other):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-12)
