"""Pieces of work side by side: all done, each on one thread, errors heard, settings and forks
unharmed.
"""

import os
import threading

import pytest
import torch

from saobp.fused.workers import side_by_side


@pytest.fixture(autouse=True)
def two_threads(reproducible):
    torch.set_num_threads(2)


def test_every_piece_is_worked_on_once_without_gradients_by_a_thread_that_is_alone_and_settings_stay():
    seen, found = [], []
    work = lambda piece: seen.append((piece, torch.get_num_threads(), torch.is_grad_enabled()))  # noqa: E731
    side_by_side(work, [(i,) for i in range(9)])
    assert sorted(seen) == [(i, 1, False) for i in range(9)]
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert [torch.get_num_threads(), *found] == [2, 2]


def test_an_error_of_a_piece_reaches_the_caller():
    def fail(number):
        if number == 3:
            raise RuntimeError("third piece")

    with pytest.raises(RuntimeError, match="third piece"):
        side_by_side(fail, [(i,) for i in range(5)])


def test_a_forked_process_starts_threads_of_its_own():
    side_by_side(lambda: None, [()] * 4)
    child = os.fork()
    if child == 0:
        seen = []
        side_by_side(lambda: seen.append(1), [()] * 4)
        os._exit(len(seen))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
