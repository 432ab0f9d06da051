"""The attention explorer in a browser: its numbers are those of saobp.refine, its pictures follow the controls."""

import html
import json
import re
import shutil
import subprocess

import families
import pytest
import torch
from model_folders import TEXTS
from small_models import word_tokenizer
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import saobp
from saobp.measure import explorer
from saobp.measure.diagnostics import attention_entropy, column_mass_maximum, gtd

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium")
STATES = [
    {"text": text, "layer": layer, "head": head, "factor": factor, "strength": strength}
    for text, layer, head, factor, strength in [
        (0, 0, 0, "high", 0.1), (1, 1, 3, "high", 1.0), (2, 0, 2, "low", 0.3), (0, 1, 1, "elemmul", 0.3),
        (1, 0, 1, "sinkhorn", 0.3), (2, 1, 0, "high", 0.0),
    ]
]  # fmt: skip
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
for (const state of STATES) told.numbers.push({ ...it.set(state), refined: [...it.refined] });
told.width = [document.documentElement.scrollWidth, innerWidth];
const out = document.createElement("pre");
out.id = "told";
out.textContent = JSON.stringify(told);
document.body.append(out);
</script>
"""
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<script>window.told = []; addEventListener("error", (event) => window.told.push(event.message));</script><body>"""


def collected(kind):
    torch.manual_seed(0)
    ids = {"vocab_size": 105, "pad_token_id": 0}
    if kind == "causal":
        model = GPT2LMHeadModel(GPT2Config(**ids, n_embd=32, n_layer=2, n_head=4, n_positions=64))
    else:
        model = BertModel(BertConfig(**ids, **families.SIZES))
    return explorer.collect(families.sharpened(model), word_tokenizer(), TEXTS, strength=0.1, tokens=16)


def browse(tmp_path, data, width=1100):
    """Return what the page told, and the console's errors."""
    file = tmp_path / "page.html"
    script = SCRIPT.replace("STATES", json.dumps(STATES))
    file.write_text(HEAD + explorer.fragment(data) + script, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    command += [f"--window-size={width},900", f"--user-data-dir={tmp_path / 'browser'}", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


@pytest.fixture(scope="module", params=["bidirectional", "causal"])
def browsed(request, tmp_path_factory):
    if BROWSER is None:
        pytest.skip("no chromium here: apt-get install chromium")
    data = collected(request.param)
    return data, *browse(tmp_path_factory.mktemp("explorer"), data)


def received(data, state):
    """Return the map that the page shows, as the levels give it."""
    import base64

    import numpy as np

    text = data["texts"][state["text"]]
    length = len(text["tokens"])
    levels = np.frombuffer(base64.b64decode(text["maps"]), np.uint8)
    levels = levels.reshape(data["layers"], data["heads"], length, length)[state["layer"], state["head"]]
    return explorer.from_levels(levels.copy())


def test_the_page_refines_as_saobp_does(browsed):
    data, told, _ = browsed
    for state, numbers in zip(STATES, told["numbers"]):
        raw = received(data, state)
        refined = saobp.refine(raw, state["factor"], state["strength"], causal=data["causal"])
        assert torch.allclose(torch.tensor(numbers["refined"], dtype=torch.double), refined.flatten(), atol=1e-6), state
        for side, maps in (("before", raw), ("after", refined)):
            assert numbers[side]["column"] == pytest.approx(column_mass_maximum(maps).item(), abs=1e-3)
            assert numbers[side]["entropy"] == pytest.approx(attention_entropy(maps).item(), abs=1e-3)
            assert numbers[side]["gtd"] == pytest.approx(gtd(maps).item(), abs=1e-3)


def test_the_page_starts_where_a_sink_drains(browsed):
    data, told, _ = browsed
    start = told["start"]
    assert {name: start[name] for name in data["start"]} == data["start"]
    assert start["after"]["column"] < start["before"]["column"] - 0.2


def test_the_slider_changes_the_refined_picture_and_leaves_the_other(browsed):
    _, told, _ = browsed
    assert told["slider"] == {"before": True, "after": False, "shown": "0.90"}


def test_the_arrow_keys_read_a_cell_with_its_bias(browsed):
    _, told, _ = browsed
    pointed = told["pointed"]
    assert pointed["cell"][0] == 0 and "Query" in pointed["said"] and "Query" not in told["rest"]
    assert f"{pointed['total']:.2f}".replace("-", "−") in pointed["said"]


def test_the_console_stays_silent(browsed):
    _, told, console = browsed
    assert not told["errors"] and not console


@needs_browser
def test_a_phone_shows_the_page_without_scrolling_sideways(tmp_path):
    told, _ = browse(tmp_path, collected("causal"), width=500)
    assert told["width"][0] <= told["width"][1]


def test_levels_keep_probabilities_to_three_percent_and_rows_to_one():
    torch.manual_seed(0)
    maps = (4 * torch.randn(5, 20, 20)).softmax(-1)
    back = explorer.from_levels(explorer.to_levels(maps))
    assert torch.allclose(back.sum(-1), torch.ones(5, 20, dtype=torch.double))
    kept = maps > 1e-5
    assert ((back / maps - 1).abs()[kept] < 0.055).all() and (back[maps < 5e-7] == 0).all()


def test_a_forbidden_entry_stays_forbidden():
    maps = torch.ones(1, 4, 4).tril()
    maps = maps / maps.sum(-1, keepdim=True)
    assert (explorer.from_levels(explorer.to_levels(maps)).triu(1) == 0).all()


def test_the_fragment_loads_nothing_and_a_token_cannot_end_its_script():
    data = collected("causal")
    data["texts"][0]["tokens"][1] = "</script><!--"
    text = explorer.fragment(data)
    assert text.count("</script>") == 2 and "<!--" not in text
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|import\(", text)
