"""The rooms of the package form layers: no circle of imports, and the method knows nothing of the
study.
"""

import ast
import contextlib
import importlib
import json
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def name_of(path):
    """companion/data/task_rows.py -> companion.data.task_rows; a package is named by its folder."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {
    name_of(path): path
    for top in ("saobp", "companion")
    for path in sorted((ROOT / top).rglob("*.py"))
}
SCRIPTS = {
    name_of(path): path
    for top in ("benchmarks", "tools")
    for path in sorted((ROOT / top).glob("*.py"))
}


def package_of(module):
    """The package against which a module's relative imports are read; a package is its own."""
    return module if FILES[module].name == "__init__.py" else module.rpartition(".")[0]


def imported(source, package):
    """The modules of ours that a source in a package imports, anywhere in it: in a function too,
    and relative ones.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            if origin in FILES:
                full = (f"{origin}.{alias.name}" for alias in node.names)
                yield from (name if name in FILES else origin for name in full)


GRAPH = {
    name: {*imported(path.read_text(encoding="utf-8"), package_of(name))} - {name}
    for name, path in FILES.items()
}


@pytest.mark.parametrize(
    "source",
    [
        "import companion.figures.style",
        "from companion.figures import style",
        "from . import style",
        "from .style import PAGE",
        "from ..figures import style",
        "def page():\n    from ..figures.style import PAGE",
    ],
)
def test_an_import_is_seen_however_it_is_written(source):
    assert (
        package_of("companion.figures")
        == package_of("companion.figures.maps")
        == "companion.figures"
    )
    assert [*imported(source, "companion.figures")] == ["companion.figures.style"]


def room(module):
    """The folder that a module lies in: companion.data.task_rows -> companion.data."""
    return ".".join(module.split(".")[:2])


def test_no_room_or_module_imports_another_that_imports_it():
    # fails on a circle
    TopologicalSorter(GRAPH).prepare()
    rooms = {}
    for module, others in GRAPH.items():
        rooms.setdefault(room(module), set()).update(room(other) for other in others)
    TopologicalSorter({name: others - {name} for name, others in rooms.items()}).prepare()


def test_the_library_imports_nothing_of_the_companion():
    outside = {name: others for name, others in GRAPH.items() if not name.startswith("companion")}
    assert outside
    assert [
        (one, other) for one in outside for other in outside[one] if other.startswith("companion")
    ] == []


def test_what_is_run_and_recorded_imports_nothing_of_what_is_made_from_records():
    made = {
        f"companion.{name}" for name in ("results", "tables", "figures", "texts", "publication")
    }
    assert made <= {room(name) for name in GRAPH}
    recorded = {name: others for name, others in GRAPH.items() if room(name) not in made}
    assert [
        (one, other) for one in recorded for other in recorded[one] if room(other) in made
    ] == []


def constants(path):
    """name and value of each constant of a module that is written out: `LEVEL = 0.05` or `LEVEL:
    float = 0.05`.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (
            targets if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else ()
        ):
            several = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            for name, value in (
                zip(target.elts, node.value.elts) if several else [(target, node.value)]
            ):
                with contextlib.suppress(ValueError, TypeError):
                    yield ast.unparse(name), repr(ast.literal_eval(value))


def test_one_constant_has_one_home():
    homes = {}
    for module, path in (FILES | SCRIPTS).items():
        for constant in constants(path):
            homes.setdefault(constant, []).append(module)
    assert homes["LEVEL", "0.05"] == ["companion.statistics.intervals"]
    assert {"benchmarks.pretraining", "tools.lock"} <= SCRIPTS.keys()
    assert {constant: places for constant, places in homes.items() if len(places) > 1} == {}


def test_every_public_name_is_importable_and_a_wrong_one_is_named():
    import saobp

    assert (
        all(getattr(saobp, name) is not None for name in saobp.__all__)
        and dir(saobp) == saobp.__all__
    )
    with pytest.raises(AttributeError, match="has no attribute 'refined'"):
        _ = saobp.refined


@pytest.mark.parametrize(
    ("former", "home"),
    [
        ("saobp.capture", "saobp.measure.capture"),
        ("saobp.diagnostics", "saobp.measure.gtd_and_entropy"),
        ("saobp.graph", "saobp.measure.graph"),
        ("saobp.huggingface", "saobp.models.apply"),
        ("saobp.study.figures.style", "companion"),
        ("saobp.storyworld.world", "companion.storyworld"),
    ],
)
def test_a_former_module_is_answered_by_its_home(former, home):
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module(former)
    assert str(raised.value).endswith(f"has moved: import {home}")
    importlib.import_module(home)


def test_the_caches_of_imports_can_be_cleared_once_saobp_is_imported():
    importlib.import_module("saobp")
    # transformers does so before it runs code of a model's folder
    importlib.invalidate_caches()


LIGHT = """import sys
for room in ("saobp", "companion.results.table", "companion.figures", "companion.publication.cli", "papermill"):
    __import__(room)
    print(room, *({"lark"} if room == "papermill" else {"torch", "transformers", "datasets"}) & {*sys.modules})
"""


def test_what_reads_records_starts_without_torch_and_a_run_compiles_no_grammar_of_uris():
    told = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert len(told.stdout.splitlines()) == 5 and not [
        line for line in told.stdout.splitlines() if " " in line
    ]


def loads_of_models():
    """Yield where a model or tokenizer of somebody is loaded by a class that may run its code, and
    what the call is told.
    """
    sources = {str(path): path.read_text(encoding="utf-8") for path in FILES.values()}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        sources[str(path)] = re.sub(r"^[%!].*$", "", "\n".join(code), flags=re.MULTILINE)
    for place, source in sources.items():
        for call in ast.walk(ast.parse(source)):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith(
                (".from_pretrained", ".from_config")
            ):
                continue
            # a notebook reads the checkpoint that its study has written, or somebody's model
            somebodys = place.endswith(".py") or "locate" in ast.unparse(call)
            auto = not re.match(r"(PreTrainedTokenizerFast|maker)\.", ast.unparse(call.func))
            if somebodys and auto:
                yield (
                    f"{place}: {ast.unparse(call)}",
                    {word.arg: word.value for word in call.keywords},
                )


def test_no_model_or_tokenizer_of_somebody_brings_code_that_runs():
    calls = dict(loads_of_models())
    assert len(calls) >= 9 and any("05-finetune" in place for place in calls)
    for place, words in calls.items():
        assert ast.unparse(words.get("trust_remote_code", ast.Constant(None))) == "False", place


def test_tests_lie_in_the_folders_of_their_rooms():
    known = {room(name).rpartition(".")[2] for name in GRAPH} | {"helpers"}
    folders = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and path.name[0] not in "._"
    }
    assert folders <= known
