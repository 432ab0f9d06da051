/* Attention explorer: softmax and refined attention side by side, the refinement computed here in closed form.

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

  /* log(1 - c A_ik): what query i says about key k, in nats (Eq. 9) */
  messages(A, factor, strength) {
    const c = -Math.expm1(factor === "low" ? strength : -strength);
    return A.map((a) => Math.log1p(-c * Math.min(a, 1)));
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
  refine(A, L, factor, strength, causal, seen = A) {
    if (!strength) return A.slice(); // whatever the factor, as in saobp.refine
    if (factor === "elemmul") return saobpMath.elementwise(A, L, seen);
    if (factor === "sinkhorn") return saobpMath.sinkhorn(A, L, causal);
    const bias = saobpMath.bias(saobpMath.messages(A, factor, strength), L, causal);
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

class SaobpExplorer {
  static FACTORS = { high: "High", low: "Low", elemmul: "ElemMul", sinkhorn: "Sinkhorn" };
  static WITHOUT_STRENGTH = ["elemmul", "sinkhorn"];
  static ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  constructor(root, data) {
    this.root = root; this.data = data;
    this.state = { text: 0, layer: 0, head: 0, factor: data.factor, strength: data.strength, ...data.start };
    this.cell = null; // [query, key] under the pointer or the keyboard
    const bytes = (text) => Uint8Array.from(atob(text.maps), (letter) => letter.charCodeAt(0));
    this.maps = data.texts.map((text) => new Uint16Array(bytes(text).buffer));
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
  }

  part(name) { return this.root.querySelector(`[data-part="${name}"]`); }

  build() {
    const { data } = this;
    const fill = (name, labels) => {
      const menu = this.part(name);
      menu.replaceChildren(...labels.map(([value, label]) => new Option(label, value)));
      menu.value = this.state[name];
      menu.addEventListener("change", () => this.set({ [name]: name === "factor" ? menu.value : Number(menu.value) }));
    };
    const numbered = (count) => Array.from({ length: count }, (_, n) => [n, n + 1]);
    fill("text", data.texts.map((text, n) => [n, `${n + 1}: ${text.title}`]));
    fill("layer", numbered(data.layers));
    fill("head", numbered(data.heads));
    fill("factor", Object.entries(SaobpExplorer.FACTORS));
    const slider = this.part("strength");
    slider.value = this.state.strength;
    slider.addEventListener("input", () => this.set({ strength: Number(slider.value) }));
    for (const side of ["before", "after"]) this.listen(this.part(side));
    for (const [name, most] of Object.entries(data.error)) this.part(`error-${name}`).textContent = (most + 5e-5).toFixed(4);
    this.picker();
  }

  /* a small map of all heads: the darker, the larger the largest column sum; a click or the arrow keys choose one */
  picker() {
    const box = this.part("picker"), { heads, layers } = this.data;
    box.style.setProperty("--heads", heads);
    box.addEventListener("click", (event) => {
      const n = [...box.children].indexOf(event.target);
      if (n >= 0) this.set({ layer: Math.floor(n / heads), head: n % heads });
    });
    box.addEventListener("keydown", (event) => {
      const step = SaobpExplorer.ARROWS[event.key];
      if (!step) return;
      event.preventDefault();
      const within = (value, count) => Math.min(count - 1, Math.max(0, value));
      this.set({ layer: within(this.state.layer + step[0], layers), head: within(this.state.head + step[1], heads) });
      box.querySelector(".chosen").focus();
    });
  }

  listen(canvas) {
    const at = (event) => {
      const box = canvas.getBoundingClientRect(), { left, top, size } = canvas.place, L = this.L;
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

  /* change what is shown; returns the new numbers */
  set(changes) {
    Object.assign(this.state, changes);
    this.compute();
    this.draw();
    return this.numbers();
  }

  map(text, layer, head) {
    const L = this.data.texts[text].tokens.length, first = (layer * this.data.heads + head) * L * L;
    return saobpMath.fromLevels(this.maps[text].subarray(first, first + L * L), L, this.data.floor, this.data.top);
  }

  /* the pairs to which some head of a layer gives mass: what none does, its mask hides */
  seen(text, layer) {
    const { heads } = this.data, size = this.data.texts[text].tokens.length ** 2, found = new Uint8Array(size);
    const levels = this.maps[text].subarray(layer * heads * size, (layer + 1) * heads * size);
    levels.forEach((level, n) => { if (level) found[n % size] = 1; });
    return found;
  }

  compute() {
    const { text, layer, head, factor, strength } = this.state, { causal } = this.data;
    this.tokens = this.data.texts[text].tokens;
    this.L = this.tokens.length;
    this.raw = this.map(text, layer, head);
    this.refined = saobpMath.refine(this.raw, this.L, factor, strength, causal, this.seen(text, layer));
    const message = SaobpExplorer.WITHOUT_STRENGTH.includes(factor) ? null : saobpMath.messages(this.raw, factor, strength);
    this.bias = message && saobpMath.bias(message, this.L, causal);
    this.total = message && saobpMath.columnSums(message, this.L);
    this.before = saobpMath.measures(this.raw, this.L);
    this.after = saobpMath.measures(this.refined, this.L);
    for (const name of ["text", "layer", "head", "factor", "strength"]) this.part(name).value = this.state[name];
    this.write();
    this.read();
  }

  numbers() { return { before: this.before, after: this.after }; }

  write() {
    const { factor, strength } = this.state, without = SaobpExplorer.WITHOUT_STRENGTH.includes(factor);
    this.root.dataset.factor = factor;
    const shown = without && strength ? "any above 0" : strength.toFixed(2); // the same map at all of these
    this.part("strength").setAttribute("aria-valuetext", `λ ${shown}`);
    this.part("lambda").textContent = shown;
    this.part("title").textContent = SaobpExplorer.FACTORS[factor] + (without && strength ? "" : `, λ = ${shown}`);
    for (const [name, digits] of [["column", 1], ["entropy", 2], ["gtd", 2]]) {
      this.part(`${name}-before`).textContent = this.before[name].toFixed(digits);
      this.part(`${name}-after`).textContent = this.after[name].toFixed(digits);
    }
    this.part("sink-before").textContent = this.tokens[this.before.sink];
    this.part("sink-after").textContent = this.tokens[this.after.sink];
    this.paintPicker();
  }

  paintPicker() {
    const box = this.part("picker"), { text, layer, head } = this.state, { heads, layers } = this.data;
    if (this.picked !== text) {
      const cells = Array.from({ length: layers * heads }, (_, n) => {
        const at = [Math.floor(n / heads), n % heads], cell = document.createElement("i");
        const share = saobpMath.measures(this.map(text, ...at), this.L).column / this.L;
        cell.style.setProperty("--share", share.toFixed(3));
        cell.title = `layer ${at[0] + 1}, head ${at[1] + 1}: largest column sum ${(share * this.L).toFixed(1)}`;
        cell.role = "radio";
        cell.ariaLabel = cell.title;
        return cell;
      });
      box.replaceChildren(...cells);
      this.picked = text;
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
    if (this.total) said += `, bias Σ log(1 − cA) = ${number(this.total[key])} nats`;
    if (query >= 0) {
      const n = query * L + key;
      said += `. Query “${this.tokens[query]}” gives it ${number(this.raw[n], 3)} → ${number(this.refined[n], 3)}`;
      if (this.bias) said += `, bias in this row ${number(this.bias[n])} nats`;
    }
    this.part("read").textContent = `${said}.`;
  }

  draw() {
    for (const [side, A] of [["before", this.raw], ["after", this.refined]]) this.drawMap(this.part(side), A, side);
  }

  drawMap(canvas, A, side) {
    const style = getComputedStyle(this.root), colour = (name) => style.getPropertyValue(name).trim();
    const L = this.L, width = canvas.clientWidth, font = Math.max(9, Math.min(12, width / 42));
    const left = Math.round(font * 6.4), bars = 88, labels = Math.round(font * 5.9), size = width - left - Math.round(font * 1.6);
    const top = bars + labels, height = top + size + 4, scale = devicePixelRatio || 1;
    if (width <= 0) return;
    canvas.place = { left, top, size };
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d"), cell = size / L;
    pen.scale(scale, scale);
    pen.font = `${font}px system-ui, sans-serif`;
    const hue = colour(side === "before" ? "--xp-before" : "--xp-after"), ink = colour("--xp-ink"), quiet = colour("--xp-quiet");
    const [pointedQuery, pointedKey] = this.cell || [-1, -1];
    pen.fillStyle = colour("--xp-empty");
    pen.fillRect(left, top, size, size);
    pen.fillStyle = hue;
    for (let n = 0; n < L * L; n++) {
      if (A[n] < 1e-3) continue;
      pen.globalAlpha = Math.sqrt(A[n]);
      const x = left + (n % L) * cell, y = top + Math.floor(n / L) * cell;
      pen.fillRect(x, y, cell - (cell > 7 ? 1 : 0), cell - (cell > 7 ? 1 : 0));
    }
    pen.globalAlpha = 1;
    this.drawBars(pen, saobpMath.columnSums(A, L), { left, bars, cell, hue, ink, quiet, pointedKey, side });
    const words = (token) => {
      let shown = token, cut = token.length;
      while (cut > 1 && pen.measureText(shown).width > left - 8) shown = `${token.slice(0, --cut)}…`;
      return shown;
    };
    const every = Math.max(1, Math.ceil((font * 0.95) / cell)); // on a phone every second word, and the pointed one
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
    const name = side === "before" ? "Softmax attention" : `Refined attention, ${this.part("title").textContent}`;
    canvas.setAttribute("aria-label", `${name}. Largest column sum ${this[side].column.toFixed(1)} at ${this.tokens[this[side].sink]}. Arrow keys move over the cells.`);
  }

  /* column sums on a scale that both maps share, with a line at 1, what each token would receive in equal shares */
  drawBars(pen, sums, { left, bars, cell, hue, ink, quiet, pointedKey, side }) {
    const most = Math.max(this.before.column, this.after.column, 2), room = bars - 16, unit = room / most;
    const largest = sums.indexOf(Math.max(...sums));
    sums.forEach((sum, key) => {
      pen.fillStyle = key === pointedKey ? ink : hue;
      pen.globalAlpha = key === largest || key === pointedKey ? 1 : 0.55;
      pen.fillRect(left + key * cell, bars - sum * unit, Math.max(1, cell - 1), sum * unit);
    });
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    const text = this[side].column.toFixed(1), x = left + (largest + 0.5) * cell - pen.measureText(text).width / 2;
    pen.fillText(text, Math.max(x, left), bars - sums[largest] * unit - 4);
    pen.fillStyle = quiet;
    pen.fillRect(left, bars - unit, this.L * cell, 0.75);
    pen.textAlign = "right";
    pen.fillText("1", left - 5, bars - unit + 4);
    pen.textAlign = "left";
  }
}

document.querySelectorAll(".saobp-explorer").forEach((root) => {
  root.explorer = new SaobpExplorer(root, JSON.parse(root.querySelector("script[type='application/json']").textContent));
});
