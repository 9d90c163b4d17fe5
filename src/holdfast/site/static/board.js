"use strict";
// The table of a board, its filters, and the panel that says where a number comes from. All text enters as text.
(() => {
  const data = JSON.parse(document.getElementById("board-data").textContent);
  const ranking = data.columns.findIndex((column) => column.name === data.sort);
  const isNarrow = matchMedia("(max-width: 760px)").matches;

  const node = (tag, about = {}, ...inner) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(about)) {
      if (name === "class") made.className = value;
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...inner.filter((one) => one !== null && one !== undefined && one !== ""));
    return made;
  };
  const count = (number) => number.toLocaleString("en-US");

  // rows as the table sorts them: one field per column, the record beside
  const rows = data.rows.map((row) => {
    const flat = { id: row.id, rank: row.rank, model: row.model, origin: row.origin, missing: row.missing, row };
    flat.flags = row.flags.reduce((sum, flag) => sum + flag.runs, 0);
    row.cells.forEach((cell, i) => { flat[`c${i}`] = cell.value ?? null; });
    flat.n = row.cells[ranking].n ?? null;
    data.facts.forEach((name, i) => { flat[`f${i}`] = row.facts[name] ?? ""; });
    flat.all = [row.model, ...row.also, row.origin, ...Object.values(row.facts)].join("\n").toLowerCase();
    return flat;
  });

  // where the bar under a number ends; 0 for no bar
  const scale = (column, i) => {
    if (column.unit === "percent" || column.unit === "fraction") return 1;
    const values = rows.map((row) => row[`c${i}`]).filter((value) => value !== null);
    return column.unit === "number" && values.length && Math.min(...values) >= 0 ? Math.max(...values) : 0;
  };
  const scales = data.columns.map(scale);

  const titled = (title, about) => () => node("button", { type: "button", title: about }, title);
  const words = (cell) => node("span", { class: "clamp", title: cell.getValue() }, cell.getValue());
  const empty = { alignEmptyValues: "bottom" };

  const modelCell = (cell) => {
    const { row } = cell.getData();
    const name = row.page ? node("a", { href: row.page }, row.model) : row.model;
    return node("span", { class: "clamp", title: [row.model, ...row.also].join(", also ") }, name);
  };

  const scoreCell = (i) => (cell) => {
    const flat = cell.getData();
    const one = flat.row.cells[i];
    const has = one.value !== undefined;
    const button = node("button", { type: "button", class: has ? "value" : "value lack", "aria-haspopup": "dialog" },
      has ? node("strong", {}, one.text) : one.text,
      one.bounds ? node("span", { class: "soft" }, ` ${one.bounds}`) : null,
      one.differs ? node("span", { class: "badge warning", title: "sources disagree" }, one.differs) : null,
      one.part ? node("span", { class: "badge subset", title: "measured on a part of the samples" }, "part") : null,
      one.flagged ? node("span", { class: "badge warning", title: "a run behind it carries a flag" }, "flag") : null);
    if (one.n) button.title = `${count(one.n)} samples`;
    if (has && scales[i]) {
      const share = (value) => `${Math.max(0, Math.min(100, (100 * value) / scales[i]))}%`;
      const fill = node("i");
      fill.style.width = share(one.value);
      const meter = node("span", { class: "meter", "aria-hidden": "true" }, fill);
      if (one.low !== undefined) {
        const whisker = node("b");
        whisker.style.left = share(one.low);
        whisker.style.right = `calc(100% - ${share(one.high)})`;
        meter.append(whisker);
      }
      button.append(meter);
    }
    button.addEventListener("click", () => open(flat.row, i));
    return button;
  };

  const caveatsOfRanks = data.columns.find((column) => column.name === data.sort)?.caveats ?? [];
  const scoreColumn = (column, i) => ({
    title: "", field: `c${i}`, width: isNarrow ? 138 : 158, sorter: "number", sorterParams: empty,
    cssClass: column.name === data.sort ? "ranks" : "", headerSortStartingDir: column.better === "lower" ? "asc" : "desc",
    titleFormatter: titled(column.title + (column.caveats.length ? " *" : "") + ({ percent: ", %", points: ", points", nats: ", nats" }[column.unit] ?? ""), column.about),
    formatter: scoreCell(i),
  });

  const flagCell = (cell) => {
    const { row } = cell.getData();
    const all = node("span", { class: "clamp" });
    for (const flag of row.flags) all.append(node("span", { class: `badge ${flag.level === "error" ? "error" : "warning"}`, title: flag.about }, flag.name), " ");
    return all;
  };

  // what the board is ranked by comes first: it should not need a scroll
  const order = [ranking, ...[...data.columns.keys()].filter((i) => i !== ranking)];
  const has = (test) => rows.some(test);
  const columns = [
    { title: "", field: "rank", frozen: true, width: isNarrow ? 46 : 58, sorter: "number", sorterParams: empty, hozAlign: "right",
      titleFormatter: titled(caveatsOfRanks.length ? "# *" : "#", ["place by the score that ranks the board", ...caveatsOfRanks].join("; ")), formatter: (cell) => node("span", { class: "num-cell" }, cell.getValue() === null ? "–" : String(cell.getValue())) },
    { title: "", field: "model", frozen: true, width: isNarrow ? 142 : 250, sorter: "string", titleFormatter: titled("Model", "sort by name"), formatter: modelCell },
    ...order.map((i) => scoreColumn(data.columns[i], i)),
    { title: "", field: "n", width: 96, sorter: "number", sorterParams: empty, headerSortStartingDir: "desc", visible: has((row) => row.n !== null),
      titleFormatter: titled("Samples", "samples behind the score that ranks the board; a mean has the smallest of its parts"),
      formatter: (cell) => node("span", { class: "num-cell" }, cell.getValue() === null ? "" : count(cell.getValue())) },
    { title: "", field: "origin", width: 108, sorter: "string", titleFormatter: titled("From", "published, imported or measured here"), formatter: words },
    { title: "", field: "flags", width: 150, sorter: "number", headerSortStartingDir: "desc", visible: has((row) => row.flags > 0), titleFormatter: titled("Flags", "reasons to read with care"), formatter: flagCell },
    { title: "", field: "missing", width: 190, sorter: "string", sorterParams: empty, visible: has((row) => row.missing), titleFormatter: titled("Missing", "what an incomplete entry lacks"), formatter: words },
    ...data.facts.map((name, i) => ({ title: "", field: `f${i}`, width: 150, sorter: "string", sorterParams: empty, titleFormatter: titled(name.replaceAll("_", " "), `sort by ${name}`), formatter: words })),
  ];

  const holder = document.getElementById("board");
  const table = new Tabulator(holder, {
    data: rows, columns, index: "id", layout: "fitDataFill", maxHeight: isNarrow ? "70vh" : "78vh", rowHeight: 54, renderVerticalBuffer: 200,
    columnDefaults: { resizable: false }, placeholder: rows.length ? "No entry fits." : "No entry yet.",
    rowFormatter: (row) => row.getElement().classList.toggle("open", row.getData().row.open),
  });

  // filters
  const find = document.getElementById("find");
  const complete = document.getElementById("complete");
  const counter = document.getElementById("count");
  const chosen = new Map();
  const choice = (title, field, value) => {
    const values = [...new Set(rows.flatMap(value).filter(Boolean))].sort();
    if (values.length < 2 || values.length > 40) return;
    const select = node("select", { "data-field": field }, node("option", { value: "" }, "all"), ...values.map((one) => node("option", { value: one }, one)));
    select.addEventListener("change", () => { chosen.set(field, [value, select.value]); filter(); });
    document.getElementById("facts").append(node("label", {}, title, select));
  };
  choice("From", "origin", (row) => row.row.origins);
  data.facts.forEach((name, i) => {
    if (["architecture", "type", "trained_on", "threat", "extra_data", "training"].includes(name)) choice(name.replaceAll("_", " "), name, (row) => row[`f${i}`]);
  });
  // places by any score: as the board has them, or counted again here
  const official = new Map(rows.map((flat) => [flat.id, flat.rank]));
  const byName = (one, other) => one.model < other.model ? -1 : one.model > other.model ? 1 : 0;
  const rankBy = async (i) => {
    const column = data.columns[i], sign = column.better === "lower" ? 1 : -1;
    const scored = rows.filter((flat) => flat[`c${i}`] !== null).sort(byName).sort((one, other) => sign * (one[`c${i}`] - other[`c${i}`]));
    for (const flat of rows) flat.rank = i === ranking ? official.get(flat.id) : null;
    if (i !== ranking) scored.forEach((flat, index) => { flat.rank = index + 1; });
    await table.replaceData(rows);
    table.setSort("rank", "asc");
    holder.dataset.ranked = column.name;
  };
  const byScore = node("select", { id: "rank-by" });
  const rankable = () => {
    byScore.replaceChildren(...data.columns.map((column, i) => [column, i]).filter(([column]) => column.better).map(([column, i]) => node("option", { value: i, selected: String(i) === byScore.dataset.chosen }, column.title)));
  };
  byScore.dataset.chosen = String(ranking);
  rankable();
  byScore.addEventListener("change", () => { byScore.dataset.chosen = byScore.value; return rankBy(Number(byScore.value)); });
  if (byScore.options.length > 1 || data.details.length) document.getElementById("facts").append(node("label", {}, "Rank by", byScore));
  if (data.details.length) {
    const more = node("select", { id: "more" }, node("option", { value: "" }, "choose …"), ...data.details.map((column) => node("option", { value: column.name, title: column.about }, column.title)));
    more.addEventListener("change", async () => {
      const column = data.details.find((one) => one.name === more.value);
      if (!column || data.columns.includes(column)) return;
      const cells = (await load(data.more))[column.name];
      const i = data.columns.push(column) - 1;
      for (const flat of rows) {
        flat.row.cells[i] = cells[flat.id] ?? { text: "—" };
        flat[`c${i}`] = flat.row.cells[i].value ?? null;
      }
      scales[i] = scale(column, i);
      rankable();
      await table.addColumn(scoreColumn(column, i), false, `c${order[0]}`);
      more.value = "";
    });
    document.getElementById("facts").append(node("label", {}, "Add a column", more));
  }
  const tally = (shown) => { counter.textContent = shown === rows.length ? `${count(rows.length)} entries` : `${count(shown)} of ${count(rows.length)} entries`; };
  const filter = () => {
    const texts = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const facts = [...chosen.values()].filter(([, asked]) => asked);
    table.setFilter((row) => texts.every((text) => row.all.includes(text))
      && facts.every(([value, asked]) => [value(row)].flat().includes(asked)) && (!complete.checked || row.row.complete));
  };
  let waiting;
  find.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  complete.addEventListener("change", filter);
  table.on("dataFiltered", (_, shown) => tally(shown.length));
  table.on("tableBuilt", () => {
    tally(rows.length);
    holder.dataset.ready = "yes";
    setTimeout(after);
  });

  // the plots take longer to load than the table to appear, so they come after it
  const after = () => {
    for (const address of (holder.dataset.after ?? "").split(" ").filter(Boolean)) {
      const script = node("script", { src: address });
      script.async = false;
      document.body.append(script);
    }
  };

  // where a number comes from
  const dialog = document.getElementById("provenance");
  const body = document.getElementById("provenance-body");
  const loads = new Map();
  const load = (path) => {
    if (!loads.has(path)) {
      loads.set(path, new Promise((resolve, reject) => {
        const script = node("script", { src: `data/${path.split("/").map(encodeURIComponent).join("/")}.js` });
        script.addEventListener("load", () => resolve(globalThis.holdfast[path]));
        script.addEventListener("error", () => reject(new Error(`data/${path}.js is not beside this page`)));
        document.head.append(script);
      }));
    }
    return loads.get(path);
  };
  const pairs = (all) => node("dl", { class: "facts" }, ...all.filter(([, value]) => value).flatMap(([name, value]) => [node("dt", {}, name), node("dd", {}, /^https:\/\/\S+$/.test(value) ? node("a", { href: value, rel: "noreferrer" }, value) : value)]));
  const source = (cell) => {
    if (cell.source === undefined) return null;
    const [text, link] = data.sources[cell.source];
    return node("p", {}, link ? node("a", { href: link, rel: "noopener noreferrer" }, text) : text);
  };
  const badge = (flag) => node("span", { class: `badge ${["error", "warning"].includes(flag.level) ? flag.level : "note"}` }, flag.name);

  const runOf = (run) => node("details", {},
    node("summary", {}, node("strong", {}, run.text), node("span", { class: "soft" }, ` ${run.bounds} `), node("code", {}, run.scenario), " ", ...run.flags.filter((flag) => flag.level !== "note").map(badge)),
    pairs([
      ["Run", run.key],
      ["Samples", run.n < run.population ? `${count(run.n)} of ${count(run.population)}` : count(run.n)],
      ["Failed", run.failed ? count(run.failed) : ""],
      ["Seed", String(run.seed)], ["Finished", run.finished], ["Device", run.device],
      ["Versions", Object.entries(run.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
      ["Weights", run.weights], ["Digest", run.digest], ...Object.entries(run.facts),
    ]),
    ...run.flags.map((flag) => node("p", {}, badge(flag), ` ${flag.about}`)),
    run.command ? node("pre", {}, node("code", {}, run.command)) : null);

  const measured = (origin, column) => {
    const runs = origin.columns[column.name].map((i) => origin.runs[i]);
    const missing = origin.missing[column.name];
    const parts = [node("h3", {}, `${count(runs.length)} ${runs.length === 1 ? "run" : "runs"}`), ...runs.map(runOf)];
    if (missing.length) {
      parts.push(node("h3", {}, `${count(missing.length)} not measured yet`), node("details", {}, node("summary", {}, "which"), node("ul", {}, ...missing.map((text) => node("li", {}, node("code", {}, text))))));
    }
    parts.push(node("p", {}, "The whole row again; what is there already is not measured twice:"), node("pre", {}, node("code", {}, origin.again)));
    return parts;
  };

  const imported = (origin, row, column) => {
    const name = [row.model, ...row.also].find((one) => one in origin.values);
    const values = origin.values[name] || [];
    const lines = origin.columns[column.name].filter((i) => values[i] !== null && values[i] !== undefined);
    const unit = (i) => ({ percent: " %", points: " points" })[origin.units[i]] ?? "";
    return [
      pairs([["File", origin.file], ["Format", origin.format], ["SHA-256", origin.sha256], ["Read", origin.date], ["There as", name === row.model ? "" : name]]),
      node("h3", {}, `${count(lines.length)} ${lines.length === 1 ? "number" : "numbers"} in it`),
      node("table", {}, node("tbody", {}, ...lines.map((i) => node("tr", {}, node("td", {}, origin.settings[i]), node("td", {}, `${values[i]}${unit(i)}`))))),
    ];
  };

  // what a cell rests on besides its source: runs of this store, or the files that were imported
  const restsOn = (row, cell) => {
    const { runs, imported: files } = row.places;
    if (cell.from === "published") return [];
    if (runs && !(cell.from === "imported" && files)) return [[runs, measured]];
    return (files ?? []).map((path) => [path, imported]);
  };
  const headings = { published: "Printed in", imported: "Imported from" };
  const others = (cell) => !cell.others ? [] : [
    node("h3", {}, cell.differs ? "Other sources disagree" : "Other sources"),
    ...cell.others.map((other) => node("div", {}, node("p", {}, node("strong", {}, other.text), ` ${other.from}${other.agrees ? "" : ", not the same"}`), source(other))),
  ];

  const open = async (row, i) => {
    const column = data.columns[i];
    const cell = row.cells[i];
    const from = cell.from ?? row.origins[0];
    document.getElementById("provenance-h").textContent = `${row.model}: ${column.title}`;
    const facts = Object.entries(row.facts).map(([name, value]) => [name.replaceAll("_", " "), value]);
    const heading = cell.value === undefined && from === "published" ? "Not printed" : headings[from];
    body.replaceChildren(
      node("p", {}, node("span", { class: "figure" }, cell.text), node("span", { class: "soft" }, ` ${cell.bounds ?? ""} ${cell.n ? `n ${count(cell.n)}` : ""}`)),
      node("p", { class: "soft" }, column.about),
      ...[heading ? node("h3", {}, heading) : null, from === "measured" ? null : source(cell), cell.note ? node("p", {}, cell.note) : null,
        from !== "measured" && cell.source === undefined && !cell.note ? node("p", { class: "soft" }, "No source has this number.") : null].filter(Boolean));
    const rest = node("div");
    body.append(rest, ...others(cell), ...(facts.length ? [node("h3", {}, "What is known of the model"), pairs(facts)] : []));
    dialog.showModal();
    body.scrollTop = 0;
    const files = restsOn(row, cell);
    if (!files.length) return;
    rest.append(node("p", { class: "soft" }, "Loading …"));
    try {
      const parts = await Promise.all(files.map(async ([path, tell]) => tell === measured ? measured(await load(path), column) : imported(await load(path), row, column)));
      rest.replaceChildren(...parts.flat());
    } catch (error) {
      rest.replaceChildren(node("p", { class: "problems", role: "alert" }, error.message));
    }
  };
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
