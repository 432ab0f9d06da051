/* Attention explorer: softmax and refined attention and their difference, the refinement computed here in closed form.

   Eq. 11:  log b_j(k) = log A_jk + sum over i != j of log(1 - c A_ik) + const,  c = 1 - e^-strength (High), 1 - e^strength (Low)
   Eq. 15:  A A^T with rows normalised (ElemMul).  A causal row j receives messages from rows i < j only.
   A map is an array of L * L numbers, row by row; rows are queries. */
"use strict";

const saobpMath = {
  /* levels to probabilities: 0 is none, 1 is e^floor, top is 1, even steps in the root of the logarithm */
  fromLevels(levels, L, floor, top) {
    const A = Float64Array.from(levels, (level) => (level ? Math.exp(floor * ((top - level) / (top - 1)) ** 2) : 0));
    return saobpMath.normalised(A, L);
  },

  normalised(A, L) {
    for (let j = 0; j < L; j++) {
      let total = 0;
      for (let k = 0; k < L; k++) total += A[j * L + k];
      for (let k = 0; k < L; k++) A[j * L + k] = total ? A[j * L + k] / total : 0;
    }
    return A;
  },

  columnSums(A, L) {
    const sums = new Float64Array(L);
    for (let n = 0; n < L * L; n++) sums[n % L] += A[n];
    return sums;
  },

  /* log(1 - c A_ik): what query i says about key k, in nats (Eq. 9); nothing about a spared one */
  messages(A, L, factor, strength, spared) {
    const c = -Math.expm1(factor === "low" ? strength : -strength);
    return A.map((a, n) => (spared[n % L] ? 0 : Math.log1p(-c * Math.min(a, 1))));
  },

  /* 1 for the keys that get no bias: by place, or that receive more than a share of what sees them */
  spared(A, L, way, seen) {
    if (way === "") return new Uint8Array(L);
    if (way === "first" || way === "edges") return Uint8Array.from({ length: L }, (_, k) => k === 0 || (way === "edges" && k === L - 1));
    const sums = saobpMath.columnSums(A, L), rows = saobpMath.columnSums(seen, L);
    return Uint8Array.from(sums, (sum, k) => sum > Number(way) * rows[k]);
  },

  /* what row j adds to the log of each key: all other rows' messages, or those of earlier rows */
  bias(M, L, causal) {
    const found = new Float64Array(L * L);
    const total = saobpMath.columnSums(M, L), heard = new Float64Array(L);
    for (let j = 0; j < L; j++)
      for (let k = 0; k < L; k++) {
        found[j * L + k] = causal ? heard[k] : total[k] - M[j * L + k];
        heard[k] += M[j * L + k];
      }
    return found;
  },

  /* seen: 1 where the mask lets a query see a key; without it, where the map has mass */
  refine(A, L, factor, strength, causal, seen = A, spared = new Uint8Array(L)) {
    if (!strength) return A.slice(); // whatever the factor, as in saobp.refine
    if (factor === "elemmul") return saobpMath.elementwise(A, L, seen);
    if (factor === "sinkhorn") return saobpMath.sinkhorn(A, L, causal);
    const bias = saobpMath.bias(saobpMath.messages(A, L, factor, strength, spared), L, causal);
    const B = new Float64Array(L * L);
    for (let j = 0; j < L; j++) {
      let top = -Infinity;
      for (let k = 0; k < L; k++) if (A[j * L + k]) top = Math.max(top, Math.log(A[j * L + k]) + bias[j * L + k]);
      for (let k = 0; k < L; k++)
        B[j * L + k] = A[j * L + k] ? Math.exp(Math.log(A[j * L + k]) + bias[j * L + k] - top) : 0;
    }
    return saobpMath.normalised(B, L);
  },

  elementwise(A, L, seen) {
    const B = new Float64Array(L * L);
    for (let j = 0; j < L; j++)
      for (let k = 0; k < L; k++)
        if (seen[j * L + k]) for (let n = 0; n < L; n++) B[j * L + k] += A[j * L + n] * A[k * L + n]; // hidden keys stay so
    return saobpMath.normalised(B, L);
  },

  sinkhorn(A, L, causal) {
    const B = new Float64Array(L * L), heard = new Float64Array(L), total = saobpMath.columnSums(A, L);
    for (let j = 0; j < L; j++)
      for (let k = 0; k < L; k++) {
        heard[k] += A[j * L + k];
        const column = causal ? heard[k] : total[k];
        B[j * L + k] = column > 1e-30 ? A[j * L + k] / column : 0;
      }
    return saobpMath.normalised(B, L);
  },

  entropy(A, L) {
    return A.reduce((sum, a) => (a ? sum - a * Math.log(a) : sum), 0) / L;
  },

  product(A, B, L) {
    const C = new Float64Array(L * L);
    for (let i = 0; i < L; i++)
      for (let n = 0; n < L; n++) {
        const a = A[i * L + n];
        if (a) for (let k = 0; k < L; k++) C[i * L + k] += a * B[n * L + k];
      }
    return C;
  },

  /* global token dependency with beta 0.9 and 4 hops (Eq. 12, 13): G = A^2 (beta + beta^2 A + beta^3 A^2) */
  gtd(A, L, beta = 0.9) {
    const square = saobpMath.product(A, A, L);
    const inner = A.map((a, n) => beta ** 2 * a + beta ** 3 * square[n]);
    const longer = saobpMath.product(square, inner, L);
    const norm = (values) => values.reduce((sum, value) => sum + value * value, 0);
    const indirect = norm(square.map((value, n) => beta * value + longer[n]));
    return indirect / (norm(A) + indirect);
  },

  measures(A, L) {
    const sums = saobpMath.columnSums(A, L);
    return { column: Math.max(...sums), sink: sums.indexOf(Math.max(...sums)),
             entropy: saobpMath.entropy(A, L), gtd: saobpMath.gtd(A, L) };
  },
};

/* Writes down as SVG what is drawn on a canvas: as much of its context as the maps need. */
class SaobpSvg {
  constructor() {
    this.marks = []; this.moves = []; this.kept = [];
    this.ruler = document.createElement("canvas").getContext("2d");
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", globalAlpha: 1, lineWidth: 1, textAlign: "left", font: "12px sans-serif" });
  }

  add(name, attributes, text = "") {
    const escaped = (value) => String(value).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    const given = { ...attributes, ...(this.moves.length && { transform: this.moves.join(" ") }), ...(this.globalAlpha < 1 && { opacity: this.globalAlpha.toFixed(3) }) };
    const words = Object.entries(given).map(([key, value]) => ` ${key}="${typeof value === "number" ? +value.toFixed(2) : escaped(value)}"`);
    this.marks.push(`<${name}${words.join("")}>${escaped(text)}</${name}>`);
  }

  fillRect(x, y, width, height) { this.add("rect", { x, y, width, height, fill: this.fillStyle }); }
  strokeRect(x, y, width, height) { this.add("rect", { x, y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth }); }
  fillText(text, x, y) {
    const [size, family] = [parseFloat(this.font), this.font.split("px ")[1]];
    this.add("text", { x, y, fill: this.fillStyle, "font-size": size, "font-family": family, "text-anchor": this.textAlign === "right" ? "end" : "start" }, text);
  }
  measureText(text) { this.ruler.font = this.font; return this.ruler.measureText(text); }
  save() { this.kept.push([...this.moves]); }
  restore() { this.moves = this.kept.pop(); }
  translate(x, y) { this.moves.push(`translate(${x.toFixed(2)} ${y.toFixed(2)})`); }
  rotate(angle) { this.moves.push(`rotate(${((angle * 180) / Math.PI).toFixed(2)})`); }

  text(width, height) {
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${this.marks.join("\n")}</svg>\n`;
  }
}

class SaobpExplorer {
  static FACTORS = { high: "High", low: "Low", elemmul: "ElemMul", sinkhorn: "Sinkhorn" };
  static WITHOUT_STRENGTH = ["elemmul", "sinkhorn"];
  static SPARES = { "": "none", first: "first token", edges: "first and last", 0.3: "share above 0.3" };
  static ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  static CHOICES = ["text", "length", "layer", "head", "factor", "spare"];
  static SIDES = ["before", "after", "change"];

  constructor(root, data) {
    this.root = root; this.data = data;
    const { factor, strength, spare } = data;
    this.state = { text: 0, length: 0, layer: 0, head: 0, factor, strength, spare: spare ?? "", ...data.start };
    this.cell = null; // [query, key] under the pointer or the keyboard
    const bytes = (view) => Uint8Array.from(atob(view.maps), (letter) => letter.charCodeAt(0));
    this.maps = data.texts.map((text) => text.views.map((view) => new Uint16Array(bytes(view).buffer)));
    this.read_address();
    this.build();
    this.compute();
    this.draw();
    let width = 0; // drawing changes the height, which is no reason to draw again
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width === width) return;
      width = entry.contentRect.width;
      requestAnimationFrame(() => this.draw());
    }).observe(this.root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    addEventListener("hashchange", () => { if (this.read_address()) this.set({}); });
  }

  part(name) { return this.root.querySelector(`[data-part="${name}"]`); }

  /* the slider's way is the cube root of λ: half of it is below 0.125, where short texts change most */
  static strength(way) { const strength = Number(way) ** 3; return Number(strength.toFixed(strength < 0.1 ? 4 : 3)); }
  static way(strength) { return Math.cbrt(strength); }

  /* the page's address ends in "#explorer?text=0&length=1&…"; numbers of texts, layers and heads start at 1 */
  read_address() {
    const found = /^#explorer\?(.*)$/.exec(location.hash), { texts, layers, heads, causal } = this.data;
    if (!found) return false;
    const given = new URLSearchParams(found[1]), { state } = this;
    const number = (name, count) => {
      const value = Number(given.get(name)) - 1;
      if (given.has(name) && Number.isInteger(value) && value >= 0 && value < count) state[name] = value;
    };
    number("text", texts.length);
    number("layer", layers);
    number("head", heads);
    const { views } = texts[state.text], length = views.findIndex((view) => view.tokens.length === Number(given.get("tokens")));
    state.length = length >= 0 ? length : Math.min(state.length, views.length - 1);
    if (given.get("factor") in SaobpExplorer.FACTORS) state.factor = given.get("factor");
    if (this.spares().includes(given.get("spare"))) state.spare = given.get("spare");
    const strength = parseFloat(given.get("strength"));
    if (strength >= 0 && strength <= 1) state.strength = strength;
    return true;
  }

  address() {
    const { text, layer, head, factor, strength, spare } = this.state;
    const named = { text: text + 1, tokens: this.L, layer: layer + 1, head: head + 1, factor, strength, ...(spare !== "" && { spare }) };
    return `#explorer?${new URLSearchParams(named)}`;
  }

  /* ways of sparing that can be known: of a causal map only the first token; one of the command's own beside them */
  spares() {
    const known = this.data.causal ? ["", "first"] : Object.keys(SaobpExplorer.SPARES);
    return [...new Set([...known, String(this.data.spare ?? "")])];
  }

  build() {
    const { data } = this;
    for (const name of SaobpExplorer.CHOICES) {
      const menu = this.part(name), words = ["factor", "spare"].includes(name);
      menu.addEventListener("change", () => this.set({ [name]: words ? menu.value : Number(menu.value) }, true));
    }
    const numbered = (count) => Array.from({ length: count }, (_, n) => [n, n + 1]);
    this.fill("text", data.texts.map((text, n) => [n, `${n + 1}: ${text.title}`]));
    this.fill("layer", numbered(data.layers));
    this.fill("head", numbered(data.heads));
    this.fill("factor", Object.entries(SaobpExplorer.FACTORS));
    this.fill("spare", this.spares().map((way) => [way, SaobpExplorer.SPARES[way] ?? `share above ${way}`]));
    const slider = this.part("strength");
    slider.addEventListener("input", () => this.set({ strength: SaobpExplorer.strength(slider.value) }, true));
    for (const name of ["half", "paper"]) this.part(name).addEventListener("click", () => this.set({ strength: this.marks[name] }, true));
    for (const side of SaobpExplorer.SIDES) this.listen(this.part(side));
    for (const [name, most] of Object.entries(data.error)) this.part(`error-${name}`).textContent = (most + 5e-5).toFixed(4);
    this.part("svg").addEventListener("click", () => this.save(new Blob([this.svg()], { type: "image/svg+xml" }), "svg"));
    this.part("png").addEventListener("click", () => this.png().toBlob((blob) => this.save(blob, "png")));
    this.part("link").addEventListener("click", () => navigator.clipboard?.writeText(location.href.split("#")[0] + this.address()));
    this.picker();
  }

  fill(name, labels) { this.part(name).replaceChildren(...labels.map(([value, label]) => new Option(label, value))); }

  /* a small map of all heads: the darker, the larger the largest column sum; a click or the arrow keys choose one */
  picker() {
    const box = this.part("picker"), { heads, layers } = this.data;
    box.style.setProperty("--heads", heads);
    box.addEventListener("click", (event) => {
      const n = [...box.children].indexOf(event.target);
      if (n >= 0) this.set({ layer: Math.floor(n / heads), head: n % heads }, true);
    });
    box.addEventListener("keydown", (event) => {
      const step = SaobpExplorer.ARROWS[event.key];
      if (!step) return;
      event.preventDefault();
      const within = (value, count) => Math.min(count - 1, Math.max(0, value));
      this.set({ layer: within(this.state.layer + step[0], layers), head: within(this.state.head + step[1], heads) }, true);
      box.querySelector(".chosen").focus();
    });
  }

  listen(canvas) {
    const at = (event) => {
      const box = canvas.getBoundingClientRect(), { left, top, size } = this.place(box.width), L = this.L;
      const key = Math.floor(((event.clientX - box.left - left) / size) * L);
      const query = Math.floor(((event.clientY - box.top - top) / size) * L);
      const above = query < 0 && event.clientY > box.top; // the bars: a key without a query
      if (key < 0 || key >= L || query >= L) return null;
      return [above ? -1 : query, key];
    };
    canvas.addEventListener("pointermove", (event) => this.point(at(event)));
    canvas.addEventListener("pointerdown", (event) => this.point(at(event)));
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("keydown", (event) => {
      const step = SaobpExplorer.ARROWS[event.key];
      if (event.key === "Escape") this.point(null);
      if (!step) return;
      event.preventDefault();
      const [query, key] = this.cell || [-1, this.before.sink];
      const within = (value, least) => Math.min(this.L - 1, Math.max(least, value));
      this.point(this.cell ? [within(query + step[0], -1), within(key + step[1], 0)] : [query, key]);
    });
  }

  point(cell) {
    if (String(cell) === String(this.cell)) return;
    this.cell = cell;
    this.draw();
    this.read();
  }

  /* change what is shown; returns the new numbers. What a reader chose goes into the address. */
  set(changes, chosen = false) {
    const { views } = this.data.texts[changes.text ?? this.state.text];
    // another text is shown as long as it is
    if (changes.text !== undefined && changes.length === undefined) changes = { ...changes, length: views.length - 1 };
    Object.assign(this.state, changes);
    if (changes.text !== undefined || changes.length !== undefined) this.cell = null;
    this.compute();
    this.draw();
    if (chosen) {
      clearTimeout(this.soon);
      // not inside a frame that holds its page in an attribute
      this.soon = setTimeout(() => { if (location.protocol !== "about:") history.replaceState(null, "", this.address()); }, 200);
    }
    return this.numbers();
  }

  view() { return this.data.texts[this.state.text].views[this.state.length]; }

  levels(layer, head, heads = 1) {
    const { text, length } = this.state, size = this.L ** 2, first = (layer * this.data.heads + head) * size;
    return this.maps[text][length].subarray(first, first + heads * size);
  }

  map(layer, head) { return saobpMath.fromLevels(this.levels(layer, head), this.L, this.data.floor, this.data.top); }

  /* the pairs to which some head of a layer gives mass: what none does, its mask hides */
  seen(layer) {
    const size = this.L ** 2, found = new Uint8Array(size);
    this.levels(layer, 0, this.data.heads).forEach((level, n) => { if (level) found[n % size] = 1; });
    return found;
  }

  compute() {
    const { layer, head, factor, strength, spare } = this.state, { causal } = this.data;
    this.tokens = this.view().tokens;
    this.L = this.tokens.length;
    this.raw = this.map(layer, head);
    const without = SaobpExplorer.WITHOUT_STRENGTH.includes(factor), seen = this.seen(layer);
    this.spared = saobpMath.spared(this.raw, this.L, without ? "" : spare, seen);
    this.at = (value) => saobpMath.refine(this.raw, this.L, factor, value, causal, seen, this.spared);
    this.refined = this.at(strength);
    this.moved = this.refined.map((value, n) => value - this.raw[n]);
    const message = without ? null : saobpMath.messages(this.raw, this.L, factor, strength, this.spared);
    this.bias = message && saobpMath.bias(message, this.L, causal);
    this.total = message && saobpMath.columnSums(message, this.L);
    this.before = saobpMath.measures(this.raw, this.L);
    this.after = saobpMath.measures(this.refined, this.L);
    this.mark();
    this.write();
    this.read();
  }

  /* λ at which the largest column sum is halved, and the paper's for a model of this size; none where that is not reached */
  mark() {
    const { text, length, layer, head, factor, spare } = this.state, of = [text, length, layer, head, factor, spare].join();
    if (this.marked === of) return;
    this.marked = of;
    const without = SaobpExplorer.WITHOUT_STRENGTH.includes(factor);
    const left = (way) => Math.max(...saobpMath.columnSums(this.at(SaobpExplorer.strength(way)), this.L)) / this.before.column;
    let [low, high] = [0, 1];
    const halves = !without && left(1) <= 0.5;
    for (let step = 0; halves && step < 10; step++) {
      const middle = (low + high) / 2;
      if (left(middle) > 0.5) low = middle; else high = middle;
    }
    this.marks = { half: halves ? SaobpExplorer.strength(high) : null, paper: without ? null : this.data.paper };
    const words = { half: "half the largest column sum", paper: "the paper’s λ for this size" };
    for (const [name, strength] of Object.entries(this.marks)) {
      const [tick, button] = [this.part(`tick-${name}`), this.part(name)];
      tick.hidden = button.hidden = strength === null;
      tick.style.left = `${100 * SaobpExplorer.way(strength ?? 0)}%`;
      button.textContent = `${words[name]}: ${strength}`;
    }
  }

  numbers() { return { before: this.before, after: this.after }; }

  write() {
    const { factor, strength, spare, text } = this.state, without = SaobpExplorer.WITHOUT_STRENGTH.includes(factor);
    const { views, whole } = this.data.texts[text];
    this.fill("length", views.map((view, n) => [n, view.tokens.length]));
    for (const name of SaobpExplorer.CHOICES) this.part(name).value = this.state[name];
    this.part("strength").value = SaobpExplorer.way(strength);
    this.part("spare").disabled = without;
    this.part("cut").textContent = this.L < whole
      ? `The first ${this.L} of the ${whole.toLocaleString("en")} tokens of this text that the tables read, as a text of its own.`
      : `All ${whole.toLocaleString("en")} tokens of this text that the tables read.`;
    this.root.dataset.factor = factor;
    const shown = without && strength ? "any above 0" : String(strength); // the same map at all of these
    this.part("strength").setAttribute("aria-valuetext", `λ ${shown}`);
    this.part("lambda").textContent = shown;
    const but = without || spare === "" ? "" : `, spared: ${this.part("spare").selectedOptions[0].textContent}`;
    this.part("title").textContent = SaobpExplorer.FACTORS[factor] + (without && strength ? "" : `, λ = ${shown}`) + but;
    for (const [name, digits] of [["column", 1], ["entropy", 2], ["gtd", 2]]) {
      this.part(`${name}-before`).textContent = this.before[name].toFixed(digits);
      this.part(`${name}-after`).textContent = this.after[name].toFixed(digits);
    }
    this.part("sink-before").textContent = this.tokens[this.before.sink];
    this.part("sink-after").textContent = this.tokens[this.after.sink];
    this.paintPicker();
  }

  paintPicker() {
    const box = this.part("picker"), { text, length, layer, head } = this.state, { heads, layers } = this.data;
    if (this.picked !== `${text},${length}`) {
      const cells = Array.from({ length: layers * heads }, (_, n) => {
        const at = [Math.floor(n / heads), n % heads], cell = document.createElement("button");
        const most = Math.max(...saobpMath.columnSums(this.map(...at), this.L));
        cell.type = "button";
        cell.style.setProperty("--share", (most / this.L).toFixed(3));
        cell.title = `layer ${at[0] + 1}, head ${at[1] + 1}: largest column sum ${most.toFixed(1)}`;
        cell.role = "radio";
        cell.ariaLabel = cell.title;
        return cell;
      });
      box.replaceChildren(...cells);
      this.picked = `${text},${length}`;
    }
    [...box.children].forEach((cell, n) => {
      const chosen = n === layer * heads + head;
      cell.classList.toggle("chosen", chosen);
      cell.ariaChecked = chosen;
      cell.tabIndex = chosen ? 0 : -1; // one stop for the tab key, the arrow keys go on from it
    });
  }

  /* say in words and numbers what is under the pointer, or at rest what the largest column does */
  read() {
    const number = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
    const [query, key] = this.cell || [-1, this.before.sink], L = this.L;
    const sums = [this.raw, this.refined].map((A) => saobpMath.columnSums(A, L)[key]);
    let said = `key “${this.tokens[key]}”: column sum ${number(sums[0])} → ${number(sums[1])}`;
    if (this.spared[key]) said += ", spared: no bias";
    else if (this.total) said += `, bias Σ log(1 − cA) = ${number(this.total[key])} nats`;
    if (query >= 0) {
      const n = query * L + key;
      said += `. Query “${this.tokens[query]}” gives it ${number(this.raw[n], 3)} → ${number(this.refined[n], 3)}`;
      if (this.bias) said += `, bias in this row ${number(this.bias[n])} nats`;
    }
    this.part("read").textContent = `${said}.`;
  }

  /* where a map stands in a picture of this width */
  place(width) {
    const font = Math.max(9, Math.min(12, width / 42)), left = Math.round(font * 6.4), bars = 88;
    const top = bars + Math.round(font * 5.9), size = width - left - Math.round(font * 1.6);
    return { font, left, bars, top, size, height: Math.round(top + size + 4) };
  }

  draw() {
    for (const side of SaobpExplorer.SIDES) {
      const canvas = this.part(side), width = canvas.clientWidth, scale = devicePixelRatio || 1;
      if (width <= 0) return;
      const { height } = this.place(width);
      canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(scale, scale);
      this.drawMap(pen, side, width);
      canvas.setAttribute("aria-label", this.describe(side));
    }
  }

  heading(side) { return { before: "Softmax attention", after: `Refined attention, ${this.part("title").textContent}`, change: "Refined − softmax" }[side]; }

  describe(side) {
    const keys = "Arrow keys move over the cells.";
    if (side === "change") return `${this.heading(side)}. ${keys}`;
    return `${this.heading(side)}. Largest column sum ${this[side].column.toFixed(1)} at ${this.tokens[this[side].sink]}. ${keys}`;
  }

  drawMap(pen, side, width) {
    const style = getComputedStyle(this.root), colour = (name) => style.getPropertyValue(`--xp-${name}`).trim();
    const L = this.L, { font, left, top, bars, size } = this.place(width), cell = size / L, gap = cell > 7 ? 1 : 0;
    pen.font = `${font}px system-ui, sans-serif`;
    const [ink, quiet] = [colour("ink"), colour("quiet")], [pointedQuery, pointedKey] = this.cell || [-1, -1];
    const A = { before: this.raw, after: this.refined, change: this.moved }[side];
    const hues = { before: [colour("original")], after: [colour("after")], change: [colour("more"), colour("less")] }[side];
    pen.fillStyle = colour("empty");
    pen.fillRect(left, top, size, size);
    for (let n = 0; n < L * L; n++) {
      if (Math.abs(A[n]) < 1e-3) continue;
      pen.fillStyle = A[n] < 0 ? hues[1] : hues[0];
      pen.globalAlpha = Math.sqrt(Math.abs(A[n]));
      pen.fillRect(left + (n % L) * cell, top + Math.floor(n / L) * cell, cell - gap, cell - gap);
    }
    pen.globalAlpha = 1;
    this.drawBars(pen, saobpMath.columnSums(A, L), { left, bars, cell, hues, ink, quiet, pointedKey, side });
    const words = (token) => {
      let shown = token, cut = token.length;
      while (cut > 1 && pen.measureText(shown).width > left - 8) shown = `${token.slice(0, --cut)}…`;
      return shown;
    };
    const every = Math.max(1, Math.ceil((font * 0.95) / cell)); // where there is no room for all words, and the pointed one
    for (let n = 0; n < L; n++) {
      const chosen = this.cell && (n === pointedKey);
      pen.fillStyle = chosen ? ink : quiet;
      if (n % every === 0 || chosen) {
        pen.save();
        pen.translate(left + (n + 0.5) * cell + font * 0.35, top - 5);
        pen.rotate(-Math.PI / 2.6);
        pen.fillText(words(this.tokens[n]), 0, 0);
        pen.restore();
      }
      pen.fillStyle = n === pointedQuery ? ink : quiet;
      pen.textAlign = "right";
      if (n % every === 0 || n === pointedQuery) pen.fillText(words(this.tokens[n]), left - 5, top + (n + 0.5) * cell + font * 0.35);
      pen.textAlign = "left";
    }
    pen.strokeStyle = ink;
    pen.lineWidth = 1.5;
    if (this.cell) pen.strokeRect(left + pointedKey * cell - 0.5, (pointedQuery < 0 ? top : top + pointedQuery * cell) - 0.5, cell, pointedQuery < 0 ? size : cell);
  }

  /* column sums on a scale that both maps share, with a line at 1, what each token would receive in equal shares; of the
     difference from a line in the middle */
  drawBars(pen, sums, { left, bars, cell, hues, ink, quiet, pointedKey, side }) {
    const signed = side === "change", sizes = sums.map(Math.abs), largest = sizes.indexOf(Math.max(...sizes));
    const most = signed ? Math.max(sizes[largest], 1) : Math.max(this.before.column, this.after.column, 2);
    const room = (bars - 16) / (signed ? 2 : 1), unit = room / most, base = signed ? bars - room : bars;
    sums.forEach((sum, key) => {
      pen.fillStyle = key === pointedKey ? ink : sum < 0 ? hues[1] : hues[0];
      pen.globalAlpha = key === largest || key === pointedKey ? 1 : 0.55;
      pen.fillRect(left + key * cell, sum < 0 ? base : base - sum * unit, Math.max(1, cell - 1), Math.abs(sum) * unit);
    });
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    const text = (signed && sums[largest] > 0 ? "+" : "") + sums[largest].toFixed(1).replace("-", "−");
    const x = left + (largest + 0.5) * cell - pen.measureText(text).width / 2;
    pen.fillText(text, Math.max(x, left), sums[largest] < 0 ? base - 4 : base - sums[largest] * unit - 4);
    pen.fillStyle = quiet;
    pen.fillRect(left, signed ? base : base - unit, this.L * cell, 0.75);
    pen.textAlign = "right";
    pen.fillText(signed ? "0" : "1", left - 5, (signed ? base : base - unit) + 4);
    pen.textAlign = "left";
  }

  /* all three maps side by side under their headings */
  drawAll(pen, width = 560) {
    const colour = (name) => getComputedStyle(this.root).getPropertyValue(`--xp-${name}`).trim(), head = 28;
    const { height } = this.place(width), all = [3 * width, head + height];
    pen.fillStyle = colour("paper");
    pen.fillRect(0, 0, ...all);
    SaobpExplorer.SIDES.forEach((side, n) => {
      pen.save();
      pen.translate(n * width, 0);
      pen.fillStyle = colour("ink");
      pen.font = "15px system-ui, sans-serif";
      pen.fillText(this.heading(side), 8, 18);
      pen.translate(0, head);
      this.drawMap(pen, side, width);
      pen.restore();
    });
    return all;
  }

  svg() { const pen = new SaobpSvg(); return pen.text(...this.drawAll(pen)); }

  png(width = 560, scale = 2) {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = 3 * width * scale; canvas.height = (28 + this.place(width).height) * scale;
    pen.scale(scale, scale);
    this.drawAll(pen, width);
    return canvas;
  }

  save(blob, ending) {
    const link = document.createElement("a"), { layer, head } = this.state;
    link.href = URL.createObjectURL(blob);
    link.download = `attention-layer-${layer + 1}-head-${head + 1}.${ending}`;
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

document.querySelectorAll(".saobp-explorer").forEach((root) => {
  root.explorer = new SaobpExplorer(root, JSON.parse(root.querySelector("script[type='application/json']").textContent));
});
