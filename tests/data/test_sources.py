import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_hub import write_manifest, write_split

from saobp import storyworld
from saobp.study.data.sources import DataError, FolderSource, resolve
from saobp.study.data.splits import MissingSplit

MIRROR = os.environ.get("SAOBP_DATA") or "-"
ROWS = [{"text": f"row {n}", "label": n} for n in range(10)]


@pytest.fixture
def folder(tmp_path):
    write_split(tmp_path, "owner/set", "default", "train", ROWS, shards=3)
    write_split(tmp_path, "owner/set", "default", "validation", ROWS[:4])
    write_split(tmp_path, "owner/set", "default", "validation_matched", ROWS[:2])
    return tmp_path


@pytest.fixture(autouse=True)
def no_setting(monkeypatch):
    monkeypatch.delenv("SAOBP_DATA", raising=False)


def test_a_split_of_several_files_is_read_in_order(folder):
    source = FolderSource(folder)
    assert source.load("owner/set", "default", "train")["label"][:] == list(range(10))
    assert list(source.stream("owner/set", "default", "train")) == ROWS


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
    assert [row["n"] for row in source.stream("owner/set", config, "validation")] == list(range(10, 16))
    assert source.intervals("owner/set", config, "train[:50%]") == [("train", 0, 3)]
    assert source.completeness("owner/set", config, "train")["rows"] == 6
    with pytest.raises(MissingSplit, match=r"no split 'test' \(found: train, validation\)"):
        source.load("owner/set", config, "test")
    (tmp_path / "owner/set" / pattern.format(1)).unlink()
    with pytest.raises(DataError, match="2 of the 3 files of split 'train'; copy the others"):
        source.load("owner/set", config, "train")


def test_a_shard_without_a_value_takes_the_type_of_the_others_and_a_foreign_one_is_named(tmp_path):
    (first, second) = write_split(tmp_path, "owner/set", "default", "train", [{"text": None}, {"text": "b"}], shards=2)
    assert FolderSource(tmp_path).load("owner/set", None, "train")["text"][:] == [None, "b"]
    pq.write_table(pa.table({"text": [[1]]}), first)
    with pytest.raises(DataError, match="owner/set  train: its files do not fit together") as error:
        FolderSource(tmp_path).load("owner/set", None, "train")
    assert "\n" not in str(error.value)
    second.unlink()
    with pytest.raises(DataError, match="1 of the 2 files of split 'train'; copy the others"):
        FolderSource(tmp_path).load("owner/set", None, "train")


def test_slices_are_rows_of_the_split(folder):
    source = FolderSource(folder)
    assert source.load("owner/set", None, "train[8:]+validation[:50%]")["label"][:] == [8, 9, 0, 1]


def test_a_split_is_not_taken_for_one_whose_name_begins_alike(folder):
    assert len(FolderSource(folder).load("owner/set", "default", "validation")) == 4


def test_completeness_comes_from_the_manifest(folder):
    entry = {"rows": 4, "published_rows": 7, "complete": False, "note": "the first 4"}
    write_manifest(folder, {"owner/set": {"default": {"validation": entry}}})
    found = FolderSource(folder).completeness("owner/set", "default", "validation")
    expected = {"dataset": "owner/set", "config": "default", "split": "validation"}
    assert found == expected | {"rows": 4, "published_rows": 7, "complete": False, "note": "the first 4"}


def test_a_split_that_no_manifest_knows_is_never_called_complete(folder):
    found = FolderSource(folder).completeness("owner/set", "default", "train")
    assert found["complete"] is False
    assert "manifest.json does not know train" in found["note"]


def test_invented_text_under_a_published_name_is_never_called_complete(tmp_path):
    write_split(tmp_path, "nyu-mll/glue", "rte", "train", ROWS)
    write_manifest(tmp_path, {"nyu-mll/glue": {"rte": {"train": {"published_rows": 10, "complete": True}}}})
    found = FolderSource(tmp_path, "synthetic", "invented").completeness("nyu-mll/glue", "rte", "train")
    assert (found["complete"], found["note"]) == (False, "invented")


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_split(other, "owner/set", "default", "train", ROWS, shards=3)
    here, there = (FolderSource(f).fingerprint("owner/set", None, "train") for f in (folder, other))
    assert here == there
    write_split(other, "owner/set", "default", "train", [*ROWS[:-1], {"text": "row 8", "label": 9}], shards=3)
    assert here != FolderSource(other).fingerprint("owner/set", None, "train")


def test_a_truncated_file_is_named_with_the_remedy(folder):
    file = folder / "owner/set/default/validation-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    for read in (FolderSource(folder).load, lambda *a: list(FolderSource(folder).stream(*a))):
        with pytest.raises(DataError, match="validation-00000.*cannot be read as parquet.*copy it again") as caught:
            read("owner/set", "default", "validation")
        assert "\n" not in str(caught.value)


def test_a_file_of_another_size_than_the_manifest_says_is_named(folder):
    write_manifest(folder, {"owner/set": {"default": {"validation": {"bytes": 1}}}})
    with pytest.raises(DataError, match="validation-00000.*where manifest.json says 1"):
        FolderSource(folder).load("owner/set", "default", "validation")


def test_what_is_missing_is_named_with_what_is_there(folder):
    source = FolderSource(folder)
    with pytest.raises(MissingSplit, match=r"no split 'test' \(found: train, validation, validation_matched\)"):
        source.load("owner/set", "default", "test")
    with pytest.raises(DataError, match=r"no configuration 'other' \(found: default\)"):
        source.load("owner/set", "other", "train")
    with pytest.raises(DataError, match="owner/none: no such data set; .*SAOBP_DATA"):
        source.load("owner/none", None, "train")
    with pytest.raises(DataError, match="vocab.txt: no such file"):
        source.files("owner/set", "vocab.txt")


def test_no_identifier_or_configuration_leaves_the_folder(folder):
    outside = [(name, "default") for name in ("../set", "/etc", "owner/../../set", "", "owner\\set")]
    for dataset, config in outside + [("owner/set", config) for config in ("..", "../default", ".")]:
        with pytest.raises(DataError, match="is no data set identifier" if config == "default" else "no configuration"):
            FolderSource(folder).load(dataset, config, "train")


def test_a_link_that_leads_outside_is_refused(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (file,) = write_split(outside, "owner/set", "default", "train", ROWS)
    (folder / "owner/set/default/secret-00000-of-00001.parquet").symlink_to(file)
    (folder / "owner/away").symlink_to(outside / "owner/set")
    with pytest.raises(DataError, match="leads outside"):
        FolderSource(folder).load("owner/set", "default", "secret")
    with pytest.raises(DataError, match="leads outside"):
        FolderSource(folder).load("owner/away", "default", "train")


def test_the_setting_overrides_the_profiles_choice(folder, monkeypatch):
    monkeypatch.setenv("SAOBP_DATA", str(folder))
    assert resolve("hub") == FolderSource(folder)
    monkeypatch.setenv("SAOBP_DATA", "hub")
    assert resolve(str(folder)).name == "hub"


def test_a_missing_folder_is_one_line_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="nowhere: no such data folder; set SAOBP_DATA"):
        resolve(str(tmp_path / "nowhere"))


def few_rows(calls):
    """Return a stand-in for the story world's writer that notes each call."""

    def write(folder):
        calls.append(folder)
        write_split(folder, "saobp/stories", "default", "train", ROWS)
        return folder

    return write


def test_the_story_world_is_written_once_even_when_asked_for_twice_at_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(storyworld, "write", few_rows(calls))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve("synthetic", cache=tmp_path), range(4)))
    assert len(calls) == 1
    assert {f.root for f in found} == {found[0].root}
    assert len(found[0].load("saobp/stories", None, "train")) == 10


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_story_world_is_written_again(tmp_path, monkeypatch, damage):
    calls = []
    monkeypatch.setattr(storyworld, "write", few_rows(calls))
    resolve("synthetic", cache=tmp_path)
    (file,) = tmp_path.glob("synthetic-*/**/*.parquet")
    file.unlink() if damage == "missing" else file.write_bytes(file.read_bytes()[:50])
    (tmp_path / f".{next(tmp_path.glob('synthetic-*/')).name}.killed").mkdir()
    assert len(resolve("synthetic", cache=tmp_path).load("saobp/stories", None, "train")) == 10
    assert len(calls) == 2 and not list(tmp_path.glob(".synthetic-*"))  # nor is what a killed writer left


def test_a_story_world_cut_off_while_writing_leaves_nothing_under_its_name(tmp_path, monkeypatch):
    def cut_off(folder):
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(storyworld, "write", cut_off)
    with pytest.raises(KeyboardInterrupt):
        resolve("synthetic", cache=tmp_path)
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]
    monkeypatch.setattr(storyworld, "write", few_rows([]))
    assert len(resolve("synthetic", cache=tmp_path).load("saobp/stories", None, "train")) == 10


@pytest.mark.skipif(not Path(MIRROR).is_dir(), reason="SAOBP_DATA names no folder")
def test_a_local_mirror_holds_what_its_manifest_says():
    source = FolderSource(Path(MIRROR))
    for dataset, configs in source.manifest.items():
        for config, found in configs.items():
            for split, entry in found.items():
                assert source.completeness(dataset, config, split)["rows"] == entry["rows"]
                assert source.completeness(dataset, config, split)["complete"] is entry["complete"]


@pytest.mark.parametrize("text", ['{"owner/set": ', "[1]", '{"a/b": 3}', '{"a/b": {"c": ["train"]}}', '"x"'])
def test_a_manifest_of_another_shape_is_named(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match="manifest.json: is not JSON of data set -> config -> split .*; copy it again$"):
        resolve(str(tmp_path)).manifest  # noqa: B018


TEXTS, OPTIONS = ["a", "b"], [["x", "y"], ["z", "w"]]
ANSWERS = [{"text": ["a"], "answer_start": [0]}, {"text": ["b", "c"], "answer_start": [1, 2]}]
KEYS = pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())
LISTS = [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.string(), 2), pa.list_(KEYS[3])]
STRUCTS = [
    pa.struct({"text": pa.list_(pa.string()), "answer_start": pa.list_(pa.int32())}),
    pa.struct({"text": pa.large_list(pa.large_string()), "answer_start": pa.large_list(pa.int64())}),
]


@pytest.mark.parametrize(
    ("values", "kinds"), [(TEXTS, KEYS), (OPTIONS, LISTS), (ANSWERS, STRUCTS), ([1, 0], [pa.int64(), pa.int8()])]
)
def test_shards_of_every_form_that_parquet_has_for_a_column_are_one_split(tmp_path, values, kinds):
    folder = tmp_path / "owner/set/default"
    folder.mkdir(parents=True)
    for number, kind in enumerate(kinds):
        file = folder / f"train-{number:05d}-of-{len(kinds):05d}.parquet"
        pq.write_table(pa.table({"column": pa.array(values, kind)}), file)
    source = FolderSource(tmp_path)
    assert source.load("owner/set", None, "train")["column"][:] == values * len(kinds)
    assert [row["column"] for row in source.stream("owner/set", None, "train")] == values * len(kinds)
    assert source.load("owner/set", None, "train[1:3]")["column"][:] == [values[1], values[0]]


def test_a_split_that_is_there_in_two_layouts_is_read_once_and_a_part_of_one_is_none(tmp_path):
    folder = tmp_path / "owner/set/default"
    for name in ("train-00000-of-00001.parquet", "train/0000.parquet", "partial-test/0000.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), folder / name)
    assert FolderSource(tmp_path).load("owner/set", None, "train")["n"][:] == [1]
    with pytest.raises(MissingSplit, match=r"no split 'test' \(found: partial-test, train\)"):
        FolderSource(tmp_path).load("owner/set", None, "test")
