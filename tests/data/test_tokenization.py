import json
import os
import resource
from pathlib import Path

import pytest
from small_hub import write_split

from saobp.study.data.sources import DataError, FolderSource
from saobp.study.data.tokenizers import make_tokenizer, tokenizer_fingerprint
from saobp.study.setup.paths import CacheError

MIRROR = Path(os.environ.get("SAOBP_DATA") or "-")
MIXTURE = {"a/set": 1.0}
TEXTS = [
    f"The keeper of the {c} lighthouse reread {n} unreadable letters, thinking." for n, c in enumerate("abcde" * 6)
]


@pytest.fixture
def source(tmp_path):
    write_split(tmp_path, "a/set", "default", "train", [{"text": t} for t in TEXTS])
    return FolderSource(tmp_path)


def train(source, kind, vocabulary, cache):
    return make_tokenizer(kind, source, vocabulary=vocabulary, mixture=MIXTURE, cache=cache)


def test_wordpiece_is_an_uncased_encoders_tokenizer(source, tmp_path):
    tokenizer = train(source, "wordpiece", 150, tmp_path)
    assert len(tokenizer) <= 150
    assert tokenizer.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pair = tokenizer("The LETTERS,", "thinking")
    assert tokenizer.decode(pair["input_ids"]) == "[CLS] the letters, [SEP] thinking [SEP]"
    assert pair["token_type_ids"][-2:] == [1, 1]
    assert tokenizer.unk_token_id not in tokenizer(TEXTS[7])["input_ids"]


def test_bpe_is_a_decoders_tokenizer_that_loses_nothing(source, tmp_path):
    tokenizer = train(source, "bpe", 300, tmp_path)
    text = "The  keeper's\n\tlétters 木 [x]"
    assert tokenizer.decode(tokenizer(text)["input_ids"], clean_up_tokenization_spaces=False) == text
    assert tokenizer.num_special_tokens_to_add() == 0
    assert tokenizer.eos_token == "<|endoftext|>"
    assert None not in (tokenizer.pad_token_id, tokenizer.eos_token_id)


@pytest.mark.parametrize(("kind", "vocabulary"), [("wordpiece", 130), ("bpe", 330)])
def test_training_anew_gives_the_same_tokenizer(source, tmp_path, kind, vocabulary):
    found = {tokenizer_fingerprint(train(source, kind, vocabulary, tmp_path / str(n))) for n in range(3)}
    assert len(found) == 1


def test_a_full_disk_while_a_tokenizer_is_kept_is_one_line(source, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # the system's own refusal, as on a full disk
    try:
        with pytest.raises(CacheError, match="cannot be written .*free space or rights there"):
            train(source, "wordpiece", 150, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in tmp_path.glob("*tokenizer*") if path.is_dir()]


def test_another_text_or_size_trains_another_tokenizer(source, tmp_path):
    first = tokenizer_fingerprint(train(source, "wordpiece", 150, tmp_path))
    assert first != tokenizer_fingerprint(train(source, "wordpiece", 120, tmp_path))
    write_split(tmp_path, "a/set", "default", "train", [{"text": f"Another story. {t}"} for t in TEXTS])
    assert first != tokenizer_fingerprint(train(source, "wordpiece", 150, tmp_path))


def test_the_fingerprint_does_not_hear_of_truncation_and_padding(source, tmp_path):
    tokenizer = train(source, "wordpiece", 150, tmp_path)
    before = tokenizer_fingerprint(tokenizer)
    tokenizer(["a b c", "a"], truncation=True, max_length=4, padding=True)
    assert tokenizer_fingerprint(tokenizer) == before


def test_bert_is_read_from_a_mirrors_vocabulary(tmp_path):
    folder = tmp_path / "google-bert/bert-base-uncased"
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "light", "##house"]))
    tokenizer = make_tokenizer("bert", FolderSource(tmp_path))
    assert tokenizer("LightHouse keeper")["input_ids"] == [2, 5, 6, 1, 3]


def test_gpt2_is_read_from_a_mirrors_files_and_can_pad(tmp_path):
    folder = tmp_path / "openai-community/gpt2"
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    tokenizer = make_tokenizer("gpt2", FolderSource(tmp_path))
    assert tokenizer("abb")["input_ids"] == [2, 1]
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 3


def test_a_mirror_without_the_vocabulary_says_which_file_is_missing(tmp_path):
    (tmp_path / "google-bert/bert-base-uncased").mkdir(parents=True)
    with pytest.raises(DataError, match="vocab.txt: no such file; copy it there from the hub's google-bert"):
        make_tokenizer("bert", FolderSource(tmp_path))


@pytest.mark.parametrize(("kind", "vocabulary", "wrong"), [
    ("bart", 100, "kind="), ("bpe", None, "vocabulary"), ("bpe", 200, "vocabulary=200"), ("wordpiece", 8, "must hold"),
])  # fmt: skip
def test_wrong_arguments_are_named(source, tmp_path, kind, vocabulary, wrong):
    with pytest.raises(ValueError, match=wrong):
        train(source, kind, vocabulary, tmp_path)


@pytest.mark.skipif(not Path(os.environ.get("SAOBP_DATA") or "-").is_dir(), reason="SAOBP_DATA names no folder")
def test_a_mirrors_tokenizers_are_the_published_ones():
    mirror = FolderSource(MIRROR)
    assert make_tokenizer("bert", mirror)("Hello, world!")["input_ids"] == [101, 7592, 1010, 2088, 999, 102]
    assert make_tokenizer("gpt2", mirror)("Hello, world!")["input_ids"] == [15496, 11, 995, 0]
