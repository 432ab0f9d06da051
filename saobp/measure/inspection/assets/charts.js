/* Maps of all heads, and curves over the strength, from the numbers in the page. */
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("drawn").textContent);
  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const short = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function heads(picture, values, least, most, colour) {
    const layers = values.length, count = values[0].length, size = Math.min(34, 460 / count), left = 22, top = 16;
    picture.replaceChildren();
    picture.setAttribute("viewBox", `0 0 ${left + count * size} ${top + layers * size}`);
    picture.style.maxWidth = `${left + count * size}px`;
    for (let head = 0; head < count; head += Math.ceil(count / 12))
      picture.append(svg("text", { x: left + (head + 0.5) * size, y: 11, "text-anchor": "middle" }, head + 1));
    values.forEach((row, layer) => {
      picture.append(svg("text", { x: left - 6, y: top + (layer + 0.5) * size + 4, "text-anchor": "end" }, layer + 1));
      row.forEach((value, head) => {
        const share = most > least ? Math.sqrt((value - least) / (most - least)) : 0; // a sink must not bleach all others
        const cell = svg("rect", { x: left + head * size, y: top + layer * size, width: size - 1.5, height: size - 1.5, rx: 2 });
        cell.style.fill = `color-mix(in oklab, var(${colour}) calc(${share.toFixed(3)} * var(--most)), var(--empty))`;
        cell.append(svg("title", {}, `layer ${layer + 1}, head ${head + 1}: ${short(value)}`));
        cell.addEventListener("click", () => {
          document.querySelector(".saobp-explorer").explorer.set({ layer, head }, true);
          document.getElementById("explorer").scrollIntoView();
        });
        picture.append(cell);
        if (size < 30) return; // no room for a number
        const place = { x: left + (head + 0.48) * size, y: top + (layer + 0.5) * size + 3, class: "off" };
        picture.append(svg("text", place, value.toFixed(value < 10 && most < 10 ? 2 : value < 100 ? 1 : 0)));
      });
    });
  }

  const menu = document.getElementById("measure");
  function showHeads() {
    const at = (strength) => data.curves.find((one) => one.strength === strength)[menu.value];
    const [before, after] = [at(0), at(data.strengths[0])], all = [...before.flat(), ...after.flat()];
    for (const [side, values] of [["before", before], ["after", after]])
      heads(document.getElementById(`heads-${side}`), values, Math.min(...all), Math.max(...all), `--${side}`);
  }
  menu.addEventListener("change", showHeads);
  showHeads();

  /* lines: [{points: [[strength, value]], colour, width}] */
  function curve(title, lines, scale = (value) => value, back = scale) {
    const width = 320, height = 190, left = 44, right = 10, top = 10, bottom = 28;
    const values = lines.flatMap((line) => line.points.map((point) => scale(point[1])));
    const [low, high] = [Math.min(...values), Math.max(...values)], room = high - low || 1;
    const furthest = Math.max(...lines[0].points.map((point) => point[0]));
    const x = (strength) => left + Math.sqrt(strength / furthest) * (width - left - right);
    const y = (value) => height - bottom - ((value - low) / room) * (height - top - bottom);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} against strength` });
    for (const value of [low, (low + high) / 2, high]) {
      picture.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), style: "stroke: var(--line)" }));
      picture.append(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(back(value))));
    }
    for (const strength of [0, 0.02, 0.1, 0.2, 0.5, 1].filter((one) => one <= furthest))
      picture.append(svg("text", { x: x(strength), y: height - bottom + 16, "text-anchor": "middle" }, strength));
    const chosen = x(data.strengths[0]);
    picture.append(svg("line", { x1: chosen, x2: chosen, y1: top, y2: height - bottom, style: "stroke: var(--quiet); stroke-dasharray: 3 3" }));
    for (const line of lines)
      picture.append(svg("polyline", { points: line.points.map(([a, b]) => `${x(a)},${y(scale(b))}`).join(" "), fill: "none",
        style: `stroke: ${line.colour}; stroke-width: ${line.width}; stroke-linejoin: round` }));
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    caption.textContent = title;
    figure.append(caption, picture);
    document.getElementById("curve-figures").append(figure);
  }

  const along = ["entropy", "column_mass_maximum", "gtd", "moved"].filter((measure) => measure in data.curves[0]);
  for (const measure of data.curves.length > 2 ? along : []) {
    const layers = data.curves[0][measure].length, { title, unit } = data.measures[measure];
    const points = (value) => data.curves.map((one) => [one.strength, value(one[measure])]);
    const lines = Array.from({ length: layers }, (_, layer) => ({
      points: points((rows) => mean(rows[layer])), width: 1.2,
      colour: `color-mix(in oklab, var(--last) ${(100 * layer) / Math.max(1, layers - 1)}%, var(--first))`,
    }));
    lines.push({ points: points((rows) => mean(rows.flat())), colour: "var(--after)", width: 3 });
    curve(unit ? `${title} (${unit})` : title, lines);
  }
  if (data.predictions.length && data.curves.length > 2) {
    const points = (name) => data.predictions.map((one) => [one.strength, one[name] ?? one.perplexity]);
    const line = (name, width) => ({ points: points(name), colour: "var(--after)", width });
    curve(data.predictions[0].kind, [line("perplexity", 3), line("low", 1), line("high", 1)], Math.log, Math.exp);
  }
})();
