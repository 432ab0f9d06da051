from types import SimpleNamespace

import datasets
import pytest

from saobp.study.data.sources import HubSource
from saobp.study.data.splits import DataError, MissingSplit


def builder(hash_="abc", **rows):
    """Stand in for datasets' builder: what the hub says of a data set without its rows."""
    splits = {split: SimpleNamespace(num_examples=count) for split, count in rows.items()}
    return lambda *_, **__: SimpleNamespace(hash=hash_, info=SimpleNamespace(splits=splits))


@pytest.fixture
def hub(monkeypatch):
    """The hub with RTE on it, and a list of the rows that were asked of it."""
    asked = []

    def load(dataset, config, **options):
        asked.append((dataset, config, options))
        rows = [{"text": f"row {n}"} for n in range(3)]
        return iter(rows) if options.get("streaming") else datasets.Dataset.from_list(rows)

    monkeypatch.setattr(datasets, "load_dataset_builder", builder(train=2490, validation=270))
    monkeypatch.setattr(datasets, "load_dataset", load)
    return asked


def test_a_split_is_asked_for_by_the_hubs_own_names_and_a_corpus_streamed_unless_offline(hub, monkeypatch):
    assert len(HubSource().load("nyu-mll/glue", "rte", "train[:3]")) == 3
    assert hub == [("nyu-mll/glue", "rte", {"split": "train[:3]"})]
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert [row["text"] for row in HubSource().stream("a/b", None, "train")][-1] == "row 2"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(list(HubSource().stream("a/b", None, "train"))) == 3
    assert [options["streaming"] for _, _, options in hub[1:]] == [True, False]


def test_completeness_is_measured_against_the_published_counts(hub):
    assert HubSource().completeness("nyu-mll/glue", "rte", "train")["complete"] is True
    short = HubSource().completeness("nyu-mll/glue", "rte", "validation")
    assert short["complete"] is False
    assert "270 rows, 277 were published" in short["note"]
    with pytest.raises(MissingSplit, match=r"nyu-mll/glue rte: no split 'test' \(found: train, validation\)"):
        HubSource().intervals("nyu-mll/glue", "rte", "test")


def test_without_counts_on_the_hub_no_text_is_fetched_to_know_which_splits_there_are(hub, monkeypatch):
    monkeypatch.setattr(datasets, "load_dataset_builder", builder())
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train"])
    whole = HubSource().completeness("bookcorpus/bookcorpus", None, "train")
    assert whole["rows"] == whole["published_rows"] > 10**7 and not whole["complete"]  # assumed, and said to be
    assert whole["note"] == "the hub states no count"
    assert HubSource().completeness("my/own", None, "train")["published_rows"] is None
    with pytest.raises(MissingSplit, match=r"no split 'validation' \(found: train\)"):
        HubSource().intervals("bookcorpus/bookcorpus", None, "validation")
    assert hub == []
    assert HubSource().intervals("my/own", None, "train[1:]") == [("train", 1, 3)] and len(hub) == 1  # counted then


@pytest.mark.parametrize("error", [ConnectionError("Server Disconnected"), FileNotFoundError("x"), TimeoutError()])
def test_a_hub_that_breaks_off_is_not_taken_for_a_full_disk(error, monkeypatch):
    def rows(*_, **__):
        yield {"text": "one"}
        raise error

    monkeypatch.setattr(datasets, "load_dataset", rows)
    with pytest.raises(DataError, match="a/b train: the hub broke off .*give the same command again"):
        list(HubSource().stream("a/b", None, "train"))


def test_the_fingerprint_follows_the_hubs_revision(hub, monkeypatch):
    before = HubSource().fingerprint("a/b", None, "train")
    assert before == HubSource().fingerprint("a/b", None, "train")
    monkeypatch.setattr(datasets, "load_dataset_builder", builder("def", train=1))
    assert before != HubSource().fingerprint("a/b", None, "train")


def test_a_data_set_that_still_is_a_script_comes_from_its_parquet_form(monkeypatch):
    def load(dataset, config, revision=None, **options):
        if revision is None:
            raise RuntimeError("Dataset scripts are no longer supported, but found bookcorpus.py")
        return revision

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert HubSource().load("bookcorpus/bookcorpus", None, "train") == "refs/convert/parquet"


@pytest.mark.parametrize("error", [ConnectionError("no route\nat all"), FileNotFoundError("gone"), RuntimeError("x")])
def test_any_failure_of_the_hub_is_one_line_with_the_remedy(monkeypatch, error):
    def load(*_, **__):
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(DataError, match="a/b c: not to be had from the hub .*SAOBP_DATA") as caught:
        HubSource().load("a/b", "c", "train")
    assert "\n" not in str(caught.value)
