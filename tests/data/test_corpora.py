import errno
import io
import json
import pickle
import re
import shutil
import tarfile
from itertools import islice

import pytest
import torch
from small_hub import refused, word_tokenizer, write_split
from tokenizers.processors import TemplateProcessing

from companion.data import corpora, sources
from companion.data.corpora import token_blocks
from companion.data.documents import Mixture
from companion.setup import paths
from companion.setup.studies import load_study
from companion.training import pretraining

SMOKE = load_study("smoke")
TEXTS = [f"story number {n} has a hat and a cat" for n in range(20)]
MIXTURE = {"a/set": 1.0}


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    write_split(tmp_path, "a/set", "default", "train", [{"text": t} for t in TEXTS])
    write_split(tmp_path, "a/set", "default", "validation", [{"text": "a cat number 3"}] * 9)
    return sources.FolderSource(tmp_path)


@pytest.fixture
def tokenizer():
    return word_tokenizer(*TEXTS)


def all_ids(tokenizer, separator):
    """Tokenise the texts one after the other, by hand."""
    return [
        i
        for text in TEXTS
        for i in (*tokenizer(text, add_special_tokens=False)["input_ids"], separator)
    ]


def test_masked_blocks_are_cls_contiguous_text_sep_and_described_for_the_record(source, tokenizer):
    expected = all_ids(tokenizer, tokenizer.sep_token_id)
    # leaves its mark
    tokenizer(["a hat and a cat", "a"], truncation=True, max_length=3, padding="max_length")
    blocks = token_blocks(source, MIXTURE, tokenizer, 16)
    assert len(blocks) == len(expected) // 14 and blocks.tokens == 16 * len(blocks)
    for number, block in enumerate(blocks):
        ids = block["input_ids"]
        assert (ids.shape, ids.dtype) == ((16,), torch.int64)
        body = expected[number * 14 : (number + 1) * 14]
        assert ids.tolist() == [tokenizer.cls_token_id, *body, tokenizer.sep_token_id]
    text = {
        "weights": {"a/set": 1.0},
        "shares": {"a/set": 1.0},
        "documents": 20,
        "paragraphs": 20,
        "dropped": 0,
    }
    assert blocks.text == text
    found = corpora.provenance(
        source, blocks, token_blocks(source, MIXTURE, tokenizer, 16, split="validation")
    )
    assert (found["source"], found["fingerprint"], found["text"]) == (
        source.name,
        blocks.fingerprint,
        text,
    )
    splits = [(split["dataset"], split["split"]) for split in found["splits"]]
    assert splits == [("a/set", "train"), ("a/set", "validation")]
    # as of a text that was tokenised before counts of the hub had their name
    about = blocks.folder / "about.json"
    about.write_text(about.read_text().replace("hub_rows", "published_rows"))
    assert corpora.Blocks(blocks.folder).splits == blocks.splits and "hub_rows" in blocks.splits[0]


def test_causal_blocks_are_contiguous_text_and_nothing_else(source, tokenizer):
    tokenizer.eos_token, tokenizer.backend_tokenizer.post_processor = (
        "[MASK]",
        TemplateProcessing(single="$A"),
    )
    blocks = token_blocks(source, MIXTURE, tokenizer, 10)
    expected = all_ids(tokenizer, tokenizer.eos_token_id)
    flat = torch.cat([item["input_ids"] for item in blocks]).tolist()
    assert flat == expected[: len(expected) // 10 * 10]


def test_the_fingerprint_changes_with_text_tokenizer_length_and_limit(source, tokenizer, tmp_path):
    def fingerprint(tokenizer=tokenizer, length=16, **options):
        return token_blocks(source, MIXTURE, tokenizer, length, **options).fingerprint

    found = [fingerprint(), fingerprint(length=17), fingerprint(word_tokenizer("other"))]
    found += [fingerprint(limit_tokens=64), fingerprint(split="validation")]
    write_split(tmp_path, "a/set", "default", "train", [{"text": t} for t in TEXTS[::-1]])
    found.append(fingerprint())
    assert len(set(found)) == len(found)


def test_a_second_call_tokenises_nothing_and_a_half_written_file_is_seen_and_built_again(
    source, tokenizer, monkeypatch, caplog
):
    def read():
        return [item["input_ids"].tolist() for item in token_blocks(source, MIXTURE, tokenizer, 16)]

    whole, folder = read(), token_blocks(source, MIXTURE, tokenizer, 16).folder
    with monkeypatch.context() as patch:
        patch.setattr(corpora, "_write", None)
        assert read() == whole
    (folder / "tokens.bin").write_bytes(bytes((folder / "tokens.bin").stat().st_size))
    assert read() == whole
    shutil.rmtree(folder)
    folder.write_text("no folder")
    assert read() == whole
    assert len(re.findall(r"is not whole \(.*\): making it again", caplog.text)) == 2


def test_the_limit_is_the_most_that_the_blocks_hold(source, tokenizer):
    blocks = token_blocks(source, MIXTURE, tokenizer, 16, limit_tokens=70)
    assert (len(blocks), blocks.tokens) == (4, 64)
    assert token_blocks(source, MIXTURE, tokenizer, 16, limit_tokens=64).tokens == 64
    assert not any(split["complete"] for split in blocks.splits)
    assert all(re.search(r"\bcut at\b.* 70\b", split["note"]) for split in blocks.splits)
    roomy = token_blocks(source, MIXTURE, tokenizer, 16, limit_tokens=10**6)
    assert roomy.splits == token_blocks(source, MIXTURE, tokenizer, 16).splits
    refused("do not fill a block of 500", token_blocks, source, MIXTURE, tokenizer, 500)


def test_what_is_read_ahead_of_a_limit_is_not_counted(source, tokenizer, tmp_path):
    for name, texts in (("a/set", TEXTS), ("b/set", [f"{text} and a dog" for text in TEXTS])):
        write_split(tmp_path, name, "default", "train", [{"text": text} for text in texts * 2])
    mixture = {"a/set": 1.0, "b/set": 2.0}
    found = token_blocks(source, mixture, tokenizer, 16, limit_tokens=70).text
    read = Mixture(source, mixture)
    assert len([*islice(read, found["documents"])]) < len(TEXTS)
    assert found == read.mixed() and found["dropped"] == 0


def test_a_loader_gets_the_same_blocks_one_by_one_many_at_once_and_in_a_worker(source, tokenizer):
    blocks = token_blocks(source, MIXTURE, tokenizer, 16)
    one = torch.stack([blocks[n]["input_ids"] for n in (3, 0, -1)])
    many = torch.stack([item["input_ids"] for item in blocks.__getitems__([3, 0, len(blocks) - 1])])
    assert torch.equal(one, many)
    sent = pickle.dumps(blocks)
    assert len(sent) < 4000
    assert torch.equal(pickle.loads(sent)[3]["input_ids"], one[0])
    with pytest.raises(IndexError):
        blocks[len(blocks)]


def test_ids_above_two_bytes_survive(source, tmp_path):
    words = [f"w{n:05d}" for n in range(2**16)]
    tokenizer = word_tokenizer(" ".join(words))
    write_split(tmp_path, "a/set", "default", "train", [{"text": " ".join(words[-40:])}])
    blocks = token_blocks(source, MIXTURE, tokenizer, 32)
    assert int(blocks[0]["input_ids"].max()) >= 2**16
    assert tokenizer.decode(blocks[0]["input_ids"][1:4]) == " ".join(words[-40:-37])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A token file, which holds what pretraining reads."""
    return pretraining.write_tokens(tmp_path_factory.mktemp("tokens") / "stories.tar.bz2", "smoke")


def test_an_unpacked_file_gives_the_text_that_it_was_made_of_in_the_same_bytes_every_time(
    file, tmp_path, monkeypatch
):
    assert (
        pretraining.write_tokens(tmp_path / "again.tar.bz2", "smoke").read_bytes()
        == file.read_bytes()
    )
    _, *usual = pretraining.texts(SMOKE, "mini-quarter", sources.resolve("synthetic"))
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    study = SMOKE.changed(tokens=str(file))
    # neither the text nor its source is read
    tokenizer, *found = pretraining.texts(study, "mini-quarter", source=None)
    for theirs, ours in zip(usual, found):
        assert (theirs.fingerprint, theirs.splits, len(theirs)) == (
            ours.fingerprint,
            ours.splits,
            len(ours),
        )
        assert torch.equal(theirs[len(theirs) - 1]["input_ids"], ours[len(ours) - 1]["input_ids"])
    assert tokenizer.vocab_size <= SMOKE.vocabulary and tokenizer.decode(
        found[0][0]["input_ids"]
    ).startswith("[CLS]")
    assert corpora.provenance(sources.HubSource(), *found)["source"] == "synthetic"


def test_a_full_disk_is_not_taken_for_a_damaged_file(file, tmp_path, monkeypatch):
    def full(*given, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    monkeypatch.setattr(tarfile.TarFile, "extractfile", full)
    with pytest.raises(
        ValueError, match=r"cannot be written \(No space left on device\); free space"
    ):
        corpora.read_file(file)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"vocabulary": 100}, "vocabulary .*, not 100"),
        ({"tokenizer": "bert"}, "tokenizer .*, not bert"),
        ({"corpus": {"local/web": 1.0}}, "corpus .*, not {'local/web': 1.0}"),
        (
            {"pretrain": SMOKE.pretrain.changed(limit_tokens=1024), "beyond": None},
            r"limit_tokens \d+, not 1024",
        ),
    ],
)
def test_a_file_for_another_study_or_of_less_text_is_refused_in_one_line(file, other, said):
    study = SMOKE.changed(tokens=str(file), **other)
    refused(f"{said}: write it for smoke", pretraining.texts, study, "mini-quarter", None)


def test_code_in_a_token_file_is_not_run_also_where_the_user_says_yes(file, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr("builtins.input", lambda *text: "y")
    tokenizer, train, validation, about = corpora.read_file(file)
    mark, save = tmp_path / "has_run", tokenizer.save_pretrained

    def save_with_code(folder):
        save(folder)
        (folder / "custom.py").write_text(
            f"open({str(mark)!r}, 'w')\nfrom transformers import BertTokenizer as Custom\n"
        )
        settings = json.loads((folder / "tokenizer_config.json").read_text())
        settings |= {"tokenizer_class": "Custom"}
        settings |= {"auto_map": {"AutoTokenizer": ["custom.Custom", None]}}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))

    monkeypatch.setattr(tokenizer, "save_pretrained", save_with_code)
    odd = corpora.write_file(tmp_path / "odd.tar.bz2", tokenizer, train, validation, about)
    refused("odd.tar.bz2: its tokenizer .* custom code .*`saobp tokens", corpora.read_file, odd)
    assert not mark.exists()


def test_a_missing_a_cut_and_a_foreign_file_are_refused_in_one_line(file, tmp_path):
    cut, foreign = tmp_path / "cut.tar.bz2", tmp_path / "foreign.tar.bz2"
    cut.write_bytes(file.read_bytes()[:-1000])
    foreign.write_text("no archive")
    cases = {
        tmp_path / "gone": "no such token file",
        cut: "not a token file",
        foreign: "not a token file",
    }
    for path, said in cases.items():
        refused(f"{path.name}: {said}.*`saobp tokens", corpora.read_file, path)


def test_a_token_file_replaces_one_and_nothing_else(file, tmp_path, monkeypatch):
    again = tmp_path / "again.tar.bz2"
    again.write_bytes(file.read_bytes())
    assert pretraining.write_tokens(again, "smoke") == again
    monkeypatch.setattr(pretraining, "texts", lambda *_: pytest.fail("it was tokenised"))
    notes, other = tmp_path / "notes.txt", archive(tmp_path / "other.tar.bz2", "mine.txt", 9)
    notes.write_text("mine")
    for path in (notes, other):
        before = path.read_bytes()
        said = f"{path}: is there, and is no token file; name another"
        refused(said, pretraining.write_tokens, path, "smoke")
        refused(said, corpora.write_file, path, *[None] * 4)
        assert path.read_bytes() == before


def test_a_token_file_unpacks_without_what_python_3_11_0_lacks(file, monkeypatch):
    def lacking(archive, folder=".", members=None):
        raise AssertionError("has no filter before 3.11.4")

    monkeypatch.setattr(tarfile.TarFile, "extractall", lacking)
    assert len(corpora.read_file(file)[1]) > 0


def archive(path, name, size):
    with tarfile.open(path, "w:bz2") as written:
        entry = tarfile.TarInfo(name)
        entry.size = size
        written.addfile(entry, io.BytesIO(bytes(size)))
    return path


def test_a_token_file_that_would_fill_the_disk_or_leads_elsewhere_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    said = "bomb.tar.bz2: not a token file .it unpacks to over 100 times its size.; write it again"
    refused(said, corpora.read_file, archive(tmp_path / "bomb.tar.bz2", "tokens.bin", 10**7))
    for number, name in enumerate(("../outside", "/outside", "train/../../../outside")):
        path = archive(tmp_path / f"odd{number}.tar.bz2", name, 9)
        refused("leads elsewhere", corpora.read_file, path)
    assert not [*tmp_path.rglob("outside")] and not [*tmp_path.rglob("tokens.bin")]
