import json
import resource
import shutil

import pytest
from small_hub import refused, write_split

from companion.data.sources import FolderSource
from companion.data.tokenizers import make_tokenizer, tokenizer_fingerprint
from companion.setup import paths

TOLD = "The keeper of the {} lighthouse reread {} unreadable letters, thinking."
TEXTS = [TOLD.format(name, number) for number, name in enumerate("abcde" * 6)]


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return what trains a tokenizer on the texts."""
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    write_split(tmp_path, "a/set", "default", "train", [{"text": text} for text in TEXTS])
    return lambda kind, vocabulary: make_tokenizer(
        kind, FolderSource(tmp_path), {"a/set": 1.0}, vocabulary
    )


def released(kind, root):
    return make_tokenizer(kind, FolderSource(root), {}, None)


def test_wordpiece_is_an_uncased_encoders_tokenizer(train):
    tokenizer = train("wordpiece", 150)
    assert len(tokenizer) <= 150
    assert tokenizer.convert_ids_to_tokens(range(5)) == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    pair = tokenizer("The LETTERS,", "thinking")
    assert tokenizer.decode(pair["input_ids"]) == "[CLS] the letters, [SEP] thinking [SEP]"
    assert pair["token_type_ids"][-2:] == [1, 1]
    assert tokenizer.unk_token_id not in tokenizer(TEXTS[7])["input_ids"]
    before = tokenizer_fingerprint(tokenizer)
    # is no part of what it is
    tokenizer(["a b c", "a"], truncation=True, max_length=4, padding=True)
    assert tokenizer_fingerprint(tokenizer) == before


def test_bpe_is_a_decoders_tokenizer_that_loses_nothing(train):
    tokenizer = train("bpe", 300)
    text = "The  keeper's\n\tlétters 木 [x]"
    assert (
        tokenizer.decode(tokenizer(text)["input_ids"], clean_up_tokenization_spaces=False) == text
    )
    assert tokenizer.num_special_tokens_to_add() == 0
    assert tokenizer.eos_token == "<|endoftext|>"
    assert None not in (tokenizer.pad_token_id, tokenizer.eos_token_id)


@pytest.mark.parametrize(
    ("kind", "vocabulary", "too_few"), [("wordpiece", 130, 8), ("bpe", 330, 200)]
)
def test_training_anew_gives_the_same_tokenizer_and_another_text_or_size_another(
    tmp_path, train, kind, vocabulary, too_few
):
    found = []
    for _ in range(3):
        found.append(tokenizer_fingerprint(train(kind, vocabulary)))
        shutil.rmtree(paths.cache())
    assert len(set(found)) == 1
    assert found[0] != tokenizer_fingerprint(train(kind, vocabulary - 10))
    write_split(
        tmp_path,
        "a/set",
        "default",
        "train",
        [{"text": f"Another story. {text}"} for text in TEXTS],
    )
    assert found[0] != tokenizer_fingerprint(train(kind, vocabulary))
    with pytest.raises(ValueError, match=f"vocabulary={too_few} must hold"):
        train(kind, too_few)


def test_a_full_disk_while_a_tokenizer_is_kept_is_one_line(train):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # the system's own refusal, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(ValueError, match="cannot be written .*free space or rights there"):
            train("wordpiece", 150)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in paths.cache().glob("*tokenizer*") if path.is_dir()]


def test_released_tokenizers_are_read_from_a_mirrors_files_and_gpt2_can_pad(tmp_path):
    folder = tmp_path / "google-bert/bert-base-uncased"
    folder.mkdir(parents=True)
    refused(
        "vocab.txt: no such file; copy it there from the hub's google-bert",
        released,
        "bert",
        tmp_path,
    )
    (folder / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "light", "##house"])
    )
    assert released("bert", tmp_path)("LightHouse keeper")["input_ids"] == [2, 5, 6, 1, 3]
    folder = tmp_path / "openai-community/gpt2"
    folder.mkdir(parents=True)
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    tokenizer = released("gpt2", tmp_path)
    assert tokenizer("abb")["input_ids"] == [2, 1]
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 3
