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
from xml.etree import ElementTree

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
        "text": number % 2,
        "length": number % 3 % 2,
        "layer": number % 2,
        "head": number % 4,
        "factor": factor,
        "strength": strength,
        "spare": ("", "first", "edges", "0.3")[(number + number // 4) % 4],
    }
    for number, (factor, strength) in enumerate(
        itertools.product(inspect.FACTORS, (0.0, 0.2, 0.73, 1.0))
    )
]
SCRIPT = """
<script>
const told = { errors: window.told, numbers: [] }, root = document.querySelector(".saobp-explorer"), it = root.explorer;
const part = (name) => root.querySelector(`[data-part="${name}"]`);
const picture = () => ["before", "after", "change"].map((side) => part(side).toDataURL());
told.start = { ...it.state, ...it.numbers() };
it.draw(); // the page had no scroll bar when it was first drawn
const first = picture();
part("strength").value = 0.9;
part("strength").dispatchEvent(new Event("input"));
const second = picture();
told.slider = { before: first[0] === second[0], after: first[1] === second[1], change: first[2] === second[2], shown: part("lambda").textContent };
told.marks = it.marks;
part("half").click();
told.half = it.numbers();
part("paper").click();
told.paper = it.state.strength;
part("length").value = 0;
part("length").dispatchEvent(new Event("change"));
told.short = { tokens: it.L, said: part("cut").textContent };
told.svg = it.svg();
told.png = [it.png().width, it.png().toDataURL().length];
const asked = "#explorer?text=2&tokens=10&layer=2&head=3&factor=low&strength=0.3&spare=first";
location.hash = asked;
it.read_address();
told.address = [asked, it.set({}) && it.address()];
it.set({ ...it.data.start, factor: it.data.factor, spare: "" });
const small = (element) => { const box = element.getBoundingClientRect(); return box.width > 0 && Math.min(box.width, box.height) < 24; };
told.small = [...root.querySelectorAll("button, select, input")].filter(small).map((element) => element.outerHTML.slice(0, 80));
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
for (const state of STATES.map((state) => ({ ...state, spare: it.spares().includes(state.spare) ? state.spare : "first" })))
  told.numbers.push({ ...it.set(state), spare: state.spare, refined: [...it.refined], shown: part("lambda").textContent });
told.bounds = Object.keys(it.data.error).map((name) => [name, Number(part(`error-${name}`).textContent)]);
part("change").scrollIntoView();
told.slider.top = part("strength").closest(".xp-slide").getBoundingClientRect().top;
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


@pytest.fixture(autouse=True, scope="module")
def shorter():
    """Cut each text to ten tokens, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explorer, "LENGTHS", (10,))
        yield


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
    view = data["texts"][state["text"]]["views"][state["length"]]
    length = len(view["tokens"])
    levels = np.frombuffer(base64.b64decode(view["maps"]), "<u2")
    levels = levels.reshape(data["layers"], data["heads"], length, length)[
        state["layer"], state["head"]
    ]
    return explorer.from_levels(levels)


def refined_by_page(maps, state, numbers, causal):
    """Refine a map as the page is asked to; what has no messages spares nothing."""
    spare = numbers["spare"] or None
    if state["factor"] in ("elemmul", "sinkhorn"):
        spare = None
    spare = float(spare) if spare == "0.3" else spare
    return saobp.refine(maps, state["factor"], state["strength"], causal=causal, spare=spare)


MEASURES = {"column": column_mass_maximum, "entropy": attention_entropy, "gtd": gtd}


def test_the_page_refines_as_saobp_does(browsed):
    data, told, _ = browsed
    for state, numbers in zip(STATES, told["numbers"]):
        raw = received(data, state)
        refined = refined_by_page(raw, state, numbers, data["causal"])
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
            assert numbers["after"] == numbers["before"] and numbers["shown"] == "0"
        elif state["factor"] in ("elemmul", "sinkhorn"):
            assert numbers["shown"] == "any above 0"


def test_the_page_is_as_near_to_the_model_s_own_maps_as_it_says(browsed):
    data, told, _ = browsed
    model = maps_of_models.plain_copy(random_model("causal" if data["causal"] else "bidirectional"))
    cuts = [
        list(maps_of_models.encoded(model, word_tokenizer(), model_folders.TEXTS, length))
        for length in (10, 16)
    ]
    assert max(data["error"].values()) < 0.02
    assert all(0 < bound - data["error"][name] < 1.01e-4 for name, bound in told["bounds"])
    for state, numbers in zip(STATES, told["numbers"]):
        sample = cuts[state["length"]][state["text"]]
        exact = maps_of_models.maps_of(model, sample)[state["layer"]][state["head"]]
        refined = refined_by_page(exact, state, numbers, data["causal"]).double()
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
    shown = {name: told["slider"][name] for name in ("before", "after", "change", "shown")}
    assert shown == {"before": True, "after": False, "change": False, "shown": "0.729"}
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


def test_marks_stand_where_the_largest_column_sum_is_halved_and_at_the_paper_s_strength(browsed):
    data, told, _ = browsed
    marks, half = told["marks"], told["half"]
    assert told["paper"] == marks["paper"] == data["paper"] == 0.2
    if marks["half"] is None:
        start = received(data, data["start"])
        refined = saobp.refine(start, "high", 1.0, causal=data["causal"])
        assert refined.sum(-2).max() > start.sum(-2).max() / 2
    else:
        assert half["after"]["column"] == pytest.approx(half["before"]["column"] / 2, rel=0.02)


def test_a_reader_chooses_how_many_tokens_and_the_address_holds_the_view(browsed):
    data, told, _ = browsed
    whole = data["texts"][0]["whole"]
    assert [len(view["tokens"]) for view in data["texts"][0]["views"]] == [10, whole]
    assert told["short"]["tokens"] == 10
    whole = data["texts"][data["start"]["text"]]["whole"]
    assert f"first 10 of the {whole} tokens" in told["short"]["said"]
    asked, address = told["address"]
    assert address == asked
    # below the size of a finger: none
    assert told["small"] == []


def test_all_three_maps_are_saved_as_pictures(browsed):
    _, told, _ = browsed
    picture = ElementTree.fromstring(told["svg"])
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Softmax attention", "Refined − softmax"} <= {*words}
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) > 3 * 10
    assert told["png"][0] == 2 * 3 * 560 and told["png"][1] > 10_000


@pytest.mark.parametrize("heads", [72, 270, 100_000])
def test_a_page_holds_no_more_maps_than_there_is_room_for(heads):
    length, texts = explorer.fitting(heads, 128, 3)
    assert 1 <= texts <= 3 and 8 * heads * length**2 * texts <= 3 * explorer.ROOM
    assert (length, texts) != (128, 3) or heads == 72


def test_numbers_of_the_explorer_are_those_of_the_table_for_the_same_text(causal):
    texts = model_folders.TEXTS[:1]
    options = {"strengths": [0.1], "samples": 1, "tokens": 16}
    found = saobp.inspect(random_model("causal"), word_tokenizer(), texts, **options)
    table = found.to_frame().query("measure == 'column_mass_maximum' and head.notna()")
    length = len(causal["texts"][0]["views"]) - 1
    for row in table.to_dict("records"):
        place = {
            "text": 0,
            "length": length,
            "layer": row["layer"] - 1,
            "head": int(row["head"]) - 1,
        }
        maps = received(causal, place)
        refined = saobp.refine(maps, "high", 0.1, causal=True)
        sums = [each.sum(-2).max().item() for each in (maps, refined)]
        assert sums == pytest.approx(
            [row["before"], row["after"]], abs=causal["error"]["column"] + 1e-5
        )


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
    data["texts"][0]["views"][0]["tokens"][1] = "</script><!--"
    text = explorer.fragment(data)
    assert text.count("</script>") == 2 and "<!--" not in text
    assert not re.search(r"(src|href)=|@import|url\(|fetch\(|import\(", text)
