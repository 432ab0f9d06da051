import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentences import numbers_in
from small_hub import refused, write_manifest, write_split

from companion import storyworld
from companion.data import sources
from companion.data.sources import FolderSource, HubSource, resolve
from companion.data.splits import Absent
from companion.data.task_rows import load_task
from companion.data.tokenizers import make_tokenizer
from companion.setup import paths

MIRROR = Path(os.environ.get("SAOBP_DATA") or "-")
ROWS = [{"text": f"row {n}", "label": n} for n in range(10)]


@pytest.fixture
def folder(tmp_path):
    write_split(tmp_path, "owner/set", "default", "train", ROWS, shards=3)
    write_split(tmp_path, "owner/set", "default", "validation", ROWS[:4])
    write_split(tmp_path, "owner/set", "default", "validation_matched", ROWS[:2])
    return tmp_path


@pytest.fixture(autouse=True)
def no_setting(tmp_path, monkeypatch):
    monkeypatch.delenv("SAOBP_DATA", raising=False)
    monkeypatch.setattr(paths, "cache", lambda: tmp_path)


LAYOUTS = {
    "as it is pushed": ("default/train-{:05d}-of-00003.parquet", "default"),
    "as it was pushed": ("default/train-{:05d}-of-00003-8f1c3a5e7b9d2c4f.parquet", "default"),
    "as it is converted": ("plain_text/train/{:04d}.parquet", "plain_text"),
    "in data": ("data/train-{:05d}-of-00003.parquet", "default"),
    "converted in data": ("data/train/{:04d}.parquet", None),
    "in no folder": ("train-{:05d}-of-00003.parquet", None),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_that_the_hub_has_for_a_split_is_read_whole_or_refused(tmp_path, layout):
    pattern, config = LAYOUTS[layout]
    for number in range(3):
        for split, shift in (("train", 0), ("validation", 10)):
            file = tmp_path / "owner/set" / pattern.format(number).replace("train", split)
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"n": [2 * number + shift, 2 * number + 1 + shift]}), file)
    source = FolderSource(tmp_path)
    assert source.load("owner/set", config, "train")["n"][:] == list(range(6))
    assert [row["n"] for row in source.stream("owner/set", config, "validation")] == list(
        range(10, 16)
    )
    assert source.intervals("owner/set", config, "train[:50%]") == [("train", 0, 3)]
    assert source.completeness("owner/set", config, "train")["rows"] == 6
    with pytest.raises(Absent, match=r"no split 'test' \(found: train, validation\)"):
        source.load("owner/set", config, "test")
    (tmp_path / "owner/set" / pattern.format(1)).unlink()
    refused(
        "2 of the 3 files of split 'train'; copy the others",
        source.load,
        "owner/set",
        config,
        "train",
    )


def test_a_split_that_lies_there_in_two_layouts_is_read_once(tmp_path):
    for name, count in (("train.parquet", 3), ("train/0000.parquet", 2)):
        file = tmp_path / "owner/set/default" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": range(count)}), file)
    assert FolderSource(tmp_path).load("owner/set", "default", "train")["n"][:] == [0, 1, 2]


def test_a_split_is_read_in_order_and_percent_slices_that_meet_share_no_row_and_lose_none(folder):
    source = FolderSource(folder)
    assert (
        list(source.load("owner/set", "default", "train"))
        == list(source.stream("owner/set", None, "train"))
        == ROWS
    )
    assert source.load("owner/set", None, "train[8:]+validation[:50%]")["label"][:] == [8, 9, 0, 1]
    ((_, start, middle),) = source.intervals("owner/set", None, "train[:67%]")
    assert (start, source.intervals("owner/set", None, "train[67%:]")) == (
        0,
        [("train", middle, 10)],
    )


@pytest.mark.parametrize(
    "split", ["", "../train", "train[", "train[:200%]", "train[5", "a b", "train[:x]"]
)
def test_what_is_no_split_is_refused_by_name(folder, split):
    refused("is no (split|slice)", FolderSource(folder).intervals, "owner/set", None, split)


def test_completeness_comes_from_the_manifest_and_is_never_that_of_a_slice_or_of_what_no_manifest_knows(
    folder,
):
    entry = {"published_rows": 7, "complete": True, "note": "the first 4"}
    write_manifest(
        folder,
        {
            "owner/set": {"default": {"validation": entry}},
            "nyu-mll/glue": {"rte": {"train": entry}},
        },
    )

    def found(split, *named):
        of = FolderSource(folder).completeness("owner/set", "default", split)
        assert (of["dataset"], of["config"], of["split"]) == ("owner/set", "default", split)
        assert all(name in of["note"] for name in (entry["note"], *named))
        return of["rows"], of["hub_rows"], of["complete"], numbers_in(of["note"])

    assert found("validation") == (4, 7, True, ["4"])
    assert found("validation[:1]+validation[2:]", "validation") == (3, 7, False, ["4", "3"])
    assert found("train+validation", "manifest.json", "train") == (14, None, False, ["4"])
    write_split(folder, "nyu-mll/glue", "rte", "train", ROWS)
    # invented text under a public name is none
    for name, complete in (("synthetic", False), ("mirror", True)):
        known = FolderSource(folder, name).completeness("nyu-mll/glue", "rte", "train")
        assert (known["complete"], known["note"]) == (complete, entry["note"])


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_split(other, "owner/set", "default", "train", ROWS, shards=3)
    here, there = (FolderSource(f).fingerprint("owner/set", None, "train") for f in (folder, other))
    assert here == there != FolderSource(other).fingerprint("owner/set", None, "train[:5]")
    write_split(
        other,
        "owner/set",
        "default",
        "train",
        [*ROWS[:-1], {"text": "row 8", "label": 9}],
        shards=3,
    )
    assert here != FolderSource(other).fingerprint("owner/set", None, "train")


def test_a_truncated_file_and_one_of_another_size_than_the_manifest_says_are_named_with_the_remedy(
    folder,
):
    write_manifest(folder, {"owner/set": {"default": {"validation_matched": {"bytes": 1}}}})
    source, given = FolderSource(folder), ("owner/set", "default", "validation")
    said = "validation_matched-00000.*where manifest.json says 1; copy the file again"
    refused(said, source.load, "owner/set", "default", "validation_matched")
    file = folder / "owner/set/default/validation-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    for read in (source.load, lambda *a: list(source.stream(*a))):
        refused("validation-00000.*cannot be read as parquet.*copy it again", read, *given)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_early(tmp_path, monkeypatch):
    file = tmp_path / "owner/set/default/train.parquet"
    file.parent.mkdir(parents=True)
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["x" * 10**4])
    pq.write_table(pa.table({"text": text}), file)
    assert file.stat().st_size < 10**5
    monkeypatch.setattr(sources, "UNPACKED_AT_LEAST", 5 * 10**7)
    before = pa.total_allocated_bytes()
    said = "train.parquet: its split unpacks to over 50 MB; copy it again"
    source = FolderSource(tmp_path)
    refused(said, source.load, "owner/set", None, "train")
    refused(said, lambda: next(source.stream("owner/set", None, "train")))
    assert pa.total_allocated_bytes() - before < 2 * 10**8
    monkeypatch.setattr(sources, "UNPACKED_AT_LEAST", 2 * 10**9)
    assert len(FolderSource(tmp_path).load("owner/set", None, "train[:3]")) == 3


def test_what_is_missing_or_outside_is_named_with_what_is_there(folder, tmp_path_factory):
    (file,) = write_split(tmp_path_factory.mktemp("outside"), "owner/set", "default", "train", ROWS)
    (folder / "owner/set/default/secret-00000-of-00001.parquet").symlink_to(file)
    (folder / "owner/away").symlink_to(file.parents[1])
    write_split(folder, "owner/set/default", "partial-test", "0000", ROWS)
    source = FolderSource(folder)
    for dataset, config, split, said in (
        (
            "owner/set",
            "default",
            "test",
            r"no split 'test' \(found: partial-test, .*train, validation, ",
        ),
        ("owner/set", "other", "train", r"no configuration 'other' \(found: default\)"),
        (
            "owner/none",
            None,
            "train",
            "owner/none: no such data set .found: .*owner/set.*SAOBP_DATA",
        ),
        ("owner/set", "default", "secret", "leads outside"),
        ("owner/away", "default", "train", "leads outside"),
        *(
            (name, "default", "train", "leads outside")
            for name in ("../set", "/etc", "owner/../../set")
        ),
        *(
            (name, "default", "train", "no such data set|no configuration")
            for name in ("", "owner\\set")
        ),
        *(
            ("owner/set", config, "train", "no configuration")
            for config in ("..", "../default", ".")
        ),
    ):
        refused(said, source.load, dataset, config, split)
    refused("vocab.txt: no such file", source.files, "owner/set", "vocab.txt")
    said = "saobp/storys: no such data set .found: .*saobp/stories"
    refused(said, resolve("synthetic").load, "saobp/storys", None, "train")


def test_the_setting_overrides_the_studies_choice_and_a_missing_folder_is_one_line(
    folder, monkeypatch
):
    monkeypatch.chdir(folder)
    refused("nowhere: no such data folder; set SAOBP_DATA", resolve, str(folder / "nowhere"))
    (folder / "caf\udce9").mkdir()
    with pytest.raises(ValueError, match="is no UTF-8, in which notebooks and records"):
        resolve(str(folder / "caf\udce9"))
    monkeypatch.setenv("SAOBP_DATA", str(folder))
    assert resolve("hub") == FolderSource(folder)
    monkeypatch.setenv("SAOBP_DATA", "hub")
    assert resolve(str(folder)).name == "hub"


def test_the_story_world_is_written_once_whoever_asks_and_again_where_it_is_not_whole(
    tmp_path, monkeypatch
):
    calls = []

    def few_rows(folder):
        calls.append(folder)
        write_split(folder, "saobp/stories", "default", "train", ROWS)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(storyworld, "write", few_rows)
    with pytest.raises(KeyboardInterrupt):
        resolve("synthetic")
    # what was cut off leaves nothing under its name
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve("synthetic"), range(4)))
    assert len(calls) == 2 and len({f.root for f in found}) == 1
    assert len(found[0].load("saobp/stories", None, "train")) == 10
    for damage in (
        lambda file: file.unlink(),
        lambda file: file.write_bytes(file.read_bytes()[:50]),
    ):
        (file,) = tmp_path.glob("synthetic-*/**/*.parquet")
        damage(file)
        (tmp_path / f".{found[0].root.name}.killed").mkdir()
        assert len(resolve("synthetic").load("saobp/stories", None, "train")) == 10
        # nor is what a killed writer left
        assert not list(tmp_path.glob(".synthetic-*"))
    assert len(calls) == 4


@pytest.mark.parametrize(
    "text", ['{"owner/set": ', "[1]", '{"a/b": 3}', '{"a/b": {"c": ["train"]}}', '"x"']
)
def test_a_manifest_of_another_shape_is_named(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    said = "manifest.json: is not JSON of data set -> config -> split .*; copy it again$"
    refused(said, lambda: FolderSource(tmp_path).manifest)


WORDS = pa.dictionary(pa.int32(), pa.string())
ANSWERS = [{"text": ["a"], "answer_start": [0]}, {"text": ["b", "c"], "answer_start": [1, 2]}]
STRUCTS = [
    pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int32())}),
    pa.struct(
        {"text": pa.large_list(pa.large_string()), "answer_start": pa.large_list(pa.int64())}
    ),
]


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([None, None], [pa.null(), pa.string()]),
        (["a", "b"], [pa.string(), pa.large_string(), pa.string_view(), WORDS]),
        (
            [["x", "y"], ["z", "w"]],
            [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(WORDS, 2)],
        ),
        (ANSWERS, STRUCTS),
        ([1, 0], [pa.int64(), pa.int8()]),
    ],
)
def test_shards_of_every_form_that_parquet_has_for_a_column_are_one_split_and_a_foreign_one_is_named(
    tmp_path, values, kinds
):
    folder = tmp_path / "owner/set/default"
    folder.mkdir(parents=True)
    files = [
        folder / f"train-{number:05d}-of-{len(kinds):05d}.parquet" for number in range(len(kinds))
    ]
    for file, kind in zip(files, kinds):
        pq.write_table(pa.table({"column": pa.array(values, kind)}), file)
    source = FolderSource(tmp_path)
    assert source.load("owner/set", None, "train")["column"][:] == values * len(kinds)
    assert [row["column"] for row in source.stream("owner/set", None, "train")] == values * len(
        kinds
    )
    assert source.load("owner/set", None, "train[1:3]")["column"][:] == [values[1], values[0]]
    pq.write_table(pa.table({"column": [[[1]]]}), files[0])
    refused(
        "owner/set  train: its files do not fit together", source.load, "owner/set", None, "train"
    )


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


def test_a_split_is_asked_for_by_the_hubs_own_names_and_a_corpus_streamed_unless_offline(
    hub, monkeypatch
):
    assert len(HubSource().load("nyu-mll/glue", "rte", "train[:3]")) == 3
    assert hub == [("nyu-mll/glue", "rte", {"split": "train[:3]"})]
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert [row["text"] for row in HubSource().stream("a/b", None, "train")][-1] == "row 2"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert len(list(HubSource().stream("a/b", None, "train"))) == 3
    assert [options["streaming"] for _, _, options in hub[1:]] == [True, False]


def test_completeness_is_measured_against_the_public_counts_and_the_fingerprint_follows_the_revision(
    hub, monkeypatch
):
    assert HubSource().completeness("nyu-mll/glue", "rte", "train")["complete"] is True
    short = HubSource().completeness("nyu-mll/glue", "rte", "validation")
    assert short["complete"] is False and numbers_in(short["note"]) == ["270", "277"]
    with pytest.raises(
        Absent, match=r"nyu-mll/glue rte: no split 'test' \(found: train, validation\)"
    ):
        HubSource().intervals("nyu-mll/glue", "rte", "test")
    before = HubSource().fingerprint("a/b", None, "train")
    assert before == HubSource().fingerprint("a/b", None, "train")
    monkeypatch.setattr(datasets, "load_dataset_builder", builder("def", train=1))
    assert before != HubSource().fingerprint("a/b", None, "train")


def test_without_counts_on_the_hub_no_text_is_fetched_to_know_which_splits_there_are(
    hub, monkeypatch
):
    monkeypatch.setattr(datasets, "load_dataset_builder", builder())
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train"])
    whole = HubSource().completeness("bookcorpus/bookcorpus", None, "train")
    # assumed, and said to be
    assert whole["rows"] == whole["hub_rows"] > 10**7 and not whole["complete"]
    assert "no count" in whole["note"] and numbers_in(whole["note"]) == [], (
        "no number that the hub did not state"
    )
    assert HubSource().completeness("my/own", None, "train")["hub_rows"] is None
    with pytest.raises(Absent, match=r"no split 'validation' \(found: train\)"):
        HubSource().intervals("bookcorpus/bookcorpus", None, "validation")
    assert hub == []
    # counted then
    assert HubSource().intervals("my/own", None, "train[1:]") == [("train", 1, 3)] and len(hub) == 1


@pytest.mark.parametrize(
    "error", [ConnectionError("no route\nat all"), FileNotFoundError("gone"), TimeoutError()]
)
def test_a_failure_of_the_hub_at_once_or_midway_is_one_line_and_not_taken_for_a_full_disk(
    monkeypatch, error
):
    def rows():
        yield {"text": "one"}
        raise error

    def load(*_, streaming=None, **__):
        if streaming is None:
            raise error
        return rows()

    monkeypatch.setattr(datasets, "load_dataset", load)
    refused("a/b c: not to be had from the hub .*SAOBP_DATA", HubSource().load, "a/b", "c", "train")
    said = "a/b train: the hub broke off .*give the same command again"
    refused(said, lambda: list(HubSource().stream("a/b", None, "train")))


def test_a_data_set_that_still_is_a_script_comes_from_its_parquet_form(monkeypatch):
    def load(dataset, config, revision=None, **options):
        if revision is None:
            raise RuntimeError("Dataset scripts are no longer supported, but found bookcorpus.py")
        return revision

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert HubSource().load("bookcorpus/bookcorpus", None, "train") == "refs/convert/parquet"


@pytest.mark.skipif(not MIRROR.is_dir(), reason="SAOBP_DATA names no folder")
def test_a_mirrors_sets_are_reported_whole_and_its_tokenizers_are_the_released_ones():
    mirror = FolderSource(MIRROR)
    for name, rows in (("cola", 1043), ("mrpc", 408), ("rte", 277), ("sst2", 872), ("wnli", 71)):
        task = load_task(name, mirror)
        assert len(task.evaluation) == rows and task.splits[1]["complete"] is True
    for kind, ids in (("bert", [101, 7592, 1010, 2088, 999, 102]), ("gpt2", [15496, 11, 995, 0])):
        assert make_tokenizer(kind, mirror, {}, None)("Hello, world!")["input_ids"] == ids
