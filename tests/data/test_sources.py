from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_hub import write_manifest, write_split

from saobp import storyworld
from saobp.study.data.sources import DataError, FolderSource, resolve
from saobp.study.data.splits import MissingSplit
from saobp.study.setup import paths

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


def test_a_split_is_read_in_order_and_percent_slices_that_meet_share_no_row_and_lose_none(folder):
    source = FolderSource(folder)
    assert list(source.load("owner/set", "default", "train")) == list(source.stream("owner/set", None, "train")) == ROWS
    assert source.load("owner/set", None, "train[8:]+validation[:50%]")["label"][:] == [8, 9, 0, 1]
    ((_, start, middle),) = source.intervals("owner/set", None, "train[:67%]")
    assert (start, source.intervals("owner/set", None, "train[67%:]")) == (0, [("train", middle, 10)])


@pytest.mark.parametrize("split", ["", "../train", "train[", "train[:200%]", "train[5", "a b", "train[:x]"])
def test_what_is_no_split_is_refused_by_name(folder, split):
    with pytest.raises(DataError, match="is no (split|slice)") as caught:
        FolderSource(folder).intervals("owner/set", None, split)
    assert "\n" not in str(caught.value)


def test_completeness_comes_from_the_manifest_and_is_never_that_of_a_slice_or_of_what_no_manifest_knows(folder):
    entry = {"published_rows": 7, "complete": True, "note": "the first 4"}
    write_manifest(folder, {"owner/set": {"default": {"validation": entry}}})

    def found(split):
        of = FolderSource(folder).completeness("owner/set", "default", split)
        assert (of["dataset"], of["config"], of["split"]) == ("owner/set", "default", split)
        return of["rows"], of["published_rows"], of["complete"], of["note"]

    assert found("validation") == (4, 7, True, "the first 4")
    assert found("validation[:1]+validation[2:]") == (3, 7, False, "the first 4; 3 rows of validation")
    assert found("train") == (10, None, False, "manifest.json does not know train")
    assert found("train+validation") == (14, None, False, "manifest.json does not know train; the first 4")


def test_invented_text_under_a_published_name_is_never_called_complete(tmp_path):
    write_split(tmp_path, "nyu-mll/glue", "rte", "train", ROWS)
    entry = {"published_rows": 10, "complete": True, "note": "invented"}
    write_manifest(tmp_path, {"nyu-mll/glue": {"rte": {"train": entry}}})
    for name, complete in (("synthetic", False), ("mirror", True)):
        found = FolderSource(tmp_path, name).completeness("nyu-mll/glue", "rte", "train")
        assert (found["complete"], found["note"]) == (complete, "invented")


def test_the_fingerprint_is_of_the_content_and_not_of_the_place(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    write_split(other, "owner/set", "default", "train", ROWS, shards=3)
    here, there = (FolderSource(f).fingerprint("owner/set", None, "train") for f in (folder, other))
    assert here == there != FolderSource(other).fingerprint("owner/set", None, "train[:5]")
    write_split(other, "owner/set", "default", "train", [*ROWS[:-1], {"text": "row 8", "label": 9}], shards=3)
    assert here != FolderSource(other).fingerprint("owner/set", None, "train")


def test_a_truncated_file_and_one_of_another_size_than_the_manifest_says_are_named_with_the_remedy(folder):
    write_manifest(folder, {"owner/set": {"default": {"validation_matched": {"bytes": 1}}}})
    with pytest.raises(DataError, match="validation_matched-00000.*where manifest.json says 1; copy the file again"):
        FolderSource(folder).load("owner/set", "default", "validation_matched")
    file = folder / "owner/set/default/validation-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    for read in (FolderSource(folder).load, lambda *a: list(FolderSource(folder).stream(*a))):
        with pytest.raises(DataError, match="validation-00000.*cannot be read as parquet.*copy it again") as caught:
            read("owner/set", "default", "validation")
        assert "\n" not in str(caught.value)


def test_what_is_missing_is_named_with_what_is_there(folder):
    source = FolderSource(folder)
    with pytest.raises(MissingSplit, match=r"no split 'test' \(found: train, validation, validation_matched\)"):
        source.load("owner/set", "default", "test")
    with pytest.raises(DataError, match=r"no configuration 'other' \(found: default\)"):
        source.load("owner/set", "other", "train")
    with pytest.raises(DataError, match="^saobp/storys: not in the story world .it has .*saobp/stories.*mend the st"):
        resolve("synthetic").load("saobp/storys", None, "train")
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
    (file,) = write_split(tmp_path_factory.mktemp("outside"), "owner/set", "default", "train", ROWS)
    (folder / "owner/set/default/secret-00000-of-00001.parquet").symlink_to(file)
    (folder / "owner/away").symlink_to(file.parents[1])
    for dataset, split in (("owner/set", "secret"), ("owner/away", "train")):
        with pytest.raises(DataError, match="leads outside"):
            FolderSource(folder).load(dataset, "default", split)


def test_the_setting_overrides_the_profiles_choice_and_a_missing_folder_is_one_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(DataError, match="nowhere: no such data folder; set SAOBP_DATA"):
        resolve(str(folder / "nowhere"))
    monkeypatch.setenv("SAOBP_DATA", str(folder))
    assert resolve("hub") == FolderSource(folder)
    monkeypatch.setenv("SAOBP_DATA", "hub")
    assert resolve(str(folder)).name == "hub"


def test_the_story_world_is_written_once_whoever_asks_and_again_where_it_is_not_whole(tmp_path, monkeypatch):
    calls = []

    def few_rows(folder):
        calls.append(folder)
        write_split(folder, "saobp/stories", "default", "train", ROWS)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(storyworld, "write", few_rows)
    with pytest.raises(KeyboardInterrupt):
        resolve("synthetic")
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]  # what was cut off leaves nothing under its name
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve("synthetic"), range(4)))
    assert len(calls) == 2 and len({f.root for f in found}) == 1
    assert len(found[0].load("saobp/stories", None, "train")) == 10
    for damage in (lambda file: file.unlink(), lambda file: file.write_bytes(file.read_bytes()[:50])):
        (file,) = tmp_path.glob("synthetic-*/**/*.parquet")
        damage(file)
        (tmp_path / f".{found[0].root.name}.killed").mkdir()
        assert len(resolve("synthetic").load("saobp/stories", None, "train")) == 10
        assert not list(tmp_path.glob(".synthetic-*"))  # nor is what a killed writer left
    assert len(calls) == 4


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
