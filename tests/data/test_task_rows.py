import json
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset
from small_hub import race_rows, refused, write_split

from companion.data.sources import FolderSource, resolve
from companion.data.task_rows import _answered, load_reported, load_task
from companion.setup.tasks_and_metrics import TASKS

PAIRS = [
    {"sentence1": f"a {n}", "sentence2": f"b {n}", "label": n % 2, "idx": n, "hops": n % 4}
    for n in range(50)
]


@pytest.fixture
def source(tmp_path):
    """RTE whole, RACE with validation and test only."""
    write_split(tmp_path, "nyu-mll/glue", "rte", "train", PAIRS)
    write_split(tmp_path, "nyu-mll/glue", "rte", "validation", PAIRS[:12])
    write_split(tmp_path, "ehovy/race", "middle", "validation", race_rows(20))
    write_split(tmp_path, "ehovy/race", "middle", "test", race_rows(9))
    return FolderSource(tmp_path)


def test_the_papers_benchmarks_are_there_with_the_papers_headline_and_their_outputs():
    glue = {"cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli"}
    assert set(TASKS) == glue | {"squad", "hellaswag", "race", "boolq"}
    special = {"cola": "matthews", "stsb": "pearson", "squad": "exact_match"}
    assert {
        name: spec.headline for name, spec in TASKS.items() if spec.headline != "accuracy"
    } == special
    # a class, a similarity, an option; the others have two
    outputs = {"mnli": 3, "stsb": 1, "hellaswag": 1, "race": 1}
    assert {
        name: spec.num_labels for name, spec in TASKS.items() if spec.num_labels != 2
    } == outputs
    assert TASKS["mnli"].evaluation_split == "validation_matched"


def test_the_development_slice_is_a_tenth_of_train_and_shares_no_row_with_it_and_a_limit_draws_rows(
    source, tmp_path
):
    task = load_task("rte", source)
    train, development = (set(part["idx"][:]) for part in (task.train, task.development))
    assert (len(train), len(development), len(task.evaluation)) == (45, 5, 12)
    assert task.evaluation["hops"][:5] == [0, 1, 2, 3, 0]
    assert not train & development and train | development == set(range(50))
    task = load_task("rte", source, limits=(20, 6))
    assert (len(task.train) + len(task.development), len(task.evaluation)) == (20, 6)
    assert load_task("rte", source, limits=(20, None)).train["idx"][:] == task.train["idx"][:], (
        "the same in every run"
    )
    assert sorted(task.evaluation["idx"][:]) == task.evaluation["idx"][:]
    assert [(split["used"], split["complete"]) for split in task.splits] == [
        (20, False),
        (6, False),
    ]
    assert all(re.search(rf"\b{split['used']}\b.* drawn", split["note"]) for split in task.splits)
    write_split(tmp_path, "nyu-mll/glue", "rte", "train", PAIRS * 240)
    # at most
    assert len(load_task("rte", source).development) == 1000


@pytest.mark.parametrize(
    ("name", "passage"),
    [("race", "article"), ("squad", "context"), ("boolq", "passage"), ("qnli", "sentence")],
)
def test_questions_of_one_passage_are_all_trained_on_or_all_set_aside(name, passage, tmp_path):
    row = race_rows(1)[0] | {
        "context": "",
        "answers": {"text": ["P"], "answer_start": [0]},
        "sentence": "",
        "label": 0,
    }
    row |= {"passage": "", "answer": True} if name == "boolq" else {}
    rows = [row | {passage: f"Passage {n % 12}.", "question": f"Which is {n}?"} for n in range(60)]
    for split in ("train", "validation"):
        write_split(tmp_path, TASKS[name].dataset, TASKS[name].config, split, rows)
    task = load_task(name, FolderSource(tmp_path))
    trained, aside = (set(part[passage][:]) for part in (task.train, task.development))
    assert len(aside) == 2 and len(trained) == 10 and not trained & aside
    assert len({*task.train["question"], *task.development["question"]}) == len(rows)


def test_a_substitute_split_is_named_in_the_notes_and_slices_of_one_may_train_and_report(source):
    task = load_task("race", source, ("validation", "test"))
    assert (task.spec.train_split, task.spec.evaluation_split) == ("validation", "test")
    for split, name in zip(task.splits, ("train", "validation")):
        assert f"stands in for the {name}" in split["note"]
    task = load_task("race", source, ("validation[:80%]", "validation[80%:]"))
    assert (len(task.train) + len(task.development), len(task.evaluation)) == (16, 4)


@pytest.mark.parametrize(
    "splits",
    [
        ("validation", "validation"),
        ("validation[:60%]", "validation[50%:]"),
        ("validation+test", "test[:1]"),
    ],
)
def test_training_on_reported_rows_is_refused(source, splits):
    refused("race: the splits .* share rows; slice them apart", load_task, "race", source, splits)


def test_reported_rows_need_no_train_split_and_are_those_of_the_whole_task(source):
    refused("no split 'train'", load_task, "race", source)
    spec, rows, split = load_reported("race", source, split="test", limit=6)
    whole = load_task("race", source, ("validation", "test"), (None, 6))
    # of a passage of train: who does not train knows none
    known = whole.splits[1]["note"].removeprefix(split["note"])
    assert (
        rows[:] == whole.evaluation[:]
        and split | {"note": split["note"] + known} == whole.splits[1]
    )
    assert spec.evaluation_split == "test" and "validation" in split["note"]
    assert re.search(r"\b6\b.* about a passage of train", known)
    assert len(load_reported("race", source)[1]) == 20


SENTENCES = {"sentence1": "a", "sentence2": "b"}
RTE, STSB = SENTENCES | {"label": 0}, SENTENCES | {"label": 2.5}
SQUAD = {"question": "Who?", "context": "Ben.", "answers": {"text": ["Ben"], "answer_start": [0]}}
RACE = {"article": "a", "question": "q", "options": ["w", "x", "y", "z"], "answer": "C"}
SWAG = {"ctx": "He", "endings": ["w", "x", "y", "z"], "label": "3"}
BOOLQ = {"question": "q", "passage": "p", "answer": True}


@pytest.mark.parametrize(
    ("name", "row", "column", "values", "labels"),
    [
        ("race", RACE, "answer", "DBAC", [3, 1, 0, 2]),
        ("hellaswag", SWAG, "label", "2301", [2, 3, 0, 1]),
        ("boolq", BOOLQ, "answer", [True, False], [1, 0]),
        ("stsb", STSB, "label", [1.0, 2.5], [1.0, 2.5]),
        # whole numbers written as floats
        ("rte", RTE, "label", [0.0, 1.0], [0, 1]),
    ],
)
def test_answers_become_numbers_whatever_the_owners_call_them(
    tmp_path, name, row, column, values, labels
):
    spec = TASKS[name]
    write_split(
        tmp_path,
        spec.dataset,
        spec.config,
        "validation",
        [row | {column: value} for value in values],
    )
    found = load_reported(name, FolderSource(tmp_path))[1]["label"][:]
    assert found == labels and [*map(type, found)] == [*map(type, labels)]


@pytest.mark.parametrize(
    ("name", "good", "column", "value", "says"),
    [
        ("rte", RTE, "label", None, "None is no answer"),
        ("rte", RTE, "label", -1, "-1 is no answer"),
        ("rte", RTE, "label", 2, "2 is not one of"),
        ("rte", RTE, "sentence2", None, "None is not a text"),
        ("stsb", STSB, "label", float("nan"), "nan is no answer"),
        ("stsb", STSB, "label", float("inf"), "inf is not a similarity from 0 to 5"),
        *(
            ("race", RACE, "options", few, "is not 4 texts")
            for few in (["x", "y", "z"], ["w", None, "y", "z"])
        ),
        ("race", RACE, "answer", "E", "'E' is not one of A, B, C, D"),
        ("hellaswag", SWAG, "label", "4", "'4' is not one of 0, 1"),
        ("boolq", BOOLQ, "answer", None, "is no answer"),
        ("squad", SQUAD, "answers", {"text": [], "answer_start": []}, "is no answer"),
        ("squad", SQUAD, "answers", {"text": [" "], "answer_start": [0]}, "is no answer"),
        *(
            (
                "squad",
                SQUAD,
                "answers",
                {"text": texts, "answer_start": starts},
                "is not one answer_start per text",
            )
            for texts, starts in ((["Ben", "Ben"], [0]), (["Ben"], [None]))
        ),
        (
            "squad",
            SQUAD,
            "answers",
            {"text": ["Ada"], "answer_start": [0]},
            "1 of 20 rows do not occur",
        ),
        ("rte", RTE | {"hops": 1}, "hops", None, "None is not a count"),
    ],
)
def test_a_value_that_no_column_may_hold_is_named_by_its_place(
    tmp_path, name, good, column, value, says
):
    spec = TASKS[name]
    rows = [good] * 13 + [good | {column: value}] + [good] * 6
    write_split(tmp_path, spec.dataset, spec.config, "train", [good] * 20)
    write_split(tmp_path, spec.dataset, spec.config, spec.evaluation_split, rows)
    place = f"{spec.dataset} {spec.config} {spec.evaluation_split}, row 13, column '{column}': "
    for read in (load_task, load_reported):
        said = refused(re.escape(says), read, name, FolderSource(tmp_path))
        assert said.startswith(place) and len(said) < 250


def test_an_answer_that_its_context_lacks_is_counted_in_the_note(tmp_path):
    rows = [SQUAD] * 199 + [SQUAD | {"answers": {"text": ["Ada"], "answer_start": [0]}}]
    write_split(tmp_path, "rajpurkar/squad", "plain_text", "validation", rows)
    *_, split = load_reported("squad", FolderSource(tmp_path))
    assert re.search(r"\b1\b.* not in (its|the) context", split["note"])


def test_a_missing_column_and_a_split_of_too_few_rows_are_refused_by_name(tmp_path, source):
    for train, said in (("train[:1]", "1 row"), ("train[:0]", "0 rows")):
        said = re.escape(f"nyu-mll/glue rte {train}: {said}; give at least 2")
        refused(said, load_task, "rte", source, (train, "validation"))
    refused(
        "train: 50 rows, of which 1 may be drawn; give at least 2",
        load_task,
        "rte",
        source,
        limits=(1, None),
    )
    refused(
        r"validation\[:0\]: 0 rows; give at least 1",
        load_reported,
        "rte",
        source,
        split="validation[:0]",
    )
    write_split(tmp_path, "nyu-mll/glue", "rte", "train", [{"sentence1": "a", "label": 1}] * 20)
    refused("nyu-mll/glue rte train: no column sentence2", load_task, "rte", source)


@pytest.mark.parametrize("name", TASKS)
def test_every_benchmark_of_the_story_world_has_what_its_columns_must_hold(name):
    spec, rows, split = load_reported(name, resolve("synthetic"), limit=50)
    assert len(rows) == 50 or len(rows) == split["rows"]


@pytest.mark.parametrize(
    ("name", "names", "labels"),
    [
        ("sst2", ["positive", "negative"], [1, 0]),
        ("sst2", ["negative", "positive"], [0, 1]),
        ("mrpc", ["equivalent", "not_equivalent"], [1, 0]),
        ("qqp", ["not_duplicate", "duplicate"], [0, 1]),
        ("rte", ["not_entailment", "entailment"], [1, 0]),
        ("sst2", ["0", "1"], [0, 1]),
        ("mnli", ["contradiction", "neutral", "entailment"], [2, 1, 0]),
        ("cola", ["acceptable", "bad"], None),
    ],
)
def test_numbers_of_named_classes_are_read_by_their_names(name, names, labels):
    spec, count = TASKS[name], len(names)
    rows = Dataset.from_dict(
        {**{text: ["a"] * count for text in spec.texts}, "label": list(range(count))}
    )
    rows = rows.cast_column("label", ClassLabel(names=names))
    if labels is None:
        refused(
            "classes acceptable, bad are not unacceptable, acceptable",
            _answered,
            spec,
            rows,
            "train",
        )
    else:
        assert _answered(spec, rows, "train")["label"][:] == labels


def test_answers_that_come_as_one_mapping_each_are_read_as_one_of_lists():
    rows = Dataset.from_list([SQUAD | {"answers": [{"text": "Ben", "answer_start": 0}]}])
    assert _answered(TASKS["squad"], rows, "train")["answers"][0] == {
        "text": ["Ben"],
        "answer_start": [0],
    }


HUB_CLASSES = {
    "mrpc": ["not_equivalent", "equivalent"],
    "rte": ["entailment", "not_entailment"],
    "cola": ["unacceptable", "acceptable"],
    "sst2": ["negative", "positive"],
    "qnli": ["entailment", "not_entailment"],
    "wnli": ["not_entailment", "entailment"],
    "qqp": ["not_duplicate", "duplicate"],
    "mnli": ["entailment", "neutral", "contradiction"],
}


def write_classes(folder, name, split, names, labels, kind, shard=0, shards=1):
    """Write rows as datasets does, their classes in the metadata, the column of a type of its
    own.
    """
    spec = TASKS[name]
    rows = {text: [f"{text} {row}" for row in range(len(labels))] for text in spec.texts}
    rows = Dataset.from_dict(rows | {"label": labels}).data.table
    metadata = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    rows = rows.set_column(len(spec.texts), "label", rows["label"].cast(kind))
    rows = rows.replace_schema_metadata({"huggingface": json.dumps(metadata)})
    file = folder / spec.dataset / spec.config / f"{split}-{shard:05d}-of-{shards:05d}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8()])
@pytest.mark.parametrize("name", HUB_CLASSES)
def test_a_mirror_that_numbers_its_classes_otherwise_than_the_hub_gives_the_same_classes(
    tmp_path, name, kind
):
    names, split = HUB_CLASSES[name], TASKS[name].evaluation_split
    labels = [row % len(names) for row in range(60)]
    write_classes(tmp_path / "hub", name, split, names, labels, kind)
    turned = [len(names) - 1 - label for label in labels]
    write_classes(tmp_path / "other", name, split, names[::-1], turned, kind)
    for folder in ("hub", "other"):
        rows = load_reported(name, FolderSource(tmp_path / folder))[1]
        assert rows["label"][:] == labels


FEATURE = {"names": ["not_entailment", "entailment"], "_type": "ClassLabel"}
BESIDE = [
    ("huggingface", json.dumps(FEATURE)),
    ("huggingface", json.dumps({"info": {"features": {"label": FEATURE}}})),
    ("ClassLabel", json.dumps({"names": FEATURE["names"]})),
    ("names", json.dumps(FEATURE["names"])),
    ("names", "[1, 2]"),
    ("label2id", json.dumps({"entailment": 1, "not_entailment": 0})),
    ("id2label", "0: a, 1: b"),
    ("values", json.dumps(["different", "alike"])),
    ("codes", json.dumps({"a": 1, "b": 0})),
    ("categories", '{"1": "not_entailment"}'),
    ("comment", "0 is not_entailment, 1 entailment"),
]


def write_beside(folder, key, text):
    """Write rows with words beside the column of their labels."""
    rows = pa.Table.from_pylist([SENTENCES | {"label": label} for label in (0, 0, 1)])
    place = rows.schema.get_field_index("label")
    column = pa.field("label", pa.int64(), metadata={key: text})
    file = folder / "nyu-mll/glue/rte/validation-00000-of-00001.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(rows.cast(rows.schema.set(place, column)), file)


@pytest.mark.parametrize(("key", "text"), BESIDE)
def test_names_of_classes_beside_a_column_are_refused(tmp_path, key, text):
    write_beside(tmp_path, key, text)
    flaw = f"rte|validation.*column 'label': {key}: .* may name classes; name them by `huggingface`"
    refused(flaw, load_reported, "rte", FolderSource(tmp_path))


def test_other_words_beside_a_column_are_no_harm(tmp_path):
    write_beside(tmp_path, "comment", "gold")
    assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [0, 0, 1]


def test_two_files_of_a_split_that_number_their_classes_otherwise_are_refused(tmp_path):
    names = HUB_CLASSES["rte"]
    write_classes(tmp_path, "rte", "validation", names, [0, 1], pa.int64(), 0, 2)
    write_classes(tmp_path, "rte", "validation", names[::-1], [1, 0], pa.int64(), 1, 2)
    said = "validation-00001.*column 'label' has the classes .*; write both with the same"
    refused(said, load_reported, "rte", FolderSource(tmp_path))
    write_classes(tmp_path, "rte", "validation", names, [0, 1], pa.int64())
    (tmp_path / "nyu-mll/glue/rte/validation-00000-of-00002.parquet").unlink()
    (tmp_path / "nyu-mll/glue/rte/validation-00001-of-00002.parquet").unlink()
    write_classes(tmp_path, "rte", "train", names[::-1], [1, 0], pa.int64())
    split = "validation+train"
    refused("write both with the same", load_reported, "rte", FolderSource(tmp_path), split=split)


CARD = """---
dataset_info:
- config_name: {config}
  features:
  - name: label
    dtype:
      class_label:
        names:
{names}
---
As on the hub.
"""


def write_card(folder, name, names, form):
    """Write what the hub's data set says of its classes beside the folders of its configurations."""
    spec = TASKS[name]
    if form == "README.md":
        listed = "\n".join(f"          '{number}': {each}" for number, each in enumerate(names))
        text = CARD.format(config=spec.config, names=listed)
    else:
        feature = {"names": names, "_type": "ClassLabel"}
        text = json.dumps({spec.config: {"features": {"label": feature}}})
    (folder / spec.dataset / form).write_text(text)


@pytest.mark.parametrize("form", ["README.md", "dataset_infos.json"])
@pytest.mark.parametrize("name", ["mrpc", "rte"])
def test_the_names_that_a_mirrors_card_states_are_read_and_those_of_its_files_must_be_the_same(
    tmp_path, name, form
):
    names, split = HUB_CLASSES[name], TASKS[name].evaluation_split
    file = write_split(tmp_path, "nyu-mll/glue", name, split, [SENTENCES | {"label": 0}] * 3)[0]
    plain = FolderSource(tmp_path).fingerprint("nyu-mll/glue", name, split)
    write_card(tmp_path, name, names[::-1], form)
    assert plain != FolderSource(tmp_path).fingerprint("nyu-mll/glue", name, split)
    assert load_reported(name, FolderSource(tmp_path))[1]["label"][:] == [1, 1, 1]
    write_classes(tmp_path, name, split, names, [0, 0, 0], pa.int64())
    said = f"{file}: column 'label' has the classes .*{form} says .*; write both with the same"
    refused(said, load_reported, name, FolderSource(tmp_path))
    write_card(tmp_path, name, names, form)
    assert load_reported(name, FolderSource(tmp_path))[1]["label"][:] == [0, 0, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# The benchmark\n---\nwords", ""),
        ("---\nconfigs: []\n---\nwords", ""),
        ("---\nconfigs: [\n---\nwords", "README.md: what it says of its columns cannot be read"),
        ("---\na: &a [1]\nb: &b [*a]\n---\n", "README.md: what it says .*alias"),
        (CARD.format(config="rte", names="          x: [1]"), "README.md: what it says"),
    ],
)
def test_a_mirrors_card_may_say_nothing_of_columns_but_nothing_unreadable(tmp_path, text, said):
    write_split(tmp_path, "nyu-mll/glue", "rte", "validation", [SENTENCES | {"label": 1}] * 3)
    (tmp_path / "nyu-mll/glue/README.md").write_text(text)
    if said:
        refused(said, load_reported, "rte", FolderSource(tmp_path))
    else:
        assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [1, 1, 1]


@pytest.mark.parametrize("before", ["", "\n", " ", "\ufeff", "\r\n"])
def test_a_mirrors_card_is_read_wherever_the_hub_finds_its_head(tmp_path, before):
    write_split(tmp_path, "nyu-mll/glue", "rte", "validation", [SENTENCES | {"label": 0}] * 3)
    listed = "          '0': not_entailment\n          '1': entailment"
    card = before + CARD.format(config="rte", names=listed)
    (tmp_path / "nyu-mll/glue/README.md").write_text(card, encoding="utf-8", newline="")
    assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [1, 1, 1]


@pytest.mark.parametrize("key", ["label_names", "ClassLabel", "HuggingFace", "id2label", ""])
def test_names_of_classes_that_a_file_states_are_read_or_refused(tmp_path, key):
    rows = pa.Table.from_pylist([SENTENCES | {"label": 0}] * 3)
    file = tmp_path / "nyu-mll/glue/rte/validation-00000-of-00001.parquet"
    file.parent.mkdir(parents=True)
    features = json.dumps({"features": {"label": FEATURE}})
    pq.write_table(rows.replace_schema_metadata({key or "huggingface": features}), file)
    if key:
        said = f"{key}: .* may name classes; name them by `huggingface`"
        refused(said, load_reported, "rte", FolderSource(tmp_path))
    else:
        assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [1, 1, 1]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("values", json.dumps(FEATURE["names"])),
        ("spark", json.dumps({"fields": [{"ml_attr": {"vals": FEATURE["names"]}}]})),
        ("about", "labels are 0 (not_entailment) and 1 (entailment)"),
    ],
)
def test_a_file_that_holds_the_classes_own_names_speaks_of_them_by_whatever_key(
    tmp_path, key, text
):
    rows = pa.Table.from_pylist([SENTENCES | {"label": 0}] * 3)
    file = tmp_path / "nyu-mll/glue/rte/validation-00000-of-00001.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(rows.replace_schema_metadata({key: text}), file)
    refused(f"{key}: .* may name classes", load_reported, "rte", FolderSource(tmp_path))
    harmless = {key: json.dumps({"nullable": True, "read_only": False}), "about": "entailment"}
    pq.write_table(rows.replace_schema_metadata(harmless), file)
    assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [0, 0, 0]


def test_numbers_that_pandas_calls_categories_are_refused_and_their_names_are_read(tmp_path):
    labels = pd.Categorical(["not_entailment", "entailment", "entailment"])
    table = pa.Table.from_pandas(pd.DataFrame([SENTENCES] * 3).assign(label=labels))
    file = tmp_path / "nyu-mll/glue/rte/validation-00000-of-00001.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(table, file)
    assert load_reported("rte", FolderSource(tmp_path))[1]["label"][:] == [1, 0, 0]
    place = table.schema.get_field_index("label")
    codes = table.set_column(place, "label", table["label"].chunk(0).indices)
    pq.write_table(codes, file)
    said = f"{file}: .*column 'label': pandas calls it categorical, .*; write their names"
    refused(said, load_reported, "rte", FolderSource(tmp_path))


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ("{", "what it says of its columns cannot be read"),
        ('{"info": {"features": {"label": {"_type": "Unheard"}}}}', "cannot be read"),
        (
            '{"info": {"features": {"label": {"names": ["entailment"], "_type": "ClassLabel"}}}}',
            "1",
        ),
    ],
)
def test_what_a_file_says_of_its_columns_is_used_or_refused(tmp_path, metadata, said):
    rows = pa.Table.from_pylist([SENTENCES | {"label": 1}] * 3)
    file = tmp_path / "nyu-mll/glue/rte/validation-00000-of-00001.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(rows.replace_schema_metadata({"huggingface": metadata}), file)
    refused(f"rte|validation.*{said}", load_reported, "rte", FolderSource(tmp_path))


def test_true_and_false_are_no_classes_that_have_names(tmp_path):
    rows = [SENTENCES | {"label": value} for value in (True, False)]
    write_split(tmp_path, "nyu-mll/glue", "rte", "validation", rows)
    said = "column 'label': True is not one of entailment, not_entailment"
    refused(said, load_reported, "rte", FolderSource(tmp_path))
