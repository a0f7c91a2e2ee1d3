// The page. Everything it shows of the data is put in as text (textContent), never as HTML; the server forbids other scripts.
"use strict";

const $ = (id) => document.getElementById(id);
const NUMBER = new Intl.NumberFormat("en");
const SVG = "http://www.w3.org/2000/svg";
const FILTERS = ["class", "text", "field", "min", "max", "bad"];
const TALLEST = 8e6; // browsers draw nothing taller than some tens of millions of pixels
const DEFAULT_OPS = "T.RandomResizedCrop(224)\nT.RandomHorizontalFlip()".split("\n").join(",\n");

let site = { sets: [], live: false };
let state = {};
let total = 0;

// ---- small helpers

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function drawing(tag, attributes = {}, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function query(words) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(words)) if (value !== "" && value !== null && value !== undefined && value !== false) found.set(name, value === true ? 1 : value);
  return found.toString();
}

async function ask(path, words = {}) {
  const answer = await fetch(`${path}?${query(words)}`);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function later(wait, work) {
  let timer = 0;
  return (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), wait); };
}

const set = () => site.sets[state.set] || null;
const filters = () => Object.fromEntries(FILTERS.map((name) => [name, state[name]]));
const bytes = (count) => count > 2 ** 30 ? `${(count / 2 ** 30).toFixed(1)} GiB` : count > 2 ** 20 ? `${(count / 2 ** 20).toFixed(1)} MiB` : count > 1024 ? `${(count / 1024).toFixed(1)} KiB` : `${count} B`;
const percent = (share) => `${(100 * share).toFixed(0)} %`;

// ---- the address: every state is in it

function readAddress() {
  const words = new URLSearchParams(location.search);
  const number = (name, usual) => { const value = Number(words.get(name)); return words.has(name) && Number.isFinite(value) ? value : usual; };
  state = {
    page: words.get("page") || (site.sets.length ? "grid" : "live"), set: Math.min(number("set", 0), Math.max(site.sets.length - 1, 0)), at: number("at", 0),
    index: words.has("index") ? number("index", 0) : null, zoom: number("zoom", 160), seed: number("seed", 0), draws: number("draws", 8),
    play: number("play", 0), ops: words.has("ops") ? words.get("ops") : DEFAULT_OPS, ops2: words.get("ops2") || "", over: words.get("over") || "", differ: words.get("differ") || "",
  };
  for (const name of FILTERS) state[name] = words.get(name) || "";
}

function writeAddress(push = false) {
  const usual = { page: site.sets.length ? "grid" : "live", set: 0, at: 0, zoom: 160, seed: 0, draws: 8, play: 0, ops: DEFAULT_OPS };
  const words = {};
  for (const [name, value] of Object.entries(state)) if (value !== usual[name] && value !== "" && value !== null) words[name] = value;
  const text = query(words);
  const address = text ? `?${text}` : location.pathname;
  if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
}
const noteAddress = later(150, () => writeAddress());

function go(page) {
  state.page = page;
  writeAddress(true);
  show();
}

// ---- pages

const PAGES = { grid: "Samples", charts: "Charts", play: "Augment", compare: "Compare", live: "Live" };

function available() {
  return Object.keys(PAGES).filter((page) => page === "live" ? site.live : page === "compare" ? site.sets.length > 1 : site.sets.length > 0);
}

function show() {
  const pages = available();
  if (!pages.includes(state.page)) state.page = pages[0] || "live";
  $("tabs").replaceChildren(...pages.map((page) => element("a", {
    href: `?page=${page}`, text: PAGES[page], "aria-current": page === state.page ? "page" : null,
    onclick: (event) => { event.preventDefault(); go(page); },
  })));
  for (const page of Object.keys(PAGES)) $(`page-${page}`).hidden = page !== state.page;
  const dataset = set();
  document.title = `${dataset ? dataset.uri : "feedline"} – ${PAGES[state.page]}`;
  $("about").textContent = dataset ? `${dataset.uri} · ${dataset.format} · ${NUMBER.format(dataset.samples)} samples` : "";
  $("about").title = dataset ? dataset.uri : "";
  ({ grid: showGrid, charts: showCharts, play: showPlay, compare: showCompare, live: showLive })[state.page]();
  if (state.index !== null && dataset) openSheet(state.index, false);
}

// ---- the grid: only what is in sight is there

const grid = { columns: 1, cell: 180, first: -1, rows: new Map(), here: 0 };

function showGrid() {
  fillFilters();
  count(true);
}

function fillFilters() {
  const dataset = set();
  const classes = (dataset.classes || []).map((name, number) => element("option", { value: number, text: name }));
  $("class").replaceChildren(element("option", { value: "", text: "all" }), ...classes);
  if (state.class && !dataset.classes) $("class").append(element("option", { value: state.class, text: state.class }));
  const fields = dataset.fields.filter((field) => ["text", "json", "int", "float"].includes(field.kind));
  $("field").replaceChildren(element("option", { value: "", text: "any field" }), ...fields.map((field) => element("option", { value: field.name, text: field.name })));
  for (const name of FILTERS) if (name === "bad") $("bad").checked = Boolean(state.bad); else $(name).value = state[name];
  $("zoom").value = state.zoom;
}

async function count(fresh) {
  const asked = JSON.stringify([state.set, filters()]);
  let found;
  try { found = await ask("/api/count", { set: state.set, ...filters() }); } catch (error) { $("count").textContent = error.message; return; }
  if (asked !== JSON.stringify([state.set, filters()])) return;
  total = found.total;
  const progress = found.done ? "" : ` (examined ${NUMBER.format(found.examined)} of ${NUMBER.format(found.of)})`;
  const text = `${NUMBER.format(total)} samples${progress}`;
  if ($("count").textContent !== text) $("count").textContent = text;
  if (fresh) { grid.rows.clear(); grid.here = Math.min(state.at, Math.max(total - 1, 0)); }
  layOut();
  if (fresh) scrollTo(grid.here);
  if (!found.done && state.page === "grid") setTimeout(() => count(false), 400);
}

const rowsInAll = () => Math.ceil(total / grid.columns);
const tall = () => Math.min(rowsInAll() * grid.cell, TALLEST);

function layOut() {
  const scroll = $("scroll");
  grid.columns = Math.max(1, Math.floor((scroll.clientWidth + 8) / (state.zoom + 8)));
  grid.cell = state.zoom + 28 + 8;
  $("tall").style.height = `${tall()}px`;
  $("cells").style.gridTemplateColumns = `repeat(${grid.columns}, minmax(0, 1fr))`;
  $("cells").style.gridAutoRows = `${state.zoom + 28}px`;
  scroll.setAttribute("aria-rowcount", rowsInAll());
  grid.first = -1;
  draw();
}

function firstRow() {
  const scroll = $("scroll");
  const real = rowsInAll() * grid.cell;
  if (real <= TALLEST) return Math.floor(scroll.scrollTop / grid.cell);
  const share = scroll.scrollTop / Math.max(1, tall() - scroll.clientHeight);
  return Math.round(share * Math.max(0, rowsInAll() - Math.floor(scroll.clientHeight / grid.cell)));
}

function scrollTo(position) {
  const scroll = $("scroll");
  const row = Math.floor(position / grid.columns);
  const real = rowsInAll() * grid.cell;
  const last = Math.max(1, rowsInAll() - Math.floor(scroll.clientHeight / grid.cell));
  scroll.scrollTop = real <= TALLEST ? row * grid.cell : row / last * (tall() - scroll.clientHeight);
  draw();
}

function draw() {
  if (state.page !== "grid" || !total) { $("cells").replaceChildren(); return; }
  const scroll = $("scroll");
  const first = Math.max(0, firstRow());
  const shown = Math.ceil(scroll.clientHeight / grid.cell) + 1;
  const from = first * grid.columns, end = Math.min(total, (first + shown) * grid.columns);
  const key = `${from} ${end} ${state.zoom} ${grid.here}`;
  if (key === grid.first) return;
  grid.first = key;
  const top = rowsInAll() * grid.cell <= TALLEST ? first * grid.cell : Math.min(scroll.scrollTop, tall() - shown * grid.cell);
  $("cells").style.top = `${Math.max(0, top)}px`;
  const cells = [];
  for (let position = from; position < end; position++) cells.push(cell(position));
  $("cells").replaceChildren(...cells);
  load(from, end);
  state.at = from;
  noteAddress();
}

function cell(position) {
  const row = grid.rows.get(position);
  const here = position === grid.here;
  const made = element("div", { class: `cell${here ? " here" : ""}`, role: "gridcell", id: here ? "here" : null, "data-position": position, onclick: () => { grid.here = position; if (row) openSheet(row.index); } });
  if (here) $("scroll").setAttribute("aria-activedescendant", "here");
  if (!row) return made;
  const name = row.class !== null ? row.class : row.label !== null ? row.label : "";
  made.setAttribute("aria-label", `sample ${row.index} ${name}`);
  const picture = element("div", { class: "picture" });
  made.append(picture, element("div", { class: "caption", text: `${row.index} ${name}` }));
  if (set().image === null) { picture.append(element("span", { text: `ds[${row.index}]` })); return made; }
  const image = element("img", { alt: "", src: `/thumb?${query({ set: state.set, index: row.index, side: thumbnailSide() })}`, decoding: "async" });
  image.addEventListener("error", () => broken(made, picture, row.index));
  picture.append(image);
  return made;
}

// Few sizes, so that the browser's cache helps when the slider moves.
const thumbnailSide = () => [96, 192, 384, 640].find((side) => side >= state.zoom * Math.min(2, window.devicePixelRatio)) || 640;

async function broken(made, picture, index) {
  made.classList.add("broken");
  picture.replaceChildren(element("span", { class: "why", text: "broken" }));
  try {
    const found = await ask("/api/sample", { set: state.set, index });
    const why = found.error || found.broken || "cannot be shown";
    picture.replaceChildren(element("span", { class: "why", text: `broken: ${why}`, title: why }));
    made.setAttribute("aria-label", `sample ${index}, broken: ${why}`);
  } catch { /* the mark stays */ }
}

const load = later(30, async (from, end) => {
  let missing = false;
  for (let position = from; position < end; position++) missing ||= !grid.rows.has(position);
  if (!missing) return;
  const asked = JSON.stringify([state.set, filters()]);
  const found = await ask("/api/rows", { set: state.set, from, count: end - from, ...filters() });
  if (asked !== JSON.stringify([state.set, filters()])) return;
  if (grid.rows.size > 5000) grid.rows.clear();
  found.rows.forEach((row, number) => grid.rows.set(from + number, row));
  grid.first = -1;
  draw();
});

async function jump(text) {
  const words = text.trim();
  const share = /^([\d.]+)\s*%$/.exec(words);
  let position;
  if (share) position = Math.round(Number(share[1]) / 100 * (total - 1));
  else if (/^\d+$/.test(words)) position = (await ask("/api/jump", { set: state.set, to: words, ...filters() })).position;
  else {
    const names = set().classes || [];
    const wanted = words.toLowerCase();
    let number = names.findIndex((name) => name.toLowerCase() === wanted);
    if (number < 0) number = names.findIndex((name) => name.toLowerCase().startsWith(wanted));
    if (number < 0) { $("count").textContent = `no class called ${words}`; return; }
    position = (await ask("/api/jump", { set: state.set, first: number, ...filters() })).position;
  }
  grid.here = Math.max(0, Math.min(position, total - 1));
  scrollTo(grid.here);
  grid.first = -1;
  draw();
  $("scroll").focus();
}

function move(by) {
  grid.here = Math.max(0, Math.min(total - 1, grid.here + by));
  const row = Math.floor(grid.here / grid.columns), first = firstRow();
  const inSight = Math.max(1, Math.floor($("scroll").clientHeight / grid.cell));
  if (row < first || row >= first + inSight) scrollTo(Math.max(0, row < first ? row : row - inSight + 1) * grid.columns);
  grid.first = -1;
  draw();
}

// ---- one sample

let opened = null;

async function openSheet(index, push = true) {
  if (!$("sheet").open) $("sheet").showModal();
  if (opened !== null && opened.index === index && opened.set === state.set) return;
  state.index = index;
  writeAddress(push);
  const found = await ask("/api/sample", { set: state.set, index });
  opened = { ...found, set: state.set };
  $("sheet-title").textContent = `Sample ${NUMBER.format(index)}${found.class !== null && found.class !== undefined ? ` · ${found.class}` : ""}`;
  stage(found);
  facts(found);
}

// Opens the chosen cell; its row may be on the way still.
async function openHere() {
  const at = grid.here;
  for (let tries = 0; tries < 200 && !grid.rows.has(at); tries += 1) await new Promise((done) => setTimeout(done, 50));
  if (grid.rows.has(at) && grid.here === at) openSheet(grid.rows.get(at).index);
}

function closeSheet() {
  $("sheet").close();
}

function stage(found) {
  const dataset = set();
  const why = found.error || found.broken;
  if (why) { $("stage").replaceChildren(element("p", { class: "error", role: "alert", text: `broken: ${why}` })); return; }
  if (dataset.image === null) { $("stage").replaceChildren(element("p", { text: "no image" })); return; }
  const image = element("img", { src: `/thumb?${query({ set: state.set, index: found.index, side: 1024 })}`, alt: `sample ${found.index}` });
  const frame = element("div", { class: "frame" }, image);
  const toggles = element("div", { class: "toggles" });
  const off = new Set(state.over.split(",").filter(Boolean));
  const toggle = (name, what) => {
    const box = element("input", { type: "checkbox" });
    box.checked = !off.has(name);
    what.hidden = off.has(name);
    what.style.display = off.has(name) ? "none" : "";
    box.addEventListener("change", () => {
      if (box.checked) off.delete(name); else off.add(name);
      what.style.display = box.checked ? "" : "none";
      state.over = [...off].join(",");
      writeAddress();
    });
    toggles.append(element("label", {}, box, ` ${name}`));
  };
  for (const field of found.fields.filter((one) => one.kind === "image" && one.mask && !one.missing)) {
    const over = element("img", { class: "over", alt: `mask ${field.name}`, src: `/mask?${query({ set: state.set, index: found.index, field: field.field, side: 1024 })}` });
    frame.append(over);
    toggle(field.name, over);
  }
  const main = found.fields[dataset.image];
  for (const drawn of main.size ? annotations(found) : []) {
    const layer = drawing("svg", { viewBox: `0 0 ${main.size[1]} ${main.size[0]}`, preserveAspectRatio: "none", role: "img", "aria-label": `${drawn.items.length} ${drawn.kind}: ${drawn.name}`, "data-kind": drawn.kind });
    for (const item of drawn.items) layer.append(mark(drawn, item, main.size));
    frame.append(layer);
    toggle(drawn.name, layer);
  }
  const players = found.fields.filter((one) => one.player).map((one) => element(one.player, { controls: "", preload: "none", "aria-label": one.name, src: `/recording?${query({ set: state.set, index: found.index, field: one.field })}` }));
  $("stage").replaceChildren(frame, toggles, ...players);
}

// Boxes are rows of four numbers, keypoints rows of two or three; in arrays or in JSON.
function annotations(found) {
  const drawn = [];
  const add = (name, rows) => {
    if (!Array.isArray(rows) || !rows.length || !rows.every((row) => Array.isArray(row) && row.every(Number.isFinite))) return;
    if (/box/i.test(name) && rows.every((row) => row.length === 4)) drawn.push({ name, kind: "boxes", items: rows, style: /xywh/i.test(name) ? "xywh" : "xyxy" });
    else if (/point|landmark|joint/i.test(name) && rows.every((row) => row.length === 2 || row.length === 3)) drawn.push({ name, kind: "keypoints", items: rows });
  };
  const walk = (name, value) => {
    if (Array.isArray(value)) {
      add(name, value);
      const inside = value.filter((one) => one && Array.isArray(one.bbox)).map((one) => one.bbox);
      if (inside.length) drawn.push({ name: `${name}.bbox`, kind: "boxes", items: inside.filter((row) => row.length === 4), style: "xywh" });
    } else if (value && typeof value === "object") for (const [inner, one] of Object.entries(value)) walk(`${name}.${inner}`, one);
  };
  for (const field of found.fields) {
    if (field.kind === "array" && field.numbers && field.shape.length >= 2) {
      const each = field.shape[field.shape.length - 1], rows = [];
      for (let at = 0; at < field.numbers.length; at += each) rows.push(field.numbers.slice(at, at + each));
      add(field.name, rows);
    } else if (field.json) walk(field.name, field.json);
  }
  return drawn;
}

function mark(drawn, item, [height, width]) {
  const small = item.every((value) => value <= 1) && drawn.items.every((row) => row.every((value) => value <= 1));
  const [sx, sy] = small ? [width, height] : [1, 1];
  const line = Math.max(width, height) / 250;
  if (drawn.kind === "keypoints") return drawing("circle", { cx: item[0] * sx, cy: item[1] * sy, r: 2.2 * line, fill: item.length === 3 && item[2] === 0 ? "none" : "#ffe119", stroke: "#000", "stroke-width": line / 2 });
  const [x, y, a, b] = item;
  const [w, h] = drawn.style === "xywh" ? [a, b] : [a - x, b - y];
  return drawing("rect", { x: x * sx, y: y * sy, width: Math.max(0, w * sx), height: Math.max(0, h * sy), fill: "none", stroke: "#e6194b", "stroke-width": line });
}

function facts(found) {
  const table = element("table");
  const row = (name, value) => table.append(element("tr", {}, element("th", { scope: "row", text: name }), element("td", { text: value })));
  for (const field of found.fields || []) row(`${field.name} (${field.kind})`, said(field));
  const exif = (found.fields || []).map((field) => field.exif).find(Boolean);
  if (exif) for (const [name, value] of Object.entries(exif)) row(`EXIF ${name}`, String(value));
  row("place", found.place.words);
  if (found.place.offset !== null && found.place.offset !== undefined) row("offset", NUMBER.format(found.place.offset));
  const code = element("pre", { text: found.code, tabindex: 0 });
  const copied = element("button", { type: "button", text: "Copy code", onclick: () => copy(found.code, copied) });
  $("facts").replaceChildren(table, code, copied);
}

function said(field) {
  if (field.missing) return "missing";
  if (field.kind === "image") {
    const size = field.size ? `${field.size[1]} × ${field.size[0]}` : "size unknown";
    return [size, field.codec || field.encoding, bytes(field.bytes), field.index_bytes ? `+ ${bytes(field.index_bytes)} index` : "", field.orientation > 1 ? `orientation ${field.orientation}` : ""].filter(Boolean).join(", ");
  }
  if (field.kind === "array") return `${field.dtype} [${field.shape.join(", ")}], ${bytes(field.bytes)}`;
  return String(field.value);
}

async function copy(text, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Select the text and copy it"; }
  setTimeout(() => { button.textContent = before; }, 1500);
}

function step(by) {
  const position = grid.here + by;
  if (position < 0 || position >= total) return;
  move(by);
  const row = grid.rows.get(position);
  // The sheet may have been closed while the row was asked for.
  const show = (index) => { if ($("sheet").open) openSheet(index); };
  if (row) show(row.index); else ask("/api/rows", { set: state.set, from: position, count: 1, ...filters() }).then((found) => found.rows.length && show(found.rows[0].index));
}

// ---- charts

async function showCharts() {
  const dataset = set();
  $("histogram").replaceChildren(element("p", { text: "counting …" }));
  const found = await ask("/api/summary", { set: state.set });
  const counts = [...found.classes].sort((a, b) => b[1] - a[1]);
  const most = counts.length ? counts[0][1] : 1;
  $("classes-note").textContent = counts.length ? `${NUMBER.format(counts.length)} classes${found.classes_exact ? "" : ", from a part of the samples"}; click one to see its samples.` : "no field with classes";
  $("histogram").replaceChildren(...counts.slice(0, 200).map(([number, times]) => {
    const name = (dataset.classes || [])[number] ?? String(number);
    const fill = element("div", { class: "fill" });
    fill.style.width = `${100 * times / most}%`;
    const link = element("a", { href: `?class=${number}`, text: name, onclick: (event) => { event.preventDefault(); Object.assign(state, { class: String(number), at: 0 }); go("grid"); } });
    return element("div", { class: "row" }, element("div", { class: "name" }, link), element("div", { class: "track" }, fill), element("div", { text: NUMBER.format(times) }));
  }));
  scatter(found.sizes);
}

function scatter(dots) {
  if (!dots.length) { $("scatter").replaceChildren(element("p", { text: "no sizes known" })); return; }
  const most = Math.max(...dots.map(([, height, width]) => Math.max(height, width)));
  const side = 420, scale = (side - 40) / most;
  const made = drawing("svg", { width: side, height: side, viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": `sizes of ${dots.length} samples, up to ${most} pixels` });
  made.append(drawing("path", { d: `M30 0V${side - 20}H${side}`, fill: "none", stroke: "currentColor" }), drawing("text", { x: side - 40, y: side - 4 }, most), drawing("text", { x: 0, y: 12 }, most));
  for (const [index, height, width] of dots) {
    const dot = drawing("circle", { cx: 30 + width * scale, cy: side - 20 - height * scale, r: 3, fill: "var(--accent)", opacity: 0.35 });
    dot.append(drawing("title", {}, `sample ${index}: ${width} × ${height}`));
    dot.addEventListener("click", () => openSheet(index));
    made.append(dot);
  }
  $("scatter").replaceChildren(made);
}

// ---- the playground

let menu = null;

async function showPlay() {
  $("play-index").value = state.play;
  $("seed").value = state.seed;
  $("seed-shown").textContent = state.seed;
  $("draws").value = state.draws;
  if ($("ops").value !== state.ops) $("ops").value = state.ops;
  if ($("ops2").value !== state.ops2) $("ops2").value = state.ops2;
  if (!menu) {
    menu = await ask("/api/menu");
    $("menu").append(...menu.map((one) => element("option", { value: one.op, text: one.op })));
  }
  await play();
}

let playing = 0;

async function play() {
  const turn = ++playing;
  $("seed-shown").textContent = state.seed;
  const words = { set: state.set, index: state.play, seed: state.seed };
  const views = [state.ops, state.ops2].filter((text, number) => number === 0 || text.trim());
  let found;
  try { found = await Promise.all(views.map((ops, view) => ask("/api/play", { ...words, ops, view, draws: state.draws }))); } catch (error) {
    if (turn === playing) { $("ops-error").textContent = error.message; }
    return;
  }
  if (turn !== playing) return;
  $("ops-error").textContent = "";
  $("python").textContent = found.length === 1 ? `transforms = ${found[0].python}` : `transforms = {"image": {"a": ${found[0].python}, "b": ${found[1].python}}}`;
  $("play-note").textContent = [`seed ${state.seed}; draw n is what epoch n does to sample ${state.play}`, found[0].note].filter(Boolean).join("; ");
  steps(found[0].json);
  const figures = [];
  for (let draw = 0; draw < state.draws; draw++) {
    found.forEach((one, view) => {
      const image = element("img", { alt: `draw ${draw}${found.length > 1 ? `, view ${view + 1}` : ""}`, src: `/play?${query({ ...words, ops: views[view], view, draw })}`, "data-draw": draw });
      const frame = element("div", { class: "frame" }, image);
      for (const field of one.masks) frame.append(element("img", { class: "over", alt: `mask, draw ${draw}`, src: `/playmask?${query({ ...words, ops: views[view], view, draw, field })}`, "data-mask": draw }));
      const boxes = one.boxes && one.boxes[draw], points = one.points && one.points[draw];
      if ((boxes && boxes.length) || (points && points.length)) image.addEventListener("load", () => {
        const size = [image.naturalHeight, image.naturalWidth];
        const layer = drawing("svg", { viewBox: `0 0 ${size[1]} ${size[0]}`, preserveAspectRatio: "none", "data-marks": draw });
        for (const box of boxes || []) layer.append(mark({ kind: "boxes", items: boxes, style: "xyxy" }, box, size));
        for (const point of points || []) layer.append(mark({ kind: "keypoints", items: points }, point, size));
        frame.append(layer);
      });
      image.addEventListener("error", () => frame.replaceChildren(element("p", { class: "error", text: "cannot be made" })));
      figures.push(element("figure", {}, frame, element("figcaption", { text: `${draw}${found.length > 1 ? ` view ${view + 1}` : ""}: ${brief(one.params[draw])}` })));
    });
  }
  $("draws-grid").replaceChildren(...figures);
}

function brief(params) {
  const actions = Array.isArray(params) ? params : (params && (params.actions || params.do)) || [params];
  const short = (value) => typeof value === "number" ? Number(value.toFixed(3)) : Array.isArray(value) ? `[${value.slice(0, 6).map(short).join(", ")}${value.length > 6 ? " …" : ""}]` : value && typeof value === "object" ? `{${Object.entries(value).slice(0, 6).map(([name, one]) => `${name}: ${short(one)}`).join(", ")}}` : String(value);
  return [].concat(actions).map((action) => {
    if (!action || typeof action !== "object") return short(action);
    const { do: name, ...rest } = action;
    return `${name || ""} ${Object.entries(rest).map(([key, value]) => `${key} ${short(value)}`).join(", ")}`.trim();
  }).join("; ").slice(0, 400);
}

function steps(list) {
  const editable = (value) => typeof value === "number" || typeof value === "boolean" || typeof value === "string" || (Array.isArray(value) && value.every((one) => typeof one === "number"));
  const change = () => { state.ops = JSON.stringify(list); $("ops").value = state.ops; writeAddress(); play(); };
  $("steps").replaceChildren(...list.map((op, number) => {
    const line = element("div", {}, element("b", { text: op.op }));
    for (const [name, value] of Object.entries(op)) {
      if (name === "op" || !editable(value)) continue;
      const field = element("input", { value: Array.isArray(value) ? value.join(", ") : value, size: 8, "aria-label": `${op.op} ${name}` });
      field.addEventListener("change", () => {
        if (Array.isArray(value)) op[name] = field.value.split(",").map(Number);
        else if (typeof value === "number") op[name] = Number(field.value);
        else if (typeof value === "boolean") op[name] = /^(1|true|yes)$/i.test(field.value);
        else op[name] = field.value;
        change();
      });
      line.append(element("label", {}, `${name} `, field));
    }
    const button = (text, label, work) => element("button", { type: "button", text, "aria-label": `${label} ${op.op}`, onclick: () => { work(); change(); } });
    line.append(button("↑", "Move up", () => { if (number) list.splice(number - 1, 0, ...list.splice(number, 1)); }), button("✕", "Remove", () => list.splice(number, 1)));
    return element("li", {}, line);
  }));
}

// ---- two data sets

let pairs = { from: 0 };

async function showCompare() {
  const rows = await ask("/api/compare");
  const text = (value) => Array.isArray(value) ? value.join(", ") : value === null || value === undefined ? "–" : String(value);
  const head = element("tr", {}, ...["", site.sets[0].uri, site.sets[1].uri].map((name) => element("th", { text: name })));
  $("compare-table").replaceChildren(head, ...rows.map((row) => element("tr", { class: row.same ? "" : "bad" }, element("th", { scope: "row", text: `${row.what}: ${row.same ? "same" : "differs"}` }), ...[0, 1].map((which) => element("td", { text: text(row.values[which]) })))));
  $("differ").checked = Boolean(state.differ);
  pairs = { from: 0 };
  $("pairs").replaceChildren();
  await morePairs();
}

async function morePairs() {
  const words = { set: 0, differ: state.differ };
  const found = await ask("/api/rows", { ...words, from: pairs.from, count: 12 });
  const counted = await ask("/api/count", words);
  $("compare-count").textContent = `${NUMBER.format(counted.total)} samples${counted.done ? "" : ` so far, examined ${NUMBER.format(counted.examined)}`}`;
  pairs.from += found.rows.length;
  for (const row of found.rows) {
    const image = (which) => element("img", { alt: `sample ${row.index} of the ${which ? "second" : "first"}`, src: `/thumb?${query({ set: which, index: row.index, side: 192 })}`, onerror: (event) => event.target.replaceWith(element("span", { class: "bad", text: "cannot be shown" })) });
    $("pairs").append(element("div", { class: "pair" }, element("span", { text: row.index }), image(0), image(1)));
  }
}

// ---- a running loader

let watching = 0;
const lately = [];

async function showLive() {
  clearTimeout(watching);
  if (state.page !== "live") return;
  try { drawLive(await ask("/api/live")); } catch { $("bottleneck").textContent = "the program has ended"; return; }
  watching = setTimeout(showLive, 500);
}

function drawLive(found) {
  const all = found.all;
  if (found.ended) { $("bottleneck").textContent = "the loader is gone"; return; }
  const now = performance.now() / 1000;
  lately.push([now, all.delivered, all.queue.ready]);
  while (lately.length > 240) lately.shift();
  const before = lately.find(([when]) => when >= now - 3) || lately[0];
  const rate = now > before[0] ? Math.max(0, all.delivered - before[1]) / (now - before[0]) : all.recent_samples_per_second;
  if ($("bottleneck").textContent !== all.bottleneck) $("bottleneck").textContent = all.bottleneck;
  const busy = all.consumer_wait_seconds + all.consumer_busy_seconds + all.interpreter_wait_seconds;
  const tiles = { "images/s now": NUMBER.format(Math.round(rate)), "images/s in all": NUMBER.format(Math.round(all.samples_per_second)), samples: NUMBER.format(all.delivered), batches: NUMBER.format(all.batches), "loop waits": percent(busy ? all.consumer_wait_seconds / busy : 0), ready: `${all.queue.ready} of ${all.depth}`, read: bytes(all.bytes_read), "bad samples": NUMBER.format(all.failed), retries: NUMBER.format(all.storage.retries), "cache hits": `${NUMBER.format(all.storage.cache_hits)} / ${NUMBER.format(all.storage.cache_hits + all.storage.cache_misses)}`, memory: bytes(all.memory.resident_bytes), threads: all.threads };
  $("tiles").replaceChildren(...Object.entries(tiles).map(([name, value]) => element("div", { class: "tile", "data-name": name }, element("b", { text: value }), name)));
  const names = { read: "read", bytes: "wait for bytes", decode: "decode", transform: "transform", copy: "copy", wait: "wait for the consumer" };
  $("stages").replaceChildren(...Object.entries(names).map(([stage, name]) => {
    const fill = element("div", { class: "fill" });
    fill.style.width = percent(all.occupancy[stage]).replace(" ", "");
    return element("div", { class: "row" }, element("div", { class: "name", text: name }), element("div", { class: "track" }, fill), element("div", { text: percent(all.occupancy[stage]) }));
  }));
  drawQueue(found);
  const head = element("tr", {}, ...["rank", "images/s", "waits", "bottleneck"].map((name) => element("th", { text: name })));
  $("ranks").replaceChildren(element("table", {}, head, ...found.ranks.map((one, number) => element("tr", {}, element("td", { text: one.silent ? `${one.rank} (silent)` : one.rank }), element("td", { text: NUMBER.format(Math.round(one.stats.samples_per_second)) }), element("td", { text: percent(all.ranks[number].waiting) }), element("td", { text: one.stats.bottleneck })))));
}

function drawQueue(found) {
  const points = found.ranks.length ? found.ranks[0].stats.queue.history : [];
  const width = 720, height = 140, made = drawing("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": "batches ready and images per second over time" });
  const rates = points.slice(1).map((point, at) => (point.samples - points[at].samples) / Math.max(1e-9, point.seconds - points[at].seconds));
  const last = points.length ? points[points.length - 1].seconds : 1, first = points.length ? points[0].seconds : 0;
  const deepest = Math.max(1, found.ranks.length ? found.ranks[0].stats.depth : 1), fastest = Math.max(1, ...rates);
  const x = (seconds) => (seconds - first) / Math.max(1e-9, last - first) * width;
  const path = (values) => values.map(([seconds, share], at) => `${at ? "L" : "M"}${x(seconds).toFixed(1)} ${(height - 16 - share * (height - 30)).toFixed(1)}`).join("");
  made.append(drawing("path", { d: path(points.map((point) => [point.seconds, point.ready / deepest])), fill: "none", stroke: "var(--accent)", "stroke-width": 2 }));
  made.append(drawing("path", { d: path(rates.map((rate, at) => [points[at + 1].seconds, rate / fastest])), fill: "none", stroke: "currentColor", opacity: 0.45 }));
  made.append(drawing("text", { x: 4, y: 12 }, `blue: batches ready (of ${deepest}); grey: images/s (to ${NUMBER.format(Math.round(fastest))})`));
  $("queue").replaceChildren(made);
}

// ---- what users do

function listen() {
  $("scroll").addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(later(50, () => { if (state.page === "grid" && total) { const here = state.at; layOut(); scrollTo(here); } })).observe($("scroll"));
  const filter = later(250, () => { state.at = 0; writeAddress(); count(true); });
  for (const name of ["class", "text", "field", "min", "max"]) $(name).addEventListener("input", () => { state[name] = $(name).value; filter(); });
  $("bad").addEventListener("change", () => { state.bad = $("bad").checked ? "1" : ""; filter(); });
  $("zoom").addEventListener("input", () => { const at = state.at; state.zoom = Number($("zoom").value); layOut(); scrollTo(at); noteAddress(); });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("jump").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); jump($("jump").value).catch((error) => { $("count").textContent = error.message; }); } });
  $("set").addEventListener("change", () => { state.set = Number($("set").value); state.at = 0; state.index = null; opened = null; writeAddress(true); show(); });
  $("close").addEventListener("click", closeSheet);
  $("sheet").addEventListener("close", () => { state.index = null; opened = null; writeAddress(); });
  $("before").addEventListener("click", () => step(-1));
  $("after").addEventListener("click", () => step(1));
  $("to-play").addEventListener("click", () => augment());
  $("help-open").addEventListener("click", () => $("help").showModal());
  $("help-close").addEventListener("click", () => $("help").close());
  const again = later(120, () => { writeAddress(); play(); });
  $("seed").addEventListener("input", () => { state.seed = Number($("seed").value); $("seed-shown").textContent = state.seed; again(); });
  $("draws").addEventListener("change", () => { state.draws = Math.max(1, Math.min(64, Number($("draws").value) || 1)); again(); });
  $("play-index").addEventListener("change", () => { state.play = Number($("play-index").value) || 0; again(); });
  $("ops").addEventListener("input", () => { state.ops = $("ops").value; again(); });
  $("ops2").addEventListener("input", () => { state.ops2 = $("ops2").value; again(); });
  $("menu").addEventListener("change", async () => {
    const chosen = menu.find((one) => one.op === $("menu").value);
    $("menu").value = "";
    if (!chosen) return;
    const now = await ask("/api/play", { set: state.set, index: state.play, ops: state.ops }).catch(() => null);
    if (!now) return;
    state.ops = JSON.stringify([...now.json, { op: chosen.op, ...Object.fromEntries(chosen.fields) }]);
    $("ops").value = state.ops;
    again();
  });
  $("copy-python").addEventListener("click", () => copy($("python").textContent, $("copy-python")));
  $("differ").addEventListener("change", () => { state.differ = $("differ").checked ? "1" : ""; writeAddress(); showCompare(); });
  $("more-pairs").addEventListener("click", morePairs);
  document.addEventListener("keydown", keys);
  window.addEventListener("popstate", () => { readAddress(); if (state.index === null && $("sheet").open) $("sheet").close(); show(); });
}

function augment() {
  if (state.index !== null) state.play = state.index;
  if ($("sheet").open) $("sheet").close();
  go("play");
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const inSheet = $("sheet").open;
  const page = Math.max(1, Math.floor($("scroll").clientHeight / grid.cell)) * grid.columns;
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: grid.columns, ArrowUp: -grid.columns, PageDown: page, PageUp: -page, Home: -total, End: total };
  if (event.key === "j" || (inSheet && event.key === "ArrowRight")) { inSheet ? step(1) : move(1); }
  else if (event.key === "k" || (inSheet && event.key === "ArrowLeft")) { inSheet ? step(-1) : move(-1); }
  else if (event.key === "a" && inSheet) augment();
  else if (inSheet) return;
  else if (event.key === "?") $("help").showModal();
  else if (/^[1-5]$/.test(event.key) && available()[event.key - 1]) go(available()[event.key - 1]);
  else if (state.page !== "grid") return;
  else if (event.key in moves) move(moves[event.key]);
  else if (event.key === "Enter") openHere();
  else if (event.key === "g") $("jump").select();
  else if (event.key === "+" || event.key === "-") { $("zoom").value = state.zoom + (event.key === "+" ? 32 : -32); $("zoom").dispatchEvent(new Event("input")); }
  else if (event.key === "a" && grid.rows.has(grid.here)) { state.index = grid.rows.get(grid.here).index; augment(); }
  else return;
  event.preventDefault();
}

async function start() {
  site = await ask("/api/site");
  readAddress();
  // The token came with the first address; from now on the cookie says who we are.
  writeAddress();
  $("set").hidden = site.sets.length < 2;
  $("set").replaceChildren(...site.sets.map((one, number) => element("option", { value: number, text: one.uri })));
  $("set").value = state.set;
  listen();
  show();
  document.body.dataset.ready = "yes";
}

start().catch((error) => { document.body.prepend(element("p", { class: "error", role: "alert", text: error.message })); });
