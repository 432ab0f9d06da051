"""A token file holds what pretraining reads: unpacked, it is the same text by the same tokenizer, or it is refused."""

import errno
import tarfile

import pytest
import torch

from saobp.study.data import corpora, sources
from saobp.study.data.sources import DataError
from saobp.study.setup import paths
from saobp.study.setup.studies import load_study
from saobp.study.training import pretraining

SMOKE = load_study("smoke")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return pretraining.write_tokens(tmp_path_factory.mktemp("tokens") / "stories.tar.bz2", "smoke")


def test_an_unpacked_file_gives_the_text_that_it_was_made_of_in_the_same_bytes_every_time(file, tmp_path, monkeypatch):
    assert pretraining.write_tokens(tmp_path / "again.tar.bz2", "smoke").read_bytes() == file.read_bytes()
    _, *usual = pretraining.texts(SMOKE, "mini-quarter", sources.resolve("synthetic"))
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    study = SMOKE.changed(tokens=str(file))
    tokenizer, *found = pretraining.texts(study, "mini-quarter", source=None)  # neither the text nor its source is read
    for theirs, ours in zip(usual, found):
        assert (theirs.fingerprint, theirs.splits, len(theirs)) == (ours.fingerprint, ours.splits, len(ours))
        assert torch.equal(theirs[len(theirs) - 1]["input_ids"], ours[len(ours) - 1]["input_ids"])
    assert tokenizer.vocab_size <= SMOKE.vocabulary and tokenizer.decode(found[0][0]["input_ids"]).startswith("[CLS]")
    assert corpora.provenance(sources.HubSource(), *found)["source"] == "synthetic"


def test_a_full_disk_is_not_taken_for_a_damaged_file(file, tmp_path, monkeypatch):
    def full(*given, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    with pytest.raises(ValueError, match=r"cannot be written \(No space left on device\); free space"):
        corpora.read_file(file)


@pytest.mark.parametrize(("other", "said"), [
    ({"vocabulary": 100}, "vocabulary .*, not 100"), ({"tokenizer": "bert"}, "tokenizer .*, not bert"),
    ({"corpus": {"local/web": 1.0}}, "corpus .*, not {'local/web': 1.0}"),
    ({"pretrain": SMOKE.pretrain.changed(limit_tokens=1024), "beyond": None}, r"limit_tokens \d+, not 1024"),
])  # fmt: skip
def test_a_file_for_another_study_or_of_less_text_is_refused_in_one_line(file, other, said):
    with pytest.raises(DataError, match=f"{said}: write it for smoke") as refused:
        pretraining.texts(SMOKE.changed(tokens=str(file), **other), "mini-quarter", None)
    assert "\n" not in str(refused.value)


def test_a_missing_a_cut_and_a_foreign_file_are_refused_in_one_line(file, tmp_path):
    cut, foreign = tmp_path / "cut.tar.bz2", tmp_path / "foreign.tar.bz2"
    cut.write_bytes(file.read_bytes()[:-1000])
    foreign.write_text("no archive")
    cases = {tmp_path / "gone": "no such token file", cut: "not a token file", foreign: "not a token file"}
    for path, said in cases.items():
        with pytest.raises(DataError, match=f"{path.name}: {said}.*`saobp tokens") as refused:
            corpora.read_file(path)
        assert "\n" not in str(refused.value)
