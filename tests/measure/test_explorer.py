"""The attention explorer in a browser: its numbers are those of saobp.refine, its pictures follow
the controls.
"""

import base64
import copy
import html
import itertools
import json
import re
import subprocess

import families
import model_folders
import numpy as np
import pandas as pd
import pytest
import torch
import transformers as hf
from screenshot import BROWSER
from small_models import word_tokenizer

import saobp
from companion.publication.cli import main
from saobp.measure import inspect
from saobp.measure.gtd_and_entropy import attention_entropy, column_mass_maximum, gtd
from saobp.measure.inspection import explorer
from saobp.measure.inspection import maps as maps_of_models

HEADLESS = (
    BROWSER,
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-logging=stderr",
    "--dump-dom",
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no chromium here: apt-get install chromium"
)
STATES = [
    {
        "text": number % 3,
        "layer": number % 2,
        "head": number % 4,
        "factor": factor,
        "strength": strength,
    }
    for number, (factor, strength) in enumerate(
        itertools.product(inspect.FACTORS, (0.0, 0.2, 0.73, 1.0))
    )
]
SCRIPT = """
<script>
const told = { errors: window.told, numbers: [] }, root = document.querySelector(".saobp-explorer"), it = root.explorer;
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const picture = () => [part("before").toDataURL(), part("after").toDataURL()];
told.start = { ...it.state, ...it.numbers() };
it.draw(); // the page had no scroll bar when it was first drawn
const first = picture();
part("strength").value = 0.9;
part("strength").dispatchEvent(new Event("input"));
const second = picture();
told.slider = { before: first[0] === second[0], after: first[1] === second[1], shown: part("lambda").textContent };
const key = (name) => part("before").dispatchEvent(new KeyboardEvent("keydown", { key: name }));
told.rest = part("read").textContent;
key("ArrowDown"); key("ArrowDown"); key("ArrowRight");
told.pointed = { cell: it.cell, said: part("read").textContent, total: it.total[it.cell[1]] };
key("Escape");
const chosen = () => part("picker").querySelector("[tabindex='0']");
it.set({ layer: 0, head: 0 });
for (const arrow of ["ArrowUp", "ArrowRight", "ArrowDown", "ArrowRight"]) {
  chosen().focus();
  chosen().dispatchEvent(new KeyboardEvent("keydown", { key: arrow, bubbles: true }));
}
told.picked = { layer: it.state.layer, head: it.state.head, checked: chosen().ariaChecked, label: chosen().ariaLabel,
  focused: chosen() === document.activeElement, stops: part("picker").querySelectorAll("[tabindex='0']").length };
for (const state of STATES)
  told.numbers.push({ ...it.set(state), refined: [...it.refined], shown: part("lambda").textContent });
told.bounds = Object.keys(it.data.error).map((name) => [name, Number(part(`error-${name}`).textContent)]);
told.width = [document.documentElement.scrollWidth, innerWidth];
const out = document.createElement("pre");
out.id = "told";
out.textContent = JSON.stringify(told);
document.body.append(out);
</script>
"""
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<script>window.told = []; addEventListener("error", (event) => window.told.push(event.message));</script><body>"""


def random_model(kind):
    if kind == "causal":
        return families.sharpened(model_folders.decoder())
    torch.manual_seed(0)
    return families.sharpened(
        hf.BertModel(hf.BertConfig(vocab_size=105, pad_token_id=0, **families.SIZES))
    )


def collected(kind):
    return explorer.collect(
        random_model(kind), word_tokenizer(), model_folders.TEXTS, strength=0.1, tokens=16
    )


def browse(tmp_path, data, width=1100):
    """Return what the page told, and the console's errors."""
    file = tmp_path / "page.html"
    script = SCRIPT.replace("STATES", json.dumps(STATES))
    file.write_text(HEAD + explorer.fragment(data) + script, encoding="utf-8")
    command = [
        *HEADLESS,
        f"--window-size={width},900",
        f"--user-data-dir={tmp_path / 'browser'}",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


@pytest.fixture(scope="module")
def causal():
    return collected("causal")


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=needs_browser) for k in ("bidirectional", "causal")],
)
def browsed(request, tmp_path_factory):
    data = collected(request.param)
    return data, *browse(tmp_path_factory.mktemp("explorer"), data)


def received(data, state):
    """Return the map that the page shows, as the levels give it."""
    text = data["texts"][state["text"]]
    length = len(text["tokens"])
    levels = np.frombuffer(base64.b64decode(text["maps"]), "<u2")
    levels = levels.reshape(data["layers"], data["heads"], length, length)[
        state["layer"], state["head"]
    ]
    return explorer.from_levels(levels)


MEASURES = {"column": column_mass_maximum, "entropy": attention_entropy, "gtd": gtd}


def test_the_page_refines_as_saobp_does(browsed):
    data, told, _ = browsed
    for state, numbers in zip(STATES, told["numbers"]):
        raw = received(data, state)
        refined = saobp.refine(raw, state["factor"], state["strength"], causal=data["causal"])
        assert torch.allclose(
            torch.tensor(numbers["refined"], dtype=torch.double), refined.flatten(), atol=1e-6
        ), state
        for (side, maps), (name, measure) in itertools.product(
            (("before", raw), ("after", refined)), MEASURES.items()
        ):
            assert numbers[side][name] == pytest.approx(measure(maps).item(), abs=1e-3), (
                state,
                name,
            )
        if state["strength"] == 0:
            assert numbers["after"] == numbers["before"] and numbers["shown"] == "0.00"
        elif state["factor"] in ("elemmul", "sinkhorn"):
            assert numbers["shown"] == "any above 0"


def test_the_page_is_as_near_to_the_model_s_own_maps_as_it_says(browsed):
    data, told, _ = browsed
    model = maps_of_models.plain_copy(random_model("causal" if data["causal"] else "bidirectional"))
    samples = list(maps_of_models.encoded(model, word_tokenizer(), model_folders.TEXTS, 16))
    assert max(data["error"].values()) < 0.02
    assert all(0 < bound - data["error"][name] < 1.01e-4 for name, bound in told["bounds"])
    for state, numbers in zip(STATES, told["numbers"]):
        exact = maps_of_models.maps_of(model, samples[state["text"]])[state["layer"]][state["head"]]
        refined = saobp.refine(
            exact, state["factor"], state["strength"], causal=data["causal"]
        ).double()
        gap = (
            (torch.tensor(numbers["refined"], dtype=torch.double) - refined.flatten())
            .abs()
            .max()
            .item()
        )
        assert gap <= 1.05 * data["error"]["probability"] + 1e-6, state
        for name, measure in MEASURES.items():
            gap = abs(numbers["after"][name] - measure(refined).item())
            assert gap <= 1.05 * data["error"][name] + 1e-6, (state, name)


def test_the_page_starts_where_a_sink_drains_and_follows_slider_and_arrow_keys_without_a_word_in_the_console(
    browsed,
):
    data, told, console = browsed
    start, picked, pointed = told["start"], told["picked"], told["pointed"]
    assert {name: start[name] for name in data["start"]} == data["start"]
    assert start["after"]["column"] < start["before"]["column"] - 0.2
    assert told["slider"] == {"before": True, "after": False, "shown": "0.90"}
    assert (picked["layer"], picked["head"], picked["checked"], picked["stops"]) == (
        1,
        2,
        "true",
        1,
    )
    assert picked["focused"] and picked["label"].startswith("layer 2, head 3: ")
    assert pointed["cell"][0] == 0 and "Query" in pointed["said"] and "Query" not in told["rest"]
    assert f"{pointed['total']:.2f}".replace("-", "−") in pointed["said"]
    assert not told["errors"] and not console


@needs_browser
def test_the_page_of_an_inspection_writes_every_head_s_number_before_and_after(tmp_path):
    folder, out = model_folders.folder("gpt2", tmp_path / "gpt2"), tmp_path / "out"
    texts = model_folders.text_file(tmp_path / "texts.txt")
    assert (
        main(["inspect", str(folder), "--text", str(texts), "--samples", "2", "--out", str(out)])
        == 0
    )
    command = [*HEADLESS, f"--user-data-dir={tmp_path / 'browser'}", (out / "index.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    table = pd.read_csv(out / "attention.csv").query(
        "measure == 'column_mass_maximum' and head.notna()"
    )
    for side in ("before", "after"):
        picture = re.search(f'<svg id="heads-{side}".*?</svg>', done.stdout, re.S)[0]
        numbers = [float(number) for number in re.findall(r'class="(?:on|off)">([^<]+)<', picture)]
        assert numbers == pytest.approx(
            table.sort_values(["layer", "head"])[side].to_list(), abs=0.051
        ), side
    assert "CONSOLE" not in done.stderr


@needs_browser
def test_a_phone_shows_the_page_without_scrolling_sideways(causal, tmp_path):
    told, _ = browse(tmp_path, causal, width=500)
    assert told["width"][0] <= told["width"][1]


def test_levels_keep_probabilities_to_a_thousandth_rows_to_one_and_forbidden_entries_at_zero():
    maps = (4 * torch.randn(5, 20, 20)).softmax(-1)
    back = explorer.from_levels(explorer.to_levels(maps))
    assert torch.allclose(back.sum(-1), torch.ones(5, 20, dtype=torch.double))
    assert ((back / maps - 1).abs() < 1e-3).all()
    tiny = torch.tensor([[1.0, 1e-29], [1e-31, 1.0]])
    assert explorer.from_levels(explorer.to_levels(tiny))[0, 1] == pytest.approx(1e-29, rel=2e-3)
    assert explorer.to_levels(tiny)[1].tolist() == [0, explorer.LEVELS]
    causal = torch.ones(1, 4, 4).tril() / torch.arange(1, 5)[:, None]
    assert (explorer.from_levels(explorer.to_levels(causal)).triu(1) == 0).all()


def test_the_error_holds_at_every_strength_of_the_slider(causal):
    model = maps_of_models.plain_copy(random_model("causal"))
    sample = next(maps_of_models.encoded(model, word_tokenizer(), model_folders.TEXTS, 16))
    maps = torch.stack(maps_of_models.maps_of(model, sample))
    received = explorer.from_levels(explorer.to_levels(maps))
    for factor, step in itertools.product(inspect.FACTORS, range(1, 101, 3)):
        ours, exact = (
            maps_of_models.one_step(one, factor, step / 100, True).double()
            for one in (received, maps)
        )
        gap = (column_mass_maximum(ours) - column_mass_maximum(exact)).abs().max()
        assert gap <= 1.02 * causal["error"]["column"], (factor, step)


def test_the_fragment_loads_nothing_and_a_token_cannot_end_its_script(causal):
    data = copy.deepcopy(causal)
    data["texts"][0]["tokens"][1] = "</script><!--"
    text = explorer.fragment(data)
    assert text.count("</script>") == 2 and "<!--" not in text
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|import\(", text)
