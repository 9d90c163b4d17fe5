"use strict";
/* The interactive plots of a board. Each <section class="plot" data-plot="KIND"> holds its data as JSON; numbers come from
   Python, and what a reader chooses is computed again here, by the same definitions. Plotly draws. */
(() => {
  // maths: the definitions of holdfast.trends and holdfast.metrics

  const Z = 1.959963984540054;
  const TIE = 1e-12;
  const DRAWS = 1000;
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const mean = (values) => sum(values) / values.length;

  const density = (x) => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  function normal(x) {
    if (x < -5) {
      let fraction = 0;
      for (let k = 60; k > 0; k--) fraction = k / (-x + fraction);
      return density(x) / (-x + fraction);
    }
    if (x > 5) return 1 - normal(-x);
    let term = x, total = x;
    for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(total) && k < 400; k += 2) total += term *= x * x / k;
    return 0.5 + density(x) * total;
  }
  function quantile(p) {
    let x = Math.log(p / (1 - p)) / 1.702;
    for (let i = 0; i < 40; i++) {
      const error = (normal(x) - p) / density(x);
      const step = error / (1 + x * error / 2);
      x -= step;
      if (Math.abs(step) < 1e-14) break;
    }
    return x;
  }
  const SPACES = {
    linear: { title: "linear", forward: (p) => p, inverse: (v) => v, edges: false },
    logit: { title: "logit", forward: (p) => Math.log(p / (1 - p)), inverse: (v) => 1 / (1 + Math.exp(-v)), edges: true },
    probit: { title: "probit", forward: quantile, inverse: normal, edges: true },
  };
  const isInside = (p, space) => isNumber(p) && (SPACES[space].edges ? p > 0 && p < 1 : true);

  // Wilson's interval with continuity correction
  function wilson(value, n) {
    if (!n || !isNumber(value)) return null;
    const share = Math.round(value * n) / n, zz = Z * Z;
    const lower = (p) => {
      const root = zz - 2 - 1 / n + 4 * p * (n * (1 - p) + 1);
      return Math.max(0, (2 * n * p + zz - 1 - Z * Math.sqrt(Math.max(root, 0))) / (2 * (n + zz)));
    };
    return [Math.min(share === 0 ? 0 : lower(share), value), Math.max(share === 1 ? 1 : 1 - lower(1 - share), value)];
  }

  // `x` and `y` lie in the space already; `weights` says how often each counts
  function line(x, y, weights) {
    const w = weights ?? x.map(() => 1), n = sum(w);
    const mx = sum(x.map((v, i) => v * w[i])) / n, my = sum(y.map((v, i) => v * w[i])) / n;
    let xx = 0, xy = 0, yy = 0;
    for (let i = 0; i < x.length; i++) {
      const dx = x[i] - mx, dy = y[i] - my;
      xx += w[i] * dx * dx; xy += w[i] * dx * dy; yy += w[i] * dy * dy;
    }
    if (x.length < 2 || xx < 1e-12) return null;
    const slope = xy / xx;
    return { slope, intercept: my - slope * mx, n: x.length, r2: yy > 0 ? slope * xy / yy : null };
  }

  function plane(a, b, y) {
    const [ma, mb, my] = [mean(a), mean(b), mean(y)];
    let aa = 0, bb = 0, ab = 0, ay = 0, by = 0, yy = 0;
    for (let i = 0; i < y.length; i++) {
      const [da, db, dy] = [a[i] - ma, b[i] - mb, y[i] - my];
      aa += da * da; bb += db * db; ab += da * db; ay += da * dy; by += db * dy; yy += dy * dy;
    }
    const det = aa * bb - ab * ab;
    if (y.length < 3 || !(det > 1e-12 * aa * bb)) return null;
    const first = (ay * bb - by * ab) / det, second = (by * aa - ay * ab) / det;
    const r2 = yy > 0 ? (first * ay + second * by) / yy : null;
    return { weights: [first, second], intercept: my - first * ma - second * mb, n: y.length, r2 };
  }

  // in words, why to read a fit with care; `weak` has the R² below which it is near 0, by the number of models
  function cautions(fit, what, weak) {
    const notes = [];
    if (fit.n < 10) notes.push(`Fitted on ${fit.n} models: fewer than 10 do not determine a ${what}.`);
    if (!isNumber(fit.r2)) notes.push(`The scores to explain do not vary: the ${what} says nothing.`);
    else if (fit.r2 < (weak?.[fit.n] ?? 0)) notes.push(`R² is near 0: the ${what} explains little.`);
    return notes;
  }

  function percentile(sorted, share) {
    const position = share * (sorted.length - 1), low = Math.floor(position);
    return sorted[low] + (position - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
  }

  // where the line itself lies over draws of models, at `places` in the space; `level` allows for few models
  function band(x, y, places, level) {
    let state = 2463534242;
    const below = (n) => { state ^= state << 13; state ^= state >>> 17; state ^= state << 5; return (state >>> 0) % n; };
    const fits = [];
    for (let draw = 0; draw < DRAWS; draw++) {
      const weights = new Array(x.length).fill(0);
      for (let i = 0; i < x.length; i++) weights[below(x.length)] += 1;
      const made = line(x, y, weights);
      if (made) fits.push(made);
    }
    const bounds = places.map((at) => {
      const drawn = fits.map((f) => f.slope * at + f.intercept).sort((one, other) => one - other);
      return [percentile(drawn, (1 - level) / 2), percentile(drawn, (1 + level) / 2)];
    });
    return { low: bounds.map((b) => b[0]), high: bounds.map((b) => b[1]) };
  }

  // a battery is a list of { attack, strength, accuracy, best }, no attack being { attack: null }
  function competitiveness(cells) {
    const ratios = cells.map((cell) => cell.accuracy / cell.best);
    if (!cells.length || !ratios.every(isNumber)) return null;
    const least = Math.min(...ratios);
    return { average: mean(ratios), worst: least, at: cells[ratios.indexOf(least)] };
  }
  const isKnown = (cell, trained) => cell.attack === null || cell.strength <= (trained[cell.attack] ?? -Infinity);
  function stability(cells, trained, near) {
    if (!cells.every((cell) => isNumber(cell.accuracy) && isNumber(cell.best))) return null;
    let largest = null;
    for (const one of cells) {
      if (!isKnown(one, trained)) continue;
      for (const other of cells) {
        const gap = Math.abs(one.best - other.best);
        if (gap <= TIE || gap >= near) continue;
        const slope = Math.abs(one.accuracy - other.accuracy) / gap;
        if (largest === null || slope > largest.constant) largest = { constant: slope, pair: [one, other] };
      }
    }
    return largest ?? { constant: 0, pair: null };
  }

  // shifted minus reference, each [value, low, high]; bounds for independent samples
  function difference(one, other) {
    if (!isNumber(one[0]) || !isNumber(other[0])) return [null, null, null];
    const value = one[0] - other[0];
    if (![...one, ...other].every(isNumber)) return [value, null, null];
    return [value, value - Math.hypot(one[0] - one[1], other[2] - other[0]), value + Math.hypot(one[2] - one[0], other[0] - other[1])];
  }

  // words

  // the rule of core/rounding.py: as a decimal, halves away from zero, never a minus before zero
  const GUARD = 9;
  function written(value, digits = 1) {
    if (!isNumber(value)) return String(value);
    const long = Math.abs(value).toFixed(digits + GUARD).replace(".", "");
    const kept = BigInt(long.slice(0, -GUARD)) + (long.at(-GUARD) >= "5" ? 1n : 0n);
    const text = String(kept).padStart(digits + 1, "0");
    const sign = value < 0 && kept > 0n ? "-" : "";
    return sign + (digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text);
  }
  // a number that is no share: three figures, or one decimal from 100 on
  function figures(value, most = 3) {
    if (Math.abs(value) >= 100) return written(value, 1);
    if (!value) return "0";
    const text = written(value, Math.max(0, most - 1 - Math.floor(Math.log10(Math.abs(value)))));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }
  const percent = (value, digits = 1) => isNumber(value) ? `${written(100 * value, digits)} %` : "no value";
  const points = (value) => {
    const text = written(100 * value);
    return text.startsWith("-") ? `\u2212${text.slice(1)}` : Number(text) ? `+${text}` : text;
  };
  const bounds = (pair, digits = 1) => pair && pair.every(isNumber) ? ` [${pair.map((v) => written(100 * v, digits)).join(", ")}]` : "";
  const shortened = (text, most = 60) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
  // Plotly reads some HTML in its texts: a name is text and nothing else
  const safe = (text, most) => shortened(String(text), most).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  // the page

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name in made && name !== "list") made[name] = value;
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  const labelled = (text, control) => element("label", { className: "plot-field" }, element("span", {}, text), control);

  // options: [value, text, group]
  function choice(text, options, value, change) {
    const select = element("select", { onchange: () => change(select.value) });
    const groups = new Map();
    for (const [name, title, group] of options) {
      const option = element("option", { value: name }, shortened(title, 90));
      if (!group) { select.append(option); continue; }
      if (!groups.has(group)) {
        groups.set(group, element("optgroup", { label: group }));
        select.append(groups.get(group));
      }
      groups.get(group).append(option);
    }
    select.value = value;
    return labelled(text, select);
  }

  let serial = 0;
  function radios(text, options, value, change) {
    const name = `plot-choice-${serial++}`;
    const made = element("fieldset", { className: "plot-radios" }, element("legend", {}, text));
    for (const [key, title] of options) {
      const input = element("input", { type: "radio", name, value: key, checked: key === value, onchange: () => change(key) });
      made.append(element("label", {}, input, title));
    }
    return made;
  }

  // up to `most` models, added by a list and taken away by buttons
  function chooser(names, chosen, most, change) {
    const made = element("div", { className: "plot-chooser" });
    const refresh = () => {
      const add = element("select", { disabled: chosen.length >= most, onchange: () => { chosen.push(+add.value); refresh(); change(); } });
      add.append(element("option", { value: "" }, chosen.length < most ? "choose…" : `${most} at most`));
      names.forEach((name, i) => { if (!chosen.includes(i)) add.append(element("option", { value: i }, shortened(name, 90))); });
      const chips = chosen.map((i, position) => element("button", {
        type: "button", className: "plot-chip", title: `Remove ${names[i]}`, style: `--chip: var(--plot-${position})`,
        onclick: () => { chosen.splice(position, 1); refresh(); change(); made.querySelector("select").focus(); },
      }, element("span", {}, shortened(names[i], 48)), element("span", { "aria-hidden": "true" }, "×")));
      made.replaceChildren(labelled("Add a model", add), element("div", { className: "plot-chips" }, ...chips));
    };
    refresh();
    return made;
  }

  // for the plane alone: Plotly's two-dimensional WebGL compiles code from text, which the pages forbid
  const hasWebGL = (() => {
    let known;
    return () => known ??= Boolean(document.createElement("canvas").getContext("webgl"));
  })();

  function theme(section) {
    const style = getComputedStyle(section);
    const read = (name) => style.getPropertyValue(`--plot-${name}`).trim();
    return {
      ink: read("ink"), soft: read("soft"), line: read("line"), ground: read("ground"), own: read("own"),
      loss: read("loss"), gain: read("gain"), colours: Array.from({ length: 12 }, (_, i) => read(i)), font: style.fontFamily,
    };
  }

  const CONFIG = {
    displaylogo: false, responsive: true, showSendToCloud: false, showEditInChartStudio: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["sendDataToCloud", "select2d", "lasso2d", "autoScale2d"],
  };

  function layout(colours, more) {
    const { margin, ...rest } = more;
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", uirevision: "kept", hovermode: "closest",
      font: { family: colours.font, size: 12.5, color: colours.ink },
      hoverlabel: { bgcolor: colours.ground, bordercolor: colours.line, font: { color: colours.ink }, align: "left" },
      legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 12 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.soft, activecolor: colours.ink },
      margin: { l: 60, r: 16, t: 30, b: 60, ...margin }, ...rest,
    };
  }
  const plain = (colours, more) => ({
    gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.line, tickcolor: colours.line, automargin: true, ...more,
  });

  // ticks in percent, the rounder ones first, as many as there is room for
  const EVEN = [[0, 50, 100], [20, 40, 60, 80], [10, 30, 70, 90]];
  const ROUND = [
    [50], [10, 90], [0, 100], [1, 99], [20, 30, 40, 60, 70, 80], [5, 95], [15, 25, 35, 45, 55, 65, 75, 85], [2, 98], [0.1, 99.9],
    Array.from({ length: 99 }, (_, i) => i + 1), [0.5, 99.5], [0.01, 99.99], Array.from({ length: 199 }, (_, i) => (i + 1) / 2),
    Array.from({ length: 999 }, (_, i) => (i + 1) / 10),
  ];
  function ticks([low, high], space, room = 8) {
    const { forward, edges } = SPACES[space];
    const gap = (high - low) / room, found = [];
    for (const some of edges ? ROUND : [...EVEN, ...ROUND]) {
      for (const share of some) {
        if (edges && (share === 0 || share === 100)) continue;
        const at = forward(share / 100);
        if (at >= low - 1e-9 && at <= high + 1e-9 && found.every(([other]) => Math.abs(other - at) >= gap)) found.push([at, `${share} %`]);
      }
    }
    found.sort((one, other) => one[0] - other[0]);
    return { tickmode: "array", tickvals: found.map((f) => f[0]), ticktext: found.map((f) => f[1]) };
  }
  function extent(values, space) {
    const low = Math.min(...values), high = Math.max(...values), more = 0.06 * (high - low) || 0.05;
    return SPACES[space].edges ? [low - more, high + more] : [Math.max(low - more, Math.min(low, 0) - 0.01), Math.min(high + more, Math.max(high, 1) + 0.01)];
  }

  // points: the scores that several plots share

  const parsed = new Map();
  function dataOf(section) {
    if (!parsed.has(section)) parsed.set(section, JSON.parse(section.querySelector('script[type="application/json"]').textContent));
    return parsed.get(section);
  }
  const shared = (id) => dataOf(document.getElementById(`plot-${id}`));

  function intervalOf(axis, i) {
    if (axis.low) return isNumber(axis.low[i]) ? [axis.low[i], axis.high[i]] : null;
    return wilson(axis.values[i], Array.isArray(axis.n) ? axis.n[i] : axis.n);
  }
  const score = (axis, i) => [axis.values[i], ...(intervalOf(axis, i) ?? [null, null])];
  function scoreText(axis, i) {
    const n = Array.isArray(axis.n) ? axis.n[i] : axis.n;
    return `${percent(axis.values[i])}${bounds(intervalOf(axis, i))}${n ? `, n ${n.toLocaleString("en")}` : ""}`;
  }
  const sourceOf = (data, axis, i) => data.sources[axis.source ? axis.source[i] : data.source[i]] ?? "";

  const GROUP = { board: "Scores of the board", details: "Details of the board", settings: "Settings of published results", scenarios: "Scenarios measured here" };
  const axisOptions = (data) => data.axes.map((axis, i) => [i, axis.title, GROUP[axis.group]]);
  const colourOptions = (data) => [["origin", "where it comes from"], ...Object.keys(data.facts).map((name) => [name, name.replaceAll("_", " ")])];
  function groupsOf(data, fact, kept) {
    const values = fact === "origin" ? data.origins : data.facts[fact];
    const groups = new Map();
    for (const i of kept) {
      const name = values[i] || "not stated";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(i);
    }
    return [...groups].sort((one, other) => one[0] < other[0] ? -1 : 1);
  }
  const mostTelling = (data) => data.facts.type ? "type" : "origin";

  // a score against another

  function lineOf(data, x, y, space) {
    const made = data.lines.find((one) => one.x === x && one.y === y);
    if (made) return made[space] ?? null;
    const { forward, inverse } = SPACES[space];
    const has = (i, isKnown) => [x, y].every((a) => isKnown(data.axes[a].values[i]));
    const all = data.fitted.filter((fitted, i) => fitted && has(i, isNumber)).length < 3;
    const inside = (v) => isInside(v, space) && v >= 0 && v <= 1;
    const kept = data.fitted.flatMap((fitted, i) => (fitted || all) && has(i, inside) ? [i] : []);
    const [xs, ys] = [x, y].map((a) => kept.map((i) => forward(data.axes[a].values[i])));
    const fit = kept.length > 2 ? line(xs, ys) : null;
    if (!fit) return null;
    const low = Math.min(...xs), high = Math.max(...xs);
    const places = Array.from({ length: 33 }, (_, k) => low + (high - low) * k / 32);
    const bounds = band(xs, ys, places, data.levels[kept.length]);
    return { ...fit, all: all && !data.fitted.every(Boolean), at: places.map(inverse), low: bounds.low.map(inverse), high: bounds.high.map(inverse) };
  }

  function scatter(section, data, parts) {
    const first = data.lines[0];
    const state = { x: first.x, y: first.y, space: data.space, colour: mostTelling(data), lines: "one", model: null };
    const change = (name) => (value) => { state[name] = name === "x" || name === "y" ? +value : value; draw(); };
    const names = element("datalist", { id: `${section.id}-models` }, ...data.models.map((name) => element("option", { value: name })));
    const find = element("input", {
      type: "search", list: names.id, placeholder: "name", autocomplete: "off",
      oninput: () => { const i = data.models.indexOf(find.value); if (i >= 0 || !find.value) { state.model = i >= 0 ? i : null; draw(); } },
    });
    parts.controls.append(
      choice("Across", axisOptions(data), state.x, change("x")),
      choice("Upwards", axisOptions(data), state.y, change("y")),
      radios("Axes", Object.keys(SPACES).map((name) => [name, SPACES[name].title]), state.space, change("space")),
      choice("Colour", colourOptions(data), state.colour, change("colour")),
      choice("Line", [["one", "through the fitted models"], ["group", "one per colour"]], state.lines, change("lines")),
      labelled("Find a model", find), names,
    );
    let drawn = false;

    // a line through the models of each colour: how one kind of training lies to another on this one reference
    function groupLines(kept, x, y, forward, colours) {
      return groupsOf(data, state.colour, kept).flatMap(([name, some], position) => {
        const [xs, ys] = [x, y].map((axis) => some.map((i) => forward(axis.values[i])));
        const fit = some.length > 2 ? line(xs, ys) : null;
        if (!fit) return [];
        const ends = [Math.min(...xs), Math.max(...xs)];
        return [{ name: `line, ${safe(name, 30)}`, x: ends, y: ends.map((v) => fit.slope * v + fit.intercept), mode: "lines", type: "scatter",
          line: { color: colours.colours[position % 12], width: 2 }, hoverinfo: "skip", meta: { slope: fit.slope, intercept: fit.intercept, n: some.length } }];
      });
    }

    function draw() {
      const colours = theme(section), { forward, inverse } = SPACES[state.space];
      const [x, y] = [data.axes[state.x], data.axes[state.y]];
      const both = data.models.map((_, i) => i).filter((i) => isNumber(x.values[i]) && isNumber(y.values[i]));
      const kept = both.filter((i) => isInside(x.values[i], state.space) && isInside(y.values[i], state.space));
      const fit = lineOf(data, state.x, state.y, state.space);
      const expected = (i) => fit && isInside(x.values[i], state.space) ? inverse(fit.slope * forward(x.values[i]) + fit.intercept) : null;
      const xs = kept.map((i) => forward(x.values[i])), ys = kept.map((i) => forward(y.values[i]));
      const ranges = kept.length ? [extent(xs, state.space), extent(ys, state.space)] : [[0, 1], [0, 1]];
      const traces = [];
      if (state.lines === "group") traces.push(...groupLines(kept, x, y, forward, colours));
      else if (fit) {
        const at = fit.at.map(forward), up = fit.high.map((v) => forward(v)), down = fit.low.map((v) => forward(v));
        const clamp = (v) => Math.max(-50, Math.min(50, v));
        traces.push({ name: "band (95 %)", x: [...at, ...at.toReversed()], y: [...up.map(clamp), ...down.toReversed().map(clamp)], fill: "toself",
          mode: "lines", line: { width: 0 }, fillcolor: colours.own + "2e", hoverinfo: "skip", type: "scatter" });
        traces.push({ name: "line", x: [at[0], at.at(-1)], y: [at[0], at.at(-1)].map((v) => fit.slope * v + fit.intercept), mode: "lines",
          line: { color: colours.own, width: 2 }, hoverinfo: "skip", type: "scatter" });
      }
      const same = [Math.max(ranges[0][0], ranges[1][0]), Math.min(ranges[0][1], ranges[1][1])];
      if (same[0] < same[1]) traces.push({ name: "y = x", x: same, y: same, mode: "lines", line: { color: colours.soft, width: 1, dash: "dot" }, hoverinfo: "skip", type: "scatter" });
      groupsOf(data, state.colour, kept).forEach(([name, some], position) => traces.push({
        name: safe(name, 40), type: "scatter", mode: "markers", hoverinfo: "text", customdata: some,
        x: some.map((i) => forward(x.values[i])), y: some.map((i) => forward(y.values[i])),
        text: some.map((i) => hover(i, expected(i))),
        marker: {
          color: colours.colours[position % 12], opacity: 0.85,
          symbol: some.map((i) => data.origins[i] === "measured" ? "diamond" : data.fitted[i] ? "circle" : "circle-open"),
          size: some.map((i) => data.origins[i] === "measured" ? 13 : 8),
          line: { color: colours.ink, width: some.map((i) => data.origins[i] === "measured" ? 1.5 : data.fitted[i] ? 0 : 1) },
        },
      }));
      if (state.model !== null && kept.includes(state.model)) traces.push({
        name: "found", showlegend: false, type: "scatter", mode: "markers", hoverinfo: "skip",
        x: [forward(x.values[state.model])], y: [forward(y.values[state.model])],
        marker: { symbol: "circle-open", size: 22, color: colours.ink, line: { width: 2.5 } },
      });
      const axis = (title, range) => plain(colours, { title: { text: safe(title, 60), standoff: 12 }, range, ...ticks(range, state.space) });
      const made = layout(colours, { height: 520, uirevision: `${state.x} ${state.y} ${state.space}`, xaxis: axis(x.title, ranges[0]), yaxis: axis(y.title, ranges[1]) });
      Plotly.react(parts.area, traces, made, CONFIG);
      if (!drawn) listen();
      drawn = true;
      parts.note.textContent = note(fit, both.length - kept.length, kept.length);
      read(expected);
    }

    function hover(i, expected) {
      const [x, y] = [data.axes[state.x], data.axes[state.y]];
      const facts = Object.entries(data.facts).flatMap(([name, values]) => values[i] ? [`${safe(name)}: ${safe(values[i])}`] : []);
      return [
        `${safe(data.models[i])}`,
        `${safe(x.title)}: ${scoreText(x, i)}`,
        `${safe(y.title)}: ${scoreText(y, i)}`,
        ...(isNumber(expected) ? [`expected ${percent(expected)}, effective robustness ${points(y.values[i] - expected)} points`] : []),
        ...facts.slice(0, 3),
        `${safe(data.origins[i])}: ${safe(sourceOf(data, y, i), 80)}${data.fitted[i] ? "" : " (not in the fit)"}`,
      ].join("<br>");
    }

    function note(fit, edge, shown) {
      const notes = [`${shown} models.`];
      notes.push(fit ? `Line over ${fit.n} of them in ${state.space} space: slope ${written(fit.slope, 3)}, R² ${isNumber(fit.r2) ? written(fit.r2, 3) : "not defined"}.` : "No line: it takes three models whose scores differ.");
      if (fit) notes.push(...cautions(fit, "line", data.weak));
      if (fit && fit.all) notes.push("Fewer than three models of others have both scores: the line goes through all that do.");
      else if (shown && data.fitted.some((one) => !one)) notes.push("Open marks are not in the fit; diamonds were measured here.");
      if (edge) notes.push(`${edge} with a score of 0 or 100 % lie infinitely far away on these axes and are not drawn.`);
      return notes.join(" ");
    }

    function read(expected) {
      const i = state.model;
      if (i === null) { parts.reading.replaceChildren(); return; }
      const [x, y] = [data.axes[state.x], data.axes[state.y]];
      const rows = [["Model", data.models[i]], [x.title, scoreText(x, i)], [y.title, scoreText(y, i)]];
      const would = expected(i);
      if (isNumber(would) && isNumber(y.values[i])) rows.push(["Expected", percent(would)], ["Effective robustness", `${points(y.values[i] - would)} points`]);
      rows.push(["Source", sourceOf(data, y, i)]);
      parts.reading.replaceChildren(element("dl", {}, ...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])));
    }

    function listen() {
      parts.area.on("plotly_click", ({ points: [point] }) => {
        if (point.customdata === undefined) return;
        state.model = point.customdata;
        find.value = data.models[state.model];
        draw();
      });
      parts.area.on("plotly_relayout", (change) => {
        if (!Object.keys(change).some((name) => name.includes("range") || name.includes("autosize"))) return;
        const { xaxis, yaxis } = parts.area.layout;
        const axes = { x: ticks(xaxis.range, state.space), y: ticks(yaxis.range, state.space) };
        if (String(axes.x.ticktext) === String(xaxis.ticktext) && String(axes.y.ticktext) === String(yaxis.ticktext)) return;
        Plotly.relayout(parts.area, { "xaxis.tickvals": axes.x.tickvals, "xaxis.ticktext": axes.x.ticktext, "yaxis.tickvals": axes.y.tickvals, "yaxis.ticktext": axes.y.ticktext });
      });
    }
    return draw;
  }

  // a score against two references

  function planeOf(data, planes, a, b, y, space) {
    const made = planes.find((one) => one.x[0] === a && one.x[1] === b && one.y === y);
    if (made) return made[space] ?? null;
    const { forward } = SPACES[space];
    const inside = (i) => [a, b, y].every((k) => { const v = data.axes[k].values[i]; return isInside(v, space) && v >= 0 && v <= 1; });
    const known = (i) => [a, b, y].every((k) => isNumber(data.axes[k].values[i]));
    const all = data.fitted.filter((fitted, i) => fitted && known(i)).length < 3;
    const kept = data.fitted.flatMap((fitted, i) => (fitted || all) && inside(i) ? [i] : []);
    const fit = kept.length > 3 ? plane(...[a, b, y].map((k) => kept.map((i) => forward(data.axes[k].values[i])))) : null;
    if (!fit) return null;
    const away = kept.map((i) => Math.abs(data.axes[y].values[i] - onPlane(fit, data.axes[a].values[i], data.axes[b].values[i], space)));
    return { ...fit, mae: mean(away) };
  }
  function onPlane(fit, a, b, space) {
    const { forward, inverse } = SPACES[space];
    return inverse(fit.weights[0] * forward(a) + fit.weights[1] * forward(b) + fit.intercept);
  }
  const VIEWS = {
    turned: { eye: { x: -1.4, y: -1.5, z: 0.6 }, projection: { type: "perspective" } },
    first: { eye: { x: 0, y: -2.2, z: 0.02 }, projection: { type: "orthographic" } },
    second: { eye: { x: -2.2, y: 0, z: 0.02 }, projection: { type: "orthographic" } },
  };
  // a narrow screen needs more distance
  function viewOf(name, width) {
    const far = width < 560 ? 1.6 : 1, { eye, projection } = VIEWS[name];
    return { eye: { x: far * eye.x, y: far * eye.y, z: far * eye.z }, center: { x: 0, y: 0, z: -0.08 }, projection };
  }

  function planes(section, own, parts) {
    const data = shared(own.points), first = own.planes[0];
    const state = { a: first.x[0], b: first.x[1], y: first.y, space: own.space, colour: mostTelling(data), camera: viewOf("turned", section.clientWidth) };
    const change = (name) => (value) => { state[name] = "aby".includes(name) ? +value : value; draw(); };
    const look = (camera) => { state.camera = camera; Plotly.relayout(parts.area, { "scene.camera": camera }); };
    const turn = (angle, tilt) => () => {
      const { x, y, z } = state.camera.eye, radius = Math.hypot(x, y, z);
      const round = Math.atan2(y, x) + angle, up = Math.max(-1.5, Math.min(1.5, Math.asin(z / radius) + tilt));
      look({ ...state.camera, eye: { x: radius * Math.cos(up) * Math.cos(round), y: radius * Math.cos(up) * Math.sin(round), z: radius * Math.sin(up) } });
    };
    const button = (text, title, press) => element("button", { type: "button", title, onclick: press }, text);
    parts.controls.append(
      choice("First reference", axisOptions(data), state.a, change("a")),
      choice("Second reference", axisOptions(data), state.b, change("b")),
      choice("Upwards", axisOptions(data), state.y, change("y")),
      radios("Axes", Object.keys(SPACES).map((name) => [name, SPACES[name].title]), state.space, change("space")),
      choice("Colour", colourOptions(data), state.colour, change("colour")),
      element("div", { className: "plot-buttons", role: "group", "aria-label": "Turn" },
        button("←", "Turn left", turn(-0.26, 0)), button("→", "Turn right", turn(0.26, 0)), button("↑", "Look from above", turn(0, 0.2)), button("↓", "Look from below", turn(0, -0.2)),
        button("First only", "As if there were one reference, the first", () => look(viewOf("first", section.clientWidth))),
        button("Second only", "As if there were one reference, the second", () => look(viewOf("second", section.clientWidth))),
        button("Both", "The first view again", () => look(viewOf("turned", section.clientWidth)))),
    );
    let drawn = false;

    function draw() {
      const colours = theme(section), { forward } = SPACES[state.space];
      const keys = [state.a, state.b, state.y], axes = keys.map((k) => data.axes[k]);
      const kept = data.models.map((_, i) => i).filter((i) => axes.every((axis) => isInside(axis.values[i], state.space)));
      const fit = planeOf(data, own.planes, ...keys, state.space);
      parts.note.textContent = summary(fit, kept.length);
      if (!hasWebGL()) { parts.area.textContent = "This picture needs WebGL, which this browser does not offer."; return; }
      const ranges = axes.map((axis) => kept.length ? extent(kept.map((i) => forward(axis.values[i])), state.space) : [0, 1]);
      const traces = groupsOf(data, state.colour, kept).map(([name, some], position) => ({
        type: "scatter3d", mode: "markers", name: safe(name, 40), hoverinfo: "text", customdata: some,
        x: some.map((i) => forward(axes[0].values[i])), y: some.map((i) => forward(axes[1].values[i])), z: some.map((i) => forward(axes[2].values[i])),
        text: some.map((i) => hover(i, fit, axes)),
        marker: { size: some.map((i) => data.origins[i] === "measured" ? 9 : 6), symbol: some.map((i) => data.origins[i] === "measured" ? "diamond" : data.fitted[i] ? "circle" : "circle-open"), color: colours.colours[position % 12], opacity: 0.95 },
      }));
      if (fit) {
        const along = ranges.slice(0, 2).map(([low, high]) => Array.from({ length: 9 }, (_, k) => low + (high - low) * k / 8));
        traces.push({ type: "surface", name: "plane", showscale: false, opacity: 0.45, hoverinfo: "skip", x: along[0], y: along[1],
          z: along[1].map((b) => along[0].map((a) => fit.weights[0] * a + fit.weights[1] * b + fit.intercept)), colorscale: [[0, colours.own], [1, colours.own]] });
      }
      const axis = (title, range) => ({ title: { text: safe(title, section.clientWidth < 560 ? 18 : 40) }, range, gridcolor: colours.line, zeroline: false, backgroundcolor: "rgba(0,0,0,0)", color: colours.ink, ...ticks(range, state.space, 5) });
      const made = layout(colours, {
        height: section.clientWidth < 560 ? 440 : 560, margin: { l: 0, r: 0, t: 10, b: 10 }, legend: { orientation: "h", y: 0, yanchor: "top", font: { size: 12 } }, uirevision: "camera",
        scene: { xaxis: axis(axes[0].title, ranges[0]), yaxis: axis(axes[1].title, ranges[1]), zaxis: axis(axes[2].title, ranges[2]), camera: state.camera, aspectmode: "cube" },
      });
      Plotly.react(parts.area, traces, made, CONFIG);
      if (!drawn) parts.area.on("plotly_relayout", (moved) => { if (moved["scene.camera"]) state.camera = moved["scene.camera"]; });
      drawn = true;
    }

    function hover(i, fit, axes) {
      const would = fit ? onPlane(fit, axes[0].values[i], axes[1].values[i], state.space) : null;
      return [`${safe(data.models[i])}`, ...axes.map((axis) => `${safe(axis.title)}: ${scoreText(axis, i)}`),
        ...(isNumber(would) ? [`expected ${percent(would)}, effective robustness ${points(axes[2].values[i] - would)} points`] : []),
        `${safe(data.origins[i])}: ${safe(sourceOf(data, axes[2], i), 80)}`].join("<br>");
    }
    function summary(fit, shown) {
      if (!fit) return `${shown} models. No plane: it takes four models whose two references differ.`;
      const alone = [state.a, state.b].map((a) => lineOf(data, a, state.y, state.space)?.r2);
      const singly = alone.every(isNumber) ? ` The first reference alone has R² ${written(alone[0], 3)}, the second ${written(alone[1], 3)}.` : "";
      return `${shown} models. Plane over ${fit.n} of them in ${state.space} space: R² ${isNumber(fit.r2) ? written(fit.r2, 3) : "not defined"}, mean absolute error ${written(100 * fit.mae, 2)} points.${cautions(fit, "plane", own.weak).map((text) => ` ${text}`).join("")}${singly}`;
    }
    return draw;
  }

  // many attacks

  const MOST = 5;
  function batteryOf(data, model, chosen, low, high, withClean) {
    const cells = withClean ? [{ attack: null, strength: 0, accuracy: model.clean, best: data.clean }] : [];
    data.attacks.forEach((attack, a) => {
      if (!chosen.has(attack.name)) return;
      attack.strengths.forEach((strength, s) => {
        if (s + 1 >= low && s + 1 <= high) cells.push({ attack: attack.name, strength, accuracy: model.accuracies[a][s], best: attack.best[s] });
      });
    });
    return cells;
  }
  function scoresOf(data, model, cells) {
    const have = cells.filter((cell) => isNumber(cell.accuracy) && isNumber(cell.best)).length;
    const ratio = have === cells.length ? competitiveness(cells) : null;
    const steep = ratio ? stability(cells, model.trained, data.near) : null;
    return { have, of: cells.length, average: ratio?.average ?? null, worst: ratio?.worst ?? null, at: ratio?.at ?? null, stability: steep?.constant ?? null, pair: steep?.pair ?? null };
  }

  function attacks(section, data, parts) {
    if (data.missing) parts.controls.before(element("p", { className: "plot-missing" }, data.missing));
    if (!data.models.length) return () => {};
    const most = Math.max(...data.attacks.map((attack) => attack.strengths.length));
    const official = () => new Set(data.attacks.flatMap((attack) => attack.ranked ? [attack.name] : []));
    const ranked = data.models.map((_, i) => i).sort((i, j) => (data.models[i].rank ?? 1e9) - (data.models[j].rank ?? 1e9));
    const state = { chosen: official(), low: 1, high: most, clean: true, sort: "rank", down: false, compared: ranked.slice(0, 2), view: "best", ratio: "average" };

    const boxes = new Map();
    const box = (name, title, isOn, flip) => {
      const input = element("input", { type: "checkbox", checked: isOn, value: name, onchange: () => { flip(input.checked); draw(); } });
      boxes.set(name, input);
      return element("label", {}, input, shortened(title, 40));
    };
    const flip = (name) => (isOn) => { if (isOn) state.chosen.add(name); else state.chosen.delete(name); };
    const listed = (isRanked) => data.attacks.filter((attack) => attack.ranked === isRanked).map((attack) => box(attack.name, attack.name, state.chosen.has(attack.name), flip(attack.name)));
    const others = listed(false);
    const level = (name) => {
      const input = element("input", { type: "number", min: 1, max: most, value: state[name], onchange: () => {
        state[name] = Math.max(1, Math.min(most, Math.round(+input.value) || state[name]));
        if (state.low > state.high) state[name === "low" ? "high" : "low"] = state[name];
        levels.low.value = state.low; levels.high.value = state.high; draw();
      } });
      return input;
    };
    const levels = { low: level("low"), high: level("high") };
    const reset = () => {
      state.chosen = official(); [state.low, state.high, state.clean] = [1, most, true];
      for (const [name, input] of boxes) input.checked = name === "" ? true : state.chosen.has(name);
      levels.low.value = 1; levels.high.value = most; draw();
    };
    parts.controls.append(
      element("fieldset", { className: "plot-set" }, element("legend", {}, "Attack set K"),
        element("div", { className: "plot-boxes" }, box("", "no attack", true, (isOn) => { state.clean = isOn; }), ...listed(true)),
        ...(others.length ? [element("details", {}, element("summary", {}, `${others.length} more that the rank leaves out`), element("div", { className: "plot-boxes" }, ...others))] : []),
        element("div", { className: "plot-buttons" },
          labelled("Weakest level", levels.low), labelled("Strongest level", levels.high),
          element("button", { type: "button", onclick: reset }, "The official set"))),
    );
    const table = element("table", { className: "plot-table" });
    const warning = element("p", { className: "plot-note", role: "status" });
    const views = [["best", "Against models trained on the attack"], ["strengths", "Over strengths"], ["inside", "Seen and unforeseen"], ["single", "Per attack"]];
    parts.area.before(
      element("div", { className: "plot-scroll", tabIndex: 0, role: "region", "aria-label": "Scores for the chosen attacks" }, table), warning,
      element("div", { className: "plot-controls" },
        radios(`Compare up to ${MOST}`, views, state.view, (value) => { state.view = value; picture(); }),
        choice("Ratio", [["average", "average"], ["worst", "worst case"]], state.ratio, (value) => { state.ratio = value; picture(); })),
    );

    const columns = [
      ["rank", "rank", (row) => row.model.rank, (v) => v ?? "–"],
      ["name", "model", (row) => row.model.name, (v) => shortened(v, 60)],
      ["official", "CR average, official", (row) => row.model.official[0], (v) => isNumber(v) ? written(100 * v) : "–"],
      ["average", "CR average", (row) => row.scores.average, (v, row) => isNumber(v) ? written(100 * v) : `${row.scores.have} of ${row.scores.of}`],
      ["worst", "CR worst", (row) => row.scores.worst, (v) => isNumber(v) ? written(100 * v) : "–"],
      ["stability", "SC", (row) => row.scores.stability, (v) => isNumber(v) ? figures(v) : "–"],
    ];
    const cellsOf = (i) => batteryOf(data, data.models[i], state.chosen, state.low, state.high, state.clean);
    let rows = [];

    function draw() {
      rows = data.models.map((model, i) => ({ i, model, scores: scoresOf(data, model, cellsOf(i)) }));
      tabulate();
      picture();
    }

    function tabulate() {
      const [, , value] = columns.find(([name]) => name === state.sort);
      const sign = state.down ? -1 : 1;
      rows.sort((one, other) => {
        const [a, b] = [value(one), value(other)];
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
      });
      const head = element("tr", {}, element("th", { scope: "col" }, "compare"), ...columns.map(([name, title]) => {
        const press = element("button", { type: "button", onclick: () => { state.down = state.sort === name ? !state.down : ["official", "average", "worst"].includes(name); state.sort = name; tabulate(); table.querySelector(`th[data-key="${name}"] button`).focus(); } }, title);
        return element("th", { scope: "col", "data-key": name, "aria-sort": state.sort === name ? (state.down ? "descending" : "ascending") : "none" }, press);
      }));
      const body = rows.map((row) => {
        const position = state.compared.indexOf(row.i);
        const input = element("input", { type: "checkbox", checked: position >= 0, disabled: position < 0 && state.compared.length >= MOST, "aria-label": `Compare ${row.model.name}`, onchange: () => {
          if (input.checked) state.compared.push(row.i); else state.compared.splice(state.compared.indexOf(row.i), 1);
          tabulate(); picture(); [...table.tBodies[0].rows].find((one) => one.dataset.model === String(row.i)).querySelector("input").focus();
        } });
        const cells = columns.map(([name, , read, write]) => {
          const cell = element("td", { className: name === "name" ? "" : "num", "data-value": read(row) ?? "" }, String(write(read(row), row)));
          if (name === "worst" && row.scores.at) cell.title = `set by ${entryText(row.scores.at)}`;
          if (name === "stability" && row.scores.pair) cell.title = `set by ${row.scores.pair.map(entryText).join(" and ")}`;
          if (name === "name") cell.title = row.model.name;
          return cell;
        });
        return element("tr", { "data-model": row.i, className: position >= 0 ? "chosen" : "", style: position >= 0 ? `--chip: var(--plot-${position})` : "" }, element("td", {}, input), ...cells);
      });
      table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
      warning.textContent = `K holds ${cellsOf(0).length} attacks. A ratio over missing accuracies is not shown: the cell says how many there are.`;
    }

    const entryText = (cell) => cell.attack === null ? "no attack" : `${cell.attack} ${cell.strength}`;

    function picture() {
      const colours = theme(section), some = state.compared.map((i, position) => ({ model: data.models[i], cells: cellsOf(i), colour: colours.colours[position] }));
      const made = { best: againstBest, strengths: overStrengths, inside: insideOutside, single: perAttack }[state.view](some, colours);
      made.traces.push({ x: [], y: [], type: "scatter", showlegend: false });
      Plotly.react(parts.area, made.traces, layout(colours, { uirevision: state.view, barmode: "group", ...made.layout }), CONFIG);
      parts.note.textContent = made.note;
    }

    function againstBest(some, colours) {
      const traces = some.map(({ model, cells, colour }) => {
        const known = cells.filter((cell) => isNumber(cell.accuracy) && isNumber(cell.best));
        return { type: "scatter", mode: "markers", name: safe(model.name, 40), hoverinfo: "text", marker: { color: colour, size: 7, opacity: 0.7 },
          x: known.map((cell) => cell.best), y: known.map((cell) => cell.accuracy),
          text: known.map((cell) => `${safe(model.name)}<br>${safe(entryText(cell))}<br>accuracy ${percent(cell.accuracy)}<br>trained on it ${percent(cell.best)}<br>ratio ${percent(cell.accuracy / cell.best)}`) };
      });
      traces.push({ type: "scatter", mode: "lines", name: "y = x", x: [0, 1], y: [0, 1], line: { color: colours.soft, dash: "dot", width: 1 }, hoverinfo: "skip" });
      const axis = (title) => plain(colours, { title: { text: title }, range: [-0.02, 1.02], ...ticks([-0.02, 1.02], "linear", 6) });
      return { traces, layout: { height: 480, xaxis: axis("accuracy of models trained on the attack"), yaxis: axis("accuracy of the model") }, note: "Each point is an attack of K at one strength; below the line the model does worse than models trained on that attack." };
    }

    function overStrengths(some, colours) {
      const shown = data.attacks.map((attack, a) => ({ attack, a })).filter(({ attack }) => state.chosen.has(attack.name));
      const across = Math.max(1, Math.min(3, Math.floor(parts.area.clientWidth / 260), shown.length || 1)), down = Math.max(1, Math.ceil(shown.length / across));
      const made = { traces: [], note: "Accuracy over the strengths of each attack; dashed: models trained on it. Missing accuracies leave a gap.",
        layout: { height: 90 + 190 * down, margin: { t: 40 }, annotations: [], legend: { orientation: "h", y: -40 / (90 + 190 * down), yanchor: "top" } } };
      shown.forEach(({ attack, a }, k) => {
        const suffix = k ? String(k + 1) : "", column = k % across, row = Math.floor(k / across);
        const kept = attack.strengths.map((_, s) => s).filter((s) => s + 1 >= state.low && s + 1 <= state.high);
        const x = [...(state.clean ? [0] : []), ...kept.map((s) => attack.strengths[s])];
        const values = (clean, all) => [...(state.clean ? [clean] : []), ...kept.map((s) => all[s])];
        const add = (name, y, more) => made.traces.push({ type: "scatter", mode: "lines", name, x, y, xaxis: `x${suffix}`, yaxis: `y${suffix}`, showlegend: k === 0, legendgroup: name, text: y.map((one) => percent(one)), hovertemplate: "%{x}: %{text}<extra></extra>", ...more });
        some.forEach(({ model, colour }) => add(safe(model.name, 40), values(model.clean, model.accuracies[a]), { line: { color: colour, width: 2 } }));
        add("trained on the attack", values(data.clean, attack.best), { line: { color: colours.soft, width: 1.5, dash: "dash" } });
        const width = 1 / across, height = 1 / down, pad = 0.05;
        made.layout[`xaxis${suffix}`] = plain(colours, { domain: [column * width + (column ? pad * 0.7 : 0), (column + 1) * width - pad * 0.3], anchor: `y${suffix}`, automargin: false, nticks: 4 });
        made.layout[`yaxis${suffix}`] = plain(colours, { domain: [1 - (row + 1) * height + 0.28 * height, 1 - row * height - 0.06 * height], anchor: `x${suffix}`, automargin: false, range: [0, 1], tickformat: ".0%", nticks: 4 });
        made.layout.annotations.push({ text: safe(attack.name, 28), showarrow: false, xref: `x${suffix} domain`, yref: `y${suffix} domain`, x: 0, y: 1.02, xanchor: "left", yanchor: "bottom", font: { size: 12 } });
      });
      return made;
    }

    const shareAxis = (colours, title) => plain(colours, { title: { text: title }, tickformat: ".0%", rangemode: "tozero" });
    const ratioOf = (cells) => cells.every((cell) => isNumber(cell.accuracy)) ? competitiveness(cells)?.[state.ratio] ?? null : null;

    const tall = (y) => ({ y, text: y.map((one) => percent(one)), textposition: "none", hovertemplate: "%{x}: %{text}<extra></extra>" });

    function insideOutside(some, colours) {
      const sides = [["seen in training", true], ["unforeseen", false]];
      const traces = some.map(({ model, cells, colour }) => ({ type: "bar", name: safe(model.name, 40), marker: { color: colour }, x: sides.map(([name]) => name),
        ...tall(sides.map(([, seen]) => ratioOf(cells.filter((cell) => isKnown(cell, model.trained) === seen)))) }));
      return { traces, layout: { height: 420, xaxis: plain(colours, { type: "category" }), yaxis: shareAxis(colours, `CR ${state.ratio}`) }, note: "CR over the attacks of K that a model was trained on (no attack counts as seen), and over the others. No bar: none of them, or accuracies are missing." };
    }

    function perAttack(some, colours) {
      const shown = data.attacks.filter((attack) => state.chosen.has(attack.name));
      const traces = some.map(({ model, cells, colour }) => ({ type: "bar", name: safe(model.name, 40), marker: { color: colour }, x: shown.map((attack) => safe(attack.name, 28)),
        ...tall(shown.map((attack) => ratioOf(cells.filter((cell) => cell.attack === null || cell.attack === attack.name)))) }));
      return { traces, layout: { height: 460, xaxis: plain(colours, { type: "category" }), yaxis: shareAxis(colours, `CR ${state.ratio}`) }, note: "CR of each attack alone, over its strengths and no attack." };
    }
    return draw;
  }

  // each attack alone, over all models

  function single(section, data, parts) {
    const names = data.attacks.map((attack) => safe(attack.title, 28));
    return draw;

    function draw() {
      const colours = theme(section);
      const bars = { type: "bar", name: "mean over models", marker: { color: colours.colours[0], opacity: 0.55 }, x: names, y: data.attacks.map((attack) => attack.mean),
        error_y: { type: "data", array: data.attacks.map((attack) => attack.deviation ?? 0), color: colours.soft, thickness: 1.5 },
        text: data.attacks.map((attack) => `${percent(attack.mean)} ± ${percent(attack.deviation)}, ${attack.n} models`), textposition: "none", hovertemplate: "%{x}: %{text}<extra></extra>" };
      const dots = { type: "scatter", mode: "markers", name: "a model", marker: { color: colours.soft, size: 5, opacity: 0.7 }, x: [], y: [], text: [], hovertemplate: "%{text}<extra></extra>" };
      data.attacks.forEach((attack, a) => attack.values.forEach((value, i) => {
        if (!isNumber(value)) return;
        dots.x.push(names[a]); dots.y.push(value); dots.text.push(`${safe(data.models[i], 60)}<br>${names[a]}: ${percent(value)}`);
      }));
      Plotly.react(parts.area, [bars, dots], layout(colours, { height: 440, xaxis: plain(colours, { type: "category" }), yaxis: plain(colours, { title: { text: "competitiveness ratio" }, tickformat: ".0%", rangemode: "tozero" }) }), CONFIG);
      parts.note.textContent = "Bars: mean over models, lines: one standard deviation.";
    }
  }

  // what each shift costs

  function degradation(section, own, parts) {
    const data = shared(own.points);
    const known = (i) => own.measures[state.measure].cells.filter(([, , axis, reference]) => isNumber(data.axes[axis].values[i]) && isNumber(data.axes[reference].values[i])).length;
    const state = { measure: 0, view: "bars", chosen: [] };
    let pick = [];
    const names = data.models.map((name, i) => data.origins[i] === "measured" ? `${name} (measured here)` : name);
    const holder = element("div", {});
    function offer() {
      const counts = data.models.map((_, i) => known(i)), own = (i) => data.origins[i] === "measured";
      pick = data.models.map((_, i) => i).filter((i) => counts[i]).sort((i, j) => own(j) - own(i) || counts[j] - counts[i]);
      state.chosen = pick.slice(0, 2).map((_, k) => k);
      holder.replaceChildren(chooser(pick.map((i) => names[i]), state.chosen, MOST, () => draw()));
    }
    parts.controls.append(
      choice("Score", own.measures.map((measure, i) => [i, measure.title]), 0, (value) => { state.measure = +value; offer(); draw(); }),
      radios("View", [["bars", "bars"], ["map", "map of levels"]], "bars", (value) => { state.view = value; draw(); }), holder);
    offer();

    // of a model measured here on the samples that both runs hold, as its report has it
    const lossOf = (i, [, , axis, reference, paired]) => paired[i] ?? difference(score(data.axes[axis], i), score(data.axes[reference], i));
    function draw() {
      const colours = theme(section), cells = own.measures[state.measure].cells;
      const some = state.chosen.map((k, at) => ({ i: pick[k], name: names[pick[k]], colour: colours.colours[at] }));
      const made = state.view === "bars" ? bars(some, cells, colours) : map(some, cells, colours);
      if (!made.traces.length) made.traces.push({ type: "scatter", x: [], y: [] });
      Plotly.react(parts.area, made.traces, layout(colours, { uirevision: `${state.view} ${state.measure}`, ...made.layout }), CONFIG);
      parts.note.textContent = made.note;
    }

    function bars(some, cells, colours) {
      const shifts = [...new Set(cells.map((cell) => cell[0]))];
      const values = some.map(({ i }) => new Map(shifts.map((shift) => {
        const losses = cells.filter((cell) => cell[0] === shift).map((cell) => lossOf(i, cell));
        const whole = losses.every((loss) => isNumber(loss[0]));
        const known = losses.every((loss) => isNumber(loss[1]));
        return [shift, whole ? [mean(losses.map((l) => l[0])), known ? mean(losses.map((l) => l[1])) : null, known ? mean(losses.map((l) => l[2])) : null] : [null, null, null]];
      })));
      const order = shifts.filter((shift) => values.some((one) => isNumber(one.get(shift)[0])))
        .sort((one, other) => (values[0]?.get(other)[0] ?? 0) - (values[0]?.get(one)[0] ?? 0));
      const left = shifts.length - order.length;
      const traces = some.map(({ name, colour }, k) => {
        const [value, low, high] = [0, 1, 2].map((part) => order.map((shift) => values[k].get(shift)[part]));
        return { type: "bar", orientation: "h", name: safe(name, 40), marker: { color: colour }, y: order.map((shift) => safe(shift, 40)), x: value.map((v) => isNumber(v) ? 100 * v : null), hoverinfo: "text",
          hovertext: order.map((shift, n) => isNumber(value[n]) ? `${safe(name)}<br>${safe(shift)}: ${points(value[n])} points${bounds([low[n], high[n]])}` : ""), textposition: "none",
          error_x: { type: "data", visible: high.some(isNumber), symmetric: false, color: colours.soft, thickness: 1, width: 2, array: value.map((v, n) => isNumber(high[n]) ? 100 * (high[n] - v) : 0), arrayminus: value.map((v, n) => isNumber(low[n]) ? 100 * (v - low[n]) : 0) } };
      });
      const height = 110 + order.length * (14 + 11 * Math.max(1, some.length));
      return { traces, layout: { height, barmode: "group", bargap: 0.25, xaxis: plain(colours, { title: { text: "points" }, side: "top", zeroline: true }), yaxis: plain(colours, { type: "category", automargin: true }), margin: { t: 60, l: 20, b: 20 }, legend: { orientation: "h", y: -30 / height, yanchor: "top" } },
        note: left ? `${left} shifts are not shown: not all of their levels were measured.` : "" };
    }

    function map(some, cells, colours) {
      const shifts = [...new Set(cells.map((cell) => cell[0]))].toReversed();
      const levels = [...new Set(cells.map((cell) => cell[1]))].sort((one, other) => (one === "") - (other === "") || fraction(one) - fraction(other));
      const across = Math.max(1, Math.min(some.length, Math.floor(parts.area.clientWidth / 300))), down = Math.max(1, Math.ceil(some.length / across));
      const tall = 24 * shifts.length + 70, height = down * tall + 40;
      const grids = some.map(({ i }) => shifts.map((shift) => levels.map((level) => {
        const cell = cells.find((one) => one[0] === shift && one[1] === level);
        const loss = cell ? lossOf(i, cell)[0] : null;
        return isNumber(loss) ? 100 * loss : null;
      })));
      const reach = Math.max(1, ...grids.flat(2).filter(isNumber).map(Math.abs));
      const made = { traces: [], layout: { height, annotations: [], margin: { t: 40, l: 20, b: 20 } }, note: "Points gained or lost; a blank cell was not measured." };
      some.forEach(({ name }, k) => {
        const suffix = k ? String(k + 1) : "", column = k % across, row = Math.floor(k / across), width = 1 / across;
        made.traces.push({ type: "heatmap", z: grids[k], x: levels.map((level) => level || "–"), y: shifts.map((shift) => safe(shift, 30)), xaxis: `x${suffix}`, yaxis: `y${suffix}`, zmin: -reach, zmax: reach, xgap: 1, ygap: 1,
          colorscale: [[0, colours.loss], [0.5, colours.ground], [1, colours.gain]], showscale: false, texttemplate: "%{text}", text: grids[k].map((row) => row.map((loss) => isNumber(loss) ? written(loss) : "")), hoverongaps: false, hoverinfo: "text",
          hovertext: grids[k].map((row, r) => row.map((loss, c) => isNumber(loss) ? `${safe(name)}<br>${safe(shifts[r])}${levels[c] && `, ${safe(levels[c])}`}: ${points(loss / 100)} points` : "")) });
        made.layout[`xaxis${suffix}`] = plain(colours, { type: "category", domain: [column * width + (column ? 0.02 : 0), (column + 1) * width], anchor: `y${suffix}`, side: "bottom", showgrid: false });
        made.layout[`yaxis${suffix}`] = plain(colours, { type: "category", domain: [1 - (row + 1) * tall / (down * tall) + 34 / height, 1 - row * tall / (down * tall) - 24 / height], anchor: `x${suffix}`, showticklabels: column === 0, showgrid: false });
        made.layout.annotations.push({ text: safe(name, 36), showarrow: false, xref: `x${suffix} domain`, yref: `y${suffix} domain`, x: 0, y: 1, xanchor: "left", yanchor: "bottom", font: { size: 12.5 } });
      });
      return made;
    }
    return draw;
  }
  function fraction(text) {
    const [over, under] = text.split("/");
    return under ? +over / +under : +over;
  }

  // posterior agreement

  function agreement(section, data, parts) {
    const state = { over: "ratio", show: "agreement", scenario: null, attack: null, chosen: [] };
    const shown = {
      agreement: [["agreement", "PA", "", "solid"], ["afr_t", "AFR_T", "2", "solid"], ["afr_p", "AFR_P", "2", "dot"]],
      confidence: [["beta", "β", "", "solid"], ["after", "confidence when broken", "2", "solid"], ["before", "confidence before", "2", "dot"]],
    };
    const unique = (values) => [...new Set(values.filter((value) => value !== undefined))];
    const models = unique(data.curves.map((curve) => curve.model));
    state.chosen = models.slice(0, MOST).map((_, i) => i);
    const scenarios = unique(data.curves.map((curve) => curve.scenario));
    const attackNames = unique(data.curves.map((curve) => curve.attack)).filter((name) => unique(data.curves.filter((c) => c.attack === name).map((c) => c.radius)).length > 1);
    [state.scenario, state.attack] = [scenarios[0], attackNames[0]];
    const which = element("div", {});
    function offer() {
      const [text, names, key] = state.over === "ratio" ? ["Change", scenarios, "scenario"] : ["Attack", attackNames, "attack"];
      which.replaceChildren(choice(text, names.map((name) => [name, name]), state[key], (value) => { state[key] = value; draw(); }));
    }
    const views = [["ratio", "share of the set changed"], ...(attackNames.length ? [["radius", "radius of the attack"]] : [])];
    const measures = [["agreement", "agreement and failure rates"], ["confidence", "β and confidence"]];
    parts.controls.append(radios("Show", measures, "agreement", (value) => { state.show = value; draw(); }), radios("Over", views, "ratio", (value) => { state.over = value; offer(); draw(); }), which, chooser(models, state.chosen, MOST, () => draw()));
    offer();

    function draw() {
      const colours = theme(section), traces = [];
      const mine = data.curves.filter((curve) => state.over === "ratio" ? curve.scenario === state.scenario : curve.attack === state.attack);
      state.chosen.forEach((m, position) => {
        const own = mine.filter((curve) => curve.model === models[m]).sort((one, other) => (one.radius ?? 0) - (other.radius ?? 0));
        if (!own.length) return;
        const x = state.over === "ratio" ? own[0].ratios : own.map((curve) => curve.radius);
        const along = (name) => state.over === "ratio" ? own[0][name] : own.map((curve) => curve[name].at(-1));
        for (const [name, title, panel, dash] of shown[state.show]) {
          const scores = along(name);
          const text = (s) => panel ? `${percent(s[0])}${bounds(s.slice(1))}` : `${isNumber(s[0]) ? written(s[0], 3) : "∞"}${name === "agreement" ? " nats" : ""}${isNumber(s[1]) ? ` [${written(s[1], 3)}, ${written(s[2], 3)}]` : ""}`;
          traces.push({ type: "scatter", mode: "lines+markers", name: safe(dash === "dot" ? `${models[m]}, ${title}` : models[m], 48), legendgroup: models[m], showlegend: panel === "2", x, y: scores.map((s) => s[0]), xaxis: `x${panel}`, yaxis: `y${panel}`,
            line: { color: colours.colours[position], dash }, marker: { size: 6, color: colours.colours[position] }, hoverinfo: "text", text: scores.map((s, k) => `${safe(models[m])}<br>${state.over} ${+x[k].toPrecision(4)}: ${title} ${text(s)}`),
            error_y: { type: "data", symmetric: false, thickness: 1, width: 2, color: colours.colours[position], array: scores.map((s) => isNumber(s[2]) ? s[2] - s[0] : 0), arrayminus: scores.map((s) => isNumber(s[1]) ? s[0] - s[1] : 0) } });
        }
      });
      if (!traces.length) traces.push({ type: "scatter", x: [], y: [] });
      const narrow = parts.area.clientWidth < 640;
      const x = (more) => plain(colours, { title: { text: state.over === "ratio" ? mine[0]?.over ?? "ratio" : `radius of ${safe(state.attack)}` }, ...more });
      Plotly.react(parts.area, traces, layout(colours, {
        height: narrow ? 720 : 440, uirevision: `${state.over} ${state.show} ${state.scenario}`, legend: { orientation: "h", y: narrow ? -0.12 : -0.2, yanchor: "top" },
        xaxis: x({ domain: narrow ? [0, 1] : [0, 0.44], anchor: "y" }), yaxis: plain(colours, { title: { text: state.show === "agreement" ? "PA, nats" : "β" }, domain: narrow ? [0.58, 1] : [0, 1], rangemode: "tozero" }),
        xaxis2: x({ domain: narrow ? [0, 1] : [0.56, 1], anchor: "y2" }), yaxis2: plain(colours, { title: { text: state.show === "agreement" ? "AFR" : "confidence" }, domain: narrow ? [0, 0.42] : [0, 1], anchor: "x2", tickformat: ".0%", range: [0, 1.02] }),
      }), CONFIG);
      const n = unique(mine.map((curve) => curve.n)), most = mine[0]?.most;
      parts.note.textContent = `${n.length === 1 ? `${n[0].toLocaleString("en")} samples each. ` : ""}${isNumber(most) ? `PA is at most ${written(most, 3)}. ` : ""}`;
    }
    return draw;
  }

  // mounting

  const KINDS = { scatter, plane: planes, attacks, single, degradation, agreement };
  const redraws = new Map();

  function mount(section) {
    const area = section.querySelector(".plot-area"), make = KINDS[section.dataset.plot];
    if (!make || section.dataset.mounted) return;
    section.dataset.mounted = "yes";
    if (!globalThis.Plotly) { area.textContent = "This plot needs plotly.min.js, which did not load."; return; }
    const parts = { area, controls: element("div", { className: "plot-controls" }), note: element("p", { className: "plot-note", role: "status" }), reading: element("div", { className: "plot-reading", "aria-live": "polite" }) };
    area.before(parts.controls);
    area.after(parts.note, parts.reading);
    const draw = make(section, dataOf(section), parts);
    const start = () => { redraws.set(section, draw); draw(); section.dataset.drawn = "yes"; };
    if (!globalThis.IntersectionObserver) { start(); return; }
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) { seen.disconnect(); start(); }
    }, { rootMargin: "600px" });
    seen.observe(section);
  }

  const redraw = () => { for (const draw of redraws.values()) draw(); };
  function start() {
    for (const section of document.querySelectorAll("section.plot[data-plot]")) mount(section);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    new MutationObserver(redraw).observe(document.documentElement, { attributes: true, attributeFilter: ["class", "data-theme", "style"] });
  }
  globalThis.holdfastPlots = { mount, maths: { SPACES, wilson, line, plane, band, competitiveness, stability, difference, batteryOf, scoresOf, lineOf, planeOf, cautions, ticks } };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
