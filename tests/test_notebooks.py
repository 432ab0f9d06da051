"""The notebooks keep the house's form: a claim, parameters, outputs of the default run, and links
that hold.
"""

import re

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
import torch

from companion.figures.beyond_the_paper import learning_rates
from companion.records.execution import declared_parameters
from companion.setup import paths, ranges

DRAWS = re.compile(r"plot\(|\.subplots\(|heatmap\(|figures\.(?:shown|redrawn)\(|costs\.\w+\(")
NO_NUMBERS = re.compile(r"\$\$.*?\$\$|\$[^$]*\$|`[^`]*`|\]\([^)]*\)|Section [\d.]+", re.DOTALL)
# decimals of a notebook's text that the paper prints, a picture shows, or everybody knows
ELSEWHERE = {
    "01-derivation": {"22.7"},
    "03-diagnostics": {"0.43", "0.85"},
    "06-attention": {"0.43"},
}
NOTEBOOKS = sorted((paths.root() / "notebooks").glob("*.ipynb"))


CELLS = {path: nbformat.read(path, as_version=4).cells for path in NOTEBOOKS}


def cells(path, kind):
    return [cell for cell in CELLS[path] if cell.cell_type == kind]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def tagged(path, tag):
    return [cell.source for cell in cells(path, "code") if tag in cell.metadata.get("tags", [])]


def numbers(text):
    return [
        float(found)
        for found in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", text.replace(",", ""))
    ]


def test_each_decimal_of_its_text_is_one_that_its_cells_have_or_print_to_as_many_digits(notebook):
    printed = [numbers(cell.source) for cell in cells(notebook, "code")]
    for output in (output for cell in cells(notebook, "code") for output in cell.outputs):
        forms = output.get("data", {})
        texts = (
            output.get("text", ""),
            *(forms.get(f"text/{kind}", "") for kind in ("plain", "html", "markdown")),
        )
        printed += [numbers(re.sub("<[^>]+>", " ", text)) for text in texts]
    printed = [value for found in printed for value in found]
    text = NO_NUMBERS.sub("", "\n".join(cell.source for cell in cells(notebook, "markdown")))
    typed = {
        word: len(word.partition(".")[2])
        for word in re.findall(r"(?<![\w.])\d+\.\d+", text.replace(",", ""))
    }
    near = {word: 0.51 * 10**-places for word, places in typed.items()}
    unprinted = {
        word
        for word, gap in near.items()
        if all(abs(value - float(word)) > gap for value in printed)
    }
    assert unprinted == ELSEWHERE.get(notebook.stem, set())


def test_its_machinery_is_tagged_and_nothing_else_is(notebook):
    setup, record = tagged(notebook, "setup"), tagged(notebook, "record")
    assert len(record) == 1 and "run.save(record" in record[0] and "Run(" in "".join(setup)
    assert {"study_name": "smoke", "record": ""}.items() <= declared_parameters(notebook).items()
    for cell in cells(notebook, "code"):
        tagged_so = cell.metadata.get("tags")
        assert tagged_so or not re.search(
            r"^(import|from) |plt\.style|Run\(|run\.save", cell.source, re.MULTILINE
        )
        assert len(cell.source.splitlines()) <= 15, cell.source[:60]


def test_it_has_outputs_without_errors_or_a_folder_of_its_machine_and_what_a_cell_draws_is_to_be_seen(
    notebook,
):
    outputs = [output for cell in cells(notebook, "code") for output in cell.outputs]
    assert outputs and not [output for output in outputs if output.output_type == "error"]
    assert str(paths.root()) not in notebook.read_text(encoding="utf-8")
    for cell in cells(notebook, "code"):
        if DRAWS.search(cell.source):
            shown = [output.get("data", {}) for output in cell.outputs]
            waits = re.search(r"figures\.(shown|redrawn)\(", cell.source) and any(
                ": no run yet" in d.get("text/markdown", "") for d in shown
            )
            assert waits or any("image/png" in data for data in shown), cell.source


def test_every_link_leads_to_a_file_and_a_product_without_the_own_message_is_not_called_eq_11_alone(
    notebook,
):
    for source in (cell.source for cell in cells(notebook, "markdown")):
        for target in re.findall(r"\]\((?!http)([^)#]+)", source):
            assert (notebook.parent / target).exists(), target
        if "Eq. 11" in source and re.search(r"i \\neq? j|i\\neq? j", source):
            assert "own message" in source or r"$i \ne j$" in source, source


def test_notebook_12_says_what_every_arm_of_its_figure_is():
    (path,) = [path for path in NOTEBOOKS if path.stem == "12-beyond"]
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    unsaid = [title for title in learning_rates.ARM_TITLES.values() if f"*{title}*" not in text]
    assert not unsaid


def test_notebook_12_names_the_arms_in_the_order_of_its_figure():
    (path,) = [path for path in NOTEBOOKS if path.stem == "12-beyond"]
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    (setup,) = [source for source in tagged(path, "setup") if "\narms = (" in source]
    drawn = pd.read_csv(paths.figures() / "figure-rates.csv").query("panel == 'ratio'")
    arms = [arm for arm in drawn["arm"].str.partition(" ")[0] if f'"{arm}"' in setup]
    titles = [title for arm in arms if (title := learning_rates.ARM_TITLES.get(arm))]
    listed = [setup.index(f'"{arm}"') for arm in dict.fromkeys(arms)]
    explained = [text.index(f"*{title}*") for title in titles]
    assert len(listed) == 9 and listed == sorted(listed)
    assert explained == sorted(explained)


SIXTY_WORDS = " ".join(["a", "cat", "sat", "on", "my", "mat"] * 10)
AWKWARD = {
    "01-derivation": [
        {"strengths": [0.0], "sentence": "mice", "length": 8},
        {"strengths": [1.0, 0.0, 2.0, 0.5], "sentence": SIXTY_WORDS, "seed": 7, "length": 33},
        {"strengths": [2.0], "sentence": "", "length": 16},
    ],
    "02-variants": [
        {"strength": 0.0, "sentence": "mice", "length": 8},
        {"strength": 1.0, "sentence": SIXTY_WORDS, "seed": 7, "length": 17},
        {"strength": 2.0, "sentence": "", "length": 33},
    ],
    "03-diagnostics": [
        {"strength": 0.0, "tokens": 17, "beta": 1.0, "hops": 2, "seed": 5},
        {"strength": 1.0, "tokens": 33, "beta": 0.1, "hops": 12, "seed": 9},
        {"strength": 2.0, "tokens": 16, "beta": 0.5, "hops": 3},
    ],
    "09-audit": [
        {"standard_errors": 0.0, "probability": 1e-6},
        {"standard_errors": 100.0, "probability": 0.5},
        {"standard_errors": 3.0},
    ],
    "13-retrofit": [
        {"strength": 0.0, "texts": 3},
        {"strength": 1.0, "texts": 5},
        {"strength": 0.01, "texts": 4},
    ],
}
SMALL = {"02-variants": {"texts": 1}, "03-diagnostics": {"texts": 1}}


@pytest.fixture
def one_process(monkeypatch, tmp_path):
    """Runs the code of a notebook here, where nothing is loaded twice, and leaves torch as it was."""
    monkeypatch.chdir(paths.root())
    plt.switch_backend("Agg")

    def run(name, values):
        space, (path,) = {}, [path for path in NOTEBOOKS if path.stem == name]
        for cell in cells(path, "code"):
            source = re.sub("^%.*$", "", cell.source, flags=re.MULTILINE)
            exec(compile(source, f"{name}: {cell.id}", "exec"), space)
            if "parameters" in cell.metadata.get("tags", []):
                assert values.keys() <= space.keys()
                space |= values | {"record": str(tmp_path / "record.json")}
            plt.close("all")
        assert (tmp_path / "record.json").exists()

    with plt.rc_context():
        yield run
    torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name, values", [(name, values) for name, sets in AWKWARD.items() for values in sets]
)
def test_a_notebook_runs_to_its_end_with_parameters_that_are_awkward(one_process, name, values):
    one_process(name, SMALL.get(name, {}) | values)


@pytest.mark.parametrize(
    "name, values, reason",
    [
        ("01-derivation", {"strengths": [-1]}, "'strengths': -1 is not between 0 and 2"),
        ("01-derivation", {"strengths": []}, "'strengths': the list is empty"),
        ("02-variants", {"texts": 0}, "'texts': 0 is not between 1 and 32"),
        ("03-diagnostics", {"beta": float("nan")}, "'beta': nan is not between"),
        ("13-retrofit", {"texts": "many"}, "'texts': 'many' is not between"),
    ],
)
def test_a_parameter_without_a_meaning_is_refused_in_one_line(one_process, name, values, reason):
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        one_process(name, values)
    assert "\n" not in str(error.value)


def test_a_range_takes_its_ends_and_every_number_of_a_list():
    ranges.check(strength=(0, 0, 2), strengths=([0.0, 2], 0, 2))
    with pytest.raises(ValueError, match="'strengths': 2.1 is not"):
        ranges.check(strengths=([0.5, 2.1], 0, 2))
