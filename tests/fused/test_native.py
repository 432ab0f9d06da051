"""The compiled passes: the numbers of torch's, and torch's where they cannot be had; and what GPU
kernels divide by.
"""

import math
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from attending import attended, padding

import saobp
from saobp.fused import gpu
from saobp.fused.tiled import native


@pytest.fixture(params=["compiled", "torch"])
def way(request, monkeypatch):
    """A name, after the compiled passes have been switched off for the second."""
    if request.param == "torch":
        monkeypatch.setattr(native, "passes", lambda: None)
    elif native.passes() is None:
        pytest.skip("no C compiler")
    return request.param


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """The compiled passes as a process finds them that starts with an empty cache, in the folder
    returned.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.made.cache_clear()
    yield tmp_path / "saobp"
    native.made.cache_clear()


@pytest.mark.parametrize(
    ("batch", "length"), [(1, 1), (2, 7), (3, 128), (1, 200), (1, 300), (1, 512)]
)
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize(("factor", "strength"), [("high", 0.2), ("low", 0.5), ("high", 0.01)])
@pytest.mark.parametrize(("padded", "dropout"), [(False, 0.0), (True, 0.0), (True, 0.2)])
def test_it_agrees_with_float64(
    way, batch, length, exclude_self, factor, strength, padded, dropout
):
    """Output and gradients in float32 are those in float64, for rows, heads or columns apart in
    memory.

    Padding may lie anywhere; the last of three sequences has one real token.
    """
    torch.manual_seed(length)
    mask = padding(batch, length) if padded else None
    options = {
        "factor": factor,
        "strength": strength,
        "exclude_self": exclude_self,
        "mask": mask,
        "dropout_p": dropout,
    }
    value, given = torch.randn(2, batch, 4, 24, length).mT
    inputs = [
        torch.randn(batch, 4, length, 24),
        torch.randn(batch, length, 4, 24).transpose(1, 2),
        value,
    ]
    exact = attended([x.double() for x in inputs], given.double(), **options)
    for found, wanted in zip(attended(inputs, given, **options), exact):
        torch.testing.assert_close(
            found.double(), wanted, atol=5e-6 * max(1, wanted.abs().max()), rtol=0
        )


@pytest.mark.parametrize(("padded", "dropout"), [(False, 0.0), (True, 0.2)])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_a_long_matrix_is_worked_out_twice(exclude_self, padded, dropout):
    """So it is where a matrix is not kept, in four parts of several tiles."""
    test_it_agrees_with_float64("compiled", 1, 1500, exclude_self, "high", 0.2, padded, dropout)


def test_what_is_not_a_number_stays_none(way):
    """A query that is not a number gives a row that is not a number, and no number for what it
    tells the others.
    """
    query, key, value = torch.randn(3, 1, 1, 40, 8)
    query[0, 0, 3] = torch.nan
    assert saobp.saobp_attention(query, key, value).isnan().all()


@pytest.mark.skipif(native.passes() is None, reason="no C compiler")
def test_threads_do_not_change_a_number():
    """One thread and two give the same bits."""
    inputs, given, found = torch.randn(3, 2, 4, 200, 24), torch.randn(2, 4, 200, 24), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(attended([*inputs], given))
    assert all(torch.equal(one, two) for one, two in zip(*found))


@pytest.mark.parametrize("wide", [4, 16])
def test_vectors_of_other_processors_are_compiled_once_and_give_the_same_numbers(
    fresh, monkeypatch, wide
):
    """Those of four numbers are for any processor, those of sixteen for AVX-512; the next process
    takes what lies in the user's cache.
    """
    # -O3 takes thrice as long
    monkeypatch.setattr(native, "FLAGS", ("-O2", *native.FLAGS[1:], f"-DSAOBP_WIDE={wide}"))
    if native.passes() is None:
        pytest.skip("no C compiler")
    (made,) = fresh.iterdir()
    written = made.stat().st_mtime_ns
    native.made.cache_clear()
    assert native.passes() is not None and [x.stat().st_mtime_ns for x in fresh.iterdir()] == [
        written
    ]
    for batch, length in ((3, 128), (1, 700)):
        test_it_agrees_with_float64("compiled", batch, length, True, "high", 0.2, True, 0.2)


@pytest.mark.parametrize(
    ("name", "value"), [("SAOBP_NATIVE", "0"), ("CC", "{}/none"), ("CC", "{}/failing")]
)
def test_without_them_torch_works_it_out(fresh, monkeypatch, tmp_path, name, value):
    """Switched off, without a compiler and with one that fails there are none, no error and no
    file.
    """
    (tmp_path / "failing").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "failing").chmod(0o700)
    monkeypatch.setenv(name, value.format(tmp_path))
    assert native.passes() is None
    assert saobp.saobp_attention(*torch.randn(3, 1, 2, 9, 4)).isfinite().all()
    assert not fresh.exists() or not [*fresh.iterdir()]


@pytest.mark.parametrize("trouble", ["not to be written", "no home"])
def test_without_a_cache_the_passes_are_this_process_s_alone(fresh, monkeypatch, trouble):
    """Where the home is read-only or there is none, a new folder is taken, which goes when the
    process ends.
    """
    going = []
    monkeypatch.setattr(
        native.atexit, "register", lambda function, folder, **given: going.append(Path(folder))
    )
    if trouble == "no home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(
            native.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home"))
        )
    else:
        monkeypatch.setattr("os.access", lambda *_: False)
    folder = native.cache_folder()
    assert folder.is_dir() and folder != fresh and going == [folder]


@pytest.mark.parametrize("trouble", ["group", "everybody", "another user"])
def test_no_passes_are_loaded_from_a_folder_that_others_may_write_to(fresh, monkeypatch, trouble):
    """What lies there may be anybody's code; `fresh` would be the folder otherwise."""
    fresh.mkdir(mode=0o700)
    assert native.cache_folder() == fresh
    if trouble == "another user":
        monkeypatch.setattr("os.geteuid", lambda: fresh.stat().st_uid + 1)
    else:
        fresh.chmod(0o770 if trouble == "group" else 0o707)
    folder = native.cache_folder()
    assert folder != fresh and folder.stat().st_mode & 0o777 == 0o700


def test_the_folder_of_the_passes_is_private_whatever_the_umask_and_never_in_the_current_folder(
    fresh, monkeypatch, tmp_path
):
    before = os.umask(0o002)
    try:
        assert native.cache_folder() == fresh and fresh.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setattr(native.Path, "home", lambda: tmp_path / "home")
    assert native.cache_folder() == tmp_path / "home" / ".cache" / "saobp"
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("rights", [0o775, 0o757])
def test_a_compiled_file_that_others_may_write_to_is_made_again(fresh, rights):
    """The folder may let a group in, and a compiler gives its files the rights of the umask."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    fresh.mkdir(mode=0o755)
    before = os.umask(0o002)
    try:
        library = native.compiled(compiler, native.FLAGS)
    finally:
        os.umask(before)
    assert native.only_ours(library)
    library.write_bytes(b"code of somebody else")
    library.chmod(rights)
    assert native.compiled(compiler, native.FLAGS) == library
    assert native.only_ours(library) and library.read_bytes() != b"code of somebody else"


def test_threads_that_come_at_once_compile_once(fresh, monkeypatch):
    """A second compilation beside the first could take the slower flags."""
    asked = []

    def slow(*given):
        asked.append(given)
        time.sleep(0.1)
        raise OSError

    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr(native, "compiled", slow)
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(lambda _: native.passes(), range(4))] == [None] * 4
    assert len(asked) == len(native.CHOICES)


def test_a_home_that_two_machines_share_holds_the_passes_of_each(fresh, monkeypatch):
    if (compiler := native.passes() and shutil.which("cc")) is None:
        pytest.skip("no C compiler")
    first = native.compiled(compiler, native.FLAGS)
    monkeypatch.setattr(native, "processor", lambda: "another")
    assert native.compiled(compiler, native.FLAGS) != first


@pytest.mark.parametrize("strength", [0.5, 0.2, 0.01, 1e-5, -0.2, -0.5])
@pytest.mark.parametrize("error", [*gpu.ROUNDING.values()])
def test_it_is_as_near_as_asked_in_as_few_steps_as_it_takes(strength, error):
    """One over a message is a line and Newton's steps: one step less would not do for all between 1
    and e^-strength.
    """
    change = math.expm1(-strength)
    slope, height, steps = gpu.line_of(change, error)
    messages = 1 + change * torch.linspace(0, 1, 10_001, dtype=torch.float64)
    found, far = height - slope * messages, []
    for _ in range(steps + 1):
        far.append(float((messages * found - 1).abs().max()))
        found = found * (2 - messages * found)
    assert far[-1] <= error * (1 + 1e-6)
    assert steps == 0 or far[-2] > error
