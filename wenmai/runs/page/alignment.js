const alignments = data;
const NAMES = { source: byId("source-name").textContent, target: byId("target-name").textContent };
const { source, target } = NAMES;
const KINDS = [["decodercross", say`${target} on ${source}`, say`Attention of the ${target} to the ${source}`],
  ["encoderself", say`${source} on ${source}`, say`Self-attention of the ${source}`],
  ["decoderself", say`${target} on ${target}`, say`Self-attention of the ${target}`]];
const MEAN = -1, LONG = 26, LEAST = 0.04, SMALLEST_CELL = 15, LARGEST_CELL = 38, HIGHEST = 900;
const visible = (token) => (token.trim() ? token : token ? "␣" : "∅");

// Weights: bytes of all heads of a map, rows by rows; the mean of the heads is worked out once.
const bytes = (map) => (map.bytes ||= Uint8Array.from(atob(map.weights), (character) => character.charCodeAt(0)));
const maps = (alignment, kind) => alignment.maps.filter((map) => map.kind === kind);
const headOf = (alignment, map, head) => {
  const rows = alignment[map.queries].length, columns = alignment[map.keys].length, size = rows * columns;
  const cache = (map.cache ||= new Map());
  if (!cache.has(head)) {
    const values = new Float32Array(size), all = bytes(map);
    const [first, last] = head === MEAN ? [0, map.heads] : [head, head + 1];
    for (let h = first; h < last; h++) for (let i = 0; i < size; i++) values[i] += all[h * size
      + i] / 255 / (last - first);
    cache.set(head, { rows, columns, values, largest: values.reduce((a, b) => Math.max(a, b), 1e-6) });
  }
  return cache.get(head);
};

// Shades, from the colours of the style sheet, which follow the colour scheme
let shades = [];
const readShades = () => {
  const channels = (colour) => colour.slice(1).match(/../g).map((hex) => parseInt(hex, 16));
  const stops = [0, 1, 2, 3].map((i) => channels(css(`--w${i}`)));
  shades = Array.from({ length: 256 }, (_, i) => {
    const place = i / 255 * 3, from = Math.min(2, Math.floor(place)), fraction = place - from;
    return stops[from].map((low, c) => Math.round(low + (stops[from + 1][c] - low) * fraction));
  });
};
const shadeOf = (value, most) => shades[Math.round(255 * clamp(value / most, 0, 1))];

// What is shown
const state = { sentence: 0, kind: "", layer: Infinity, head: MEAN, shade: "own" };
let held = false, focus = { row: null, column: null };
const alignment = () => alignments[state.sentence];
const layers = () => maps(alignment(), state.kind);
const map = () => layers().find((each) => each.layer === state.layer);
const chosen = () => headOf(alignment(), map(), state.head);
const most = (table) => (state.shade === "own" ? table.largest : 1);

const settle = () => {  // keeps what was chosen as far as the sentence has it
  state.sentence = clamp(state.sentence, 0, alignments.length - 1);
  const kinds = KINDS.map(([kind]) => kind).filter((kind) => maps(alignment(), kind).length);
  if (!kinds.includes(state.kind)) state.kind = kinds[0];
  if (!map()) state.layer = layers().at(-1).layer;
  if (map().heads === 1) state.head = 0;
  else if (!(state.head < map().heads)) state.head = MEAN;
};
const choose = (change) => {
  Object.assign(state, change);
  settle();
  const hash = new URLSearchParams(state).toString();
  if (location.hash.slice(1) !== hash) history.replaceState(null, "", `#${hash}`);
  held = false;
  focus = { row: null, column: null };
  draw();
};
const fromHash = () => {
  const asked = new URLSearchParams(location.hash.slice(1)), change = {};
  for (const name of ["sentence", "layer", "head"])
    if (Number.isInteger(Number(asked.get(name) ?? NaN))) change[name] = Math.max(MEAN, Number(asked.get(name)));
  if (asked.has("kind")) change.kind = asked.get("kind");
  change.shade = asked.get("shade") === "whole" ? "whole" : "own";
  return change;
};

// Controls
const options = (select, entries, value) => {
  select.replaceChildren(...entries.map(([key, text]) => html("option", { value: key }, text)));
  select.value = String(value);
};
const headName = (head) => (head === MEAN ? say`mean of heads` : say`head ${head + 1}`);
const headsOf = (each) => (each.heads > 1 ? [MEAN, ...Array(each.heads).keys()] : [0]);
const controls = () => {
  const { heads } = map(), kinds = KINDS.filter(([kind]) => maps(alignment(), kind).length);
  byId("pick").hidden = alignments.length < 2;
  byId("sentences").value = String(state.sentence);
  byId("previous").disabled = state.sentence === 0;
  byId("next").disabled = state.sentence === alignments.length - 1;
  byId("source").textContent = alignment().sourceText;
  byId("target").textContent = alignment().targetText;
  byId("kinds").hidden = kinds.length < 2;
  byId("kinds").replaceChildren(byId("kinds").firstElementChild, ...kinds.map(([kind, text]) => {
    const input = html("input", { type: "radio", name: "kind", value: kind,
      ...(kind === state.kind && { checked: "" }) });
    input.addEventListener("change", () => {
      choose({ kind });
      document.querySelector("input[name=kind]:checked").focus();
    });
    return html("label", {}, input, ` ${text}`);
  }));
  options(byId("layer"), layers().map((each) => [each.layer, each.layer + 1]), state.layer);
  const headOption = (head) => [head, head === MEAN ? say`mean of heads` : head + 1];
  options(byId("head"), headsOf(map()).map(headOption), state.head);
  byId("shade").value = state.shade;
  byId("layer-choice").hidden = layers().length < 2;
  byId("head-choice").hidden = heads < 2;
  const what = [layers().length > 1 && say`layer ${state.layer + 1}`, heads > 1 && headName(state.head)]
    .filter(Boolean).join(say`, `);
  byId("chosen-title").textContent = KINDS.find(([kind]) => kind === state.kind)[2] + (what && say`: ` + what);
};

// The overview: a small map of every layer and head, drawn again only if the maps change
let overviewDrawn = "";
const overview = () => {
  const drawing = [state.sentence, state.kind, state.shade, shades].join();
  if (drawing === overviewDrawn) return press();
  overviewDrawn = drawing;
  const all = layers(), widest = Math.max(...all.map((each) => headsOf(each).length));
  byId("overview").hidden = all.length * widest === 1 && KINDS
    .filter(([kind]) => maps(alignment(), kind).length).length === 1;
  const box = byId("tiles"), cells = [];
  box.style.gridTemplateColumns = `max-content repeat(${widest}, minmax(46px, 1fr))`;
  box.style.setProperty("--tiles-width", `${widest * 84 + 60}px`);
  if (widest > 1) cells.push(html("span"),
    ...Array.from({ length: widest }, (_, i) => html("span", {}, i ? say`head ${i}` : say`mean`)));
  for (const each of all) {
    cells.push(html("span", { class: "row" }, say`layer ${each.layer + 1}`));
    const heads = headsOf(each);
    for (let i = 0; i < widest; i++) cells.push(i < heads.length ? tile(each, heads[i]) : html("span"));
  }
  box.replaceChildren(...cells);
  return press();
};
const tile = (each, head) => {
  const table = headOf(alignment(), each, head), { rows, columns, values } = table;
  const canvas = html("canvas", { width: columns, height: rows });
  canvas.style.aspectRatio = clamp(columns / rows, 0.7, 1.5);
  const context = canvas.getContext("2d"), pixels = context.createImageData(columns, rows);
  values.forEach((value, i) => {
    const [red, green, blue] = shadeOf(value, most(table));
    pixels.data[4 * i] = red;
    pixels.data[4 * i + 1] = green;
    pixels.data[4 * i + 2] = blue;
    pixels.data[4 * i + 3] = 255;
  });
  context.putImageData(pixels, 0, 0);
  const name = `${say`layer ${each.layer + 1}`}, ${headName(head)}`;
  const button = html("button", { type: "button", "data-place": [each.layer, head], "aria-label": name, title: name },
    canvas);
  button.addEventListener("click", () => choose({ layer: each.layer, head }));
  return button;
};
const press = () => {
  for (const button of byId("tiles").querySelectorAll("button")) {
    const on = button.dataset.place === String([state.layer, state.head]);
    button.setAttribute("aria-pressed", on);
    button.tabIndex = on ? 0 : -1;
  }
};
byId("tiles").addEventListener("keydown", (event) => {
  const step = arrowStep(event);
  if (!step) return;
  event.preventDefault();
  const all = layers(), place = clamp(all.indexOf(map()) + step[0], 0, all.length - 1), heads = headsOf(all[place]);
  const head = heads[clamp(heads.indexOf(state.head) + step[1], 0, heads.length - 1)];
  choose({ layer: all[place].layer, head });
  byId("tiles").querySelector("button[aria-pressed=true]").focus();
});

// Words drawn to fit
const ruler = document.createElement("canvas").getContext("2d");
const widthOf = (text, size) => {
  ruler.font = `${size}px ${css("--sans")}`;
  return ruler.measureText(text).width;
};
const fitted = (text, size, width) => {
  let shown = [...visible(text)];
  if (widthOf(shown.join(""), size) <= width) return shown.join("");
  while (shown.length > 1 && widthOf(`${shown.join("")}…`, size) > width) shown = shown.slice(0, -1);
  return `${shown.join("")}…`;
};

// The map of tokens against tokens
let showFocus = [];
const matrix = (width) => {
  const box = byId("matrix"), table = chosen(), { rows, columns, values } = table;
  const queries = alignment()[map().queries], keys = alignment()[map().keys];
  const widest = (tokens, size) => Math.max(...tokens.map((token) => widthOf(visible(token), size)));
  const left = Math.min(130, widest(queries, 13)) + 12;
  const lengths = keys.map((token) => Math.min(130, widthOf(visible(token), 13)));
  const beyond = (cell) => Math.max(0, ...lengths
    .map((length, column) => 0.62 * length + 4 - cell * (columns - column - 0.5)));
  let cell = Math.floor(clamp(Math.min((width - left) / columns, HIGHEST / rows), SMALLEST_CELL, LARGEST_CELL));
  while (cell > SMALLEST_CELL && left + cell * columns + beyond(cell) > width) cell -= 1;
  const size = clamp(cell * 0.72, 11, 13), upright = widest(keys, size) <= cell - 2;
  const top = 12 + (upright ? size : 0.8 * Math.min(130, widest(keys, size)) + 6);
  const right = upright ? 0 : beyond(cell);  // of slanted words
  const wide = left + cell * columns + right, high = top + cell * rows + 1;
  const ratio = devicePixelRatio || 1, canvas = html("canvas",
    { width: cell * columns * ratio, height: cell * rows * ratio });
  Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${cell * columns}px`,
    height: `${cell * rows}px` });
  const context = canvas.getContext("2d"), gap = cell > 17 ? 1 : 0;
  context.scale(ratio, ratio);
  values.forEach((value, i) => {
    context.fillStyle = `rgb(${shadeOf(value, most(table))})`;
    context.fillRect((i % columns) * cell, Math.floor(i / columns) * cell, cell - gap, cell - gap);
  });
  const root = svg("svg", { width: wide, height: high, tabindex: 0, role: "img", "aria-label":
    say`Map of ${rows} by ${columns} weights; rows: ${NAMES[map().queries]}, columns: ${NAMES[map().keys]}` });
  const rowTexts = queries.map((token, row) => svg("text", { x: left - 8, y: top + cell * (row + 0.5) + size * 0.36,
    "text-anchor": "end", "font-size": size }, fitted(token, size, left - 12)));
  const columnTexts = keys.map((token, column) => {
    const x = left + cell * (column + 0.5), place = upright ? { x, y: top - 8, "text-anchor": "middle" }
      : { transform: `translate(${x - 1} ${top - 7}) rotate(-52)` };
    return svg("text", { ...place, "font-size": size }, fitted(token, size, 130));
  });
  const across = svg("rect", { class: "outline" }), down = svg("rect", { class: "outline" });
  root.append(svg("rect", { class: "frame", x: left - 0.5, y: top - 0.5, width: cell * columns + 1,
    height: cell * rows + 1 }),
    ...rowTexts, ...columnTexts, across, down);
  const at = (event) => {
    const bounds = root.getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    const column = Math.floor((x - left) / cell), row = Math.floor((y - top) / cell);
    return { row: row >= 0 && row < rows ? row : null, column: column >= 0 && column < columns ? column : null };
  };
  pointed(root, at);
  root.addEventListener("keydown", (event) => {
    const step = arrowStep(event);
    if (!step) return;
    event.preventDefault();
    const move = (from, by, count) => (from === null ? 0 : clamp(from + by, 0, count - 1));
    held = true;
    setFocus({ row: move(focus.row, step[0], rows), column: move(focus.column, step[1], columns) });
    const bounds = root.getBoundingClientRect();
    showWeight(bounds.left + left + cell * (focus.column + 0.5), bounds.top + top + cell * (focus.row + 0.5));
  });
  showFocus.push(() => {
    const band = (node, shown, x, y, w, h) => {
      node.style.display = shown ? "" : "none";
      for (const [name, value] of Object.entries({ x, y, width: w, height: h })) node.setAttribute(name, value);
    };
    band(across, focus.row !== null, left, top + cell * (focus.row ?? 0), cell * columns, cell - gap);
    band(down, focus.column !== null, left + cell * (focus.column ?? 0), top, cell - gap, cell * rows);
    rowTexts.forEach((text, row) => text.classList.toggle("on", row === focus.row));
    columnTexts.forEach((text, column) => text.classList.toggle("on", column === focus.column));
  });
  box.replaceChildren(canvas, root);
  byId("scale").replaceChildren("0", html("i"), most(table).toFixed(2));
  return { top, cell };
};

// The links between words
const links = (width, beside) => {  // beside: where the map has its rows, if it stands beside the links
  const box = byId("links"), table = chosen(), { rows, columns, values } = table, size = 14;
  const queries = alignment()[map().queries], keys = alignment()[map().keys];
  const row = beside ? Math.max(beside.cell, 22) : clamp(HIGHEST / Math.max(rows, columns), 22, 30);
  const high = row * Math.max(rows, columns), top = Math.max(beside?.top ?? 0, 34);
  const margin = 42, room = Math.max(40, Math.min(150, width / 3 - margin));
  const widest = (tokens) => Math.min(room, Math.max(...tokens.map((token) => widthOf(visible(token), size))));
  const x = [margin + widest(queries), width - margin - widest(keys)];
  const place = (count) => {
    const gap = Math.min(high / count, row * 1.6);
    return (i) => top + (high - gap * count) / 2 + gap * (i + 0.5);
  };
  const y = [place(rows), place(columns)];
  const root = svg("svg", { width, height: top + high, tabindex: 0, role: "img", "aria-label":
    say`Links from the ${NAMES[map().queries]} on the left to the ${NAMES[map().keys]} it attends to` });
  root.append(svg("text", { class: "side", x: x[0], y: top - 20, "text-anchor": "end" }, NAMES[map().queries]),
    svg("text", { class: "side", x: (x[0] + x[1]) / 2, y: top - 20, "text-anchor": "middle" }, say`attends to`),
    svg("text", { class: "side", x: x[1], y: top - 20 }, NAMES[map().keys]));
  const curves = [], bend = (x[1] - x[0] - 16) * 0.45;
  values.forEach((value, i) => {
    if (value < 0.004) return;
    const from = Math.floor(i / columns), to = i % columns, strength = Math.min(1, value / most(table));
    const [x0, x1, y0, y1] = [x[0] + 8, x[1] - 8, y[0](from), y[1](to)];
    const path = svg("path", { d: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`,
      "stroke-width": (0.75 + strength * row * 0.4).toFixed(2) });
    curves.push({ path, from, to, value, opacity: 0.08 + 0.72 * strength });
    root.append(path);
  });
  const words = [queries, keys].map((tokens, side) => tokens.map((token, index) => {
    const sign = side ? 1 : -1, wide = Math.min(room, widthOf(visible(token), size)), at = y[side](index);
    const tint = svg("rect", { x: side ? x[1] - 4 : x[0] - wide - 4, y: at - row / 2 + 2, width: wide + 8,
      height: row - 4, rx: 3 });
    const text = svg("text", { x: x[side], y: at + 5, "font-size": size, "text-anchor": side ? "start" : "end" },
      fitted(token, size, room));
    const value = svg("text", { class: "value", x: x[side] + sign * (wide + 9), y: at + 4,
      "text-anchor": side ? "start" : "end" });
    const group = svg("g", { class: "word" }, tint, text, value,
      svg("rect", { x: side ? x[1] - 8 : 0, y: at - row / 2, width: side ? width - x[1] + 8 : x[0] + 8, height: row }));
    root.append(group);
    pointed(group, () => (side ? { row: null, column: index } : { row: index, column: null }), false);
    return { tint, text, value };
  }));
  root.addEventListener("keydown", (event) => {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key], side = { ArrowLeft: 0, ArrowRight: 1 }[event.key];
    if (by === undefined && side === undefined) return;
    event.preventDefault();
    const right = side ?? (focus.row === null && focus.column !== null ? 1 : 0);
    const now = (right ? focus.column : focus.row) ?? (by === undefined ? focus.row ?? focus.column ?? 0 : -1);
    const index = clamp(now + (by ?? 0), 0, (right ? columns : rows) - 1);
    held = true;
    setFocus(right ? { row: null, column: index } : { row: index, column: null });
    announce();
  });
  showFocus.push(() => {
    const free = focus.row === null && focus.column === null;
    const matches = (from, to) => (focus.row === null || focus.row === from)
      && (focus.column === null || focus.column === to);
    for (const { path, from, to, value, opacity } of curves) {
      const shown = free ? value >= LEAST : matches(from, to);
      path.style.display = shown || value >= LEAST ? "" : "none";
      path.style.opacity = shown ? (free ? opacity : Math.max(opacity, 0.2)) : 0.035;
    }
    words.forEach((side, right) => side.forEach(({ tint, text, value }, index) => {
      const own = right ? focus.column : focus.row, other = right ? focus.row : focus.column;
      const weight = other === null || (own !== null && own !== index) ? 0
        : values[right ? other * columns + index : index * columns + other];
      tint.style.opacity = 0.5 * Math.min(1, weight / most(table));
      text.classList.toggle("on", own === index);
      value.textContent = weight >= 0.005 ? weight.toFixed(2) : "";
    }));
  });
  box.replaceChildren(root);
};

// Pointing and holding, the same in both drawings
const setFocus = (next) => {
  focus = next;
  for (const show of showFocus) show();
};
const same = (one, other) => one.row === other.row && one.column === other.column;
const release = () => {
  held = false;
  hideTip();
  setFocus({ row: null, column: null });
};
const showWeight = (x, y) => {
  if (focus.row === null || focus.column === null) return hideTip();
  const table = chosen(), value = table.values[focus.row * table.columns + focus.column];
  return showTip(x, y, html("b", {}, visible(alignment()[map().queries][focus.row])), say` attends to `,
    html("b", {}, visible(alignment()[map().keys][focus.column])), html("br"), say`weight ${value.toFixed(2)}`);
};
const announce = () => {  // for screen readers: the strongest links of the word that has the focus
  const table = chosen(), from = focus.row, right = from === null, count = right ? table.rows : table.columns;
  const tokens = [alignment()[map().queries], alignment()[map().keys]];
  const weights = Array.from({ length: count }, (_, i) =>
    [table.values[right ? i * table.columns + focus.column : from * table.columns + i], tokens[right ? 0 : 1][i]]);
  const strongest = weights.sort(([a], [b]) => b - a).slice(0, 3)
    .map(([value, token]) => `${token} ${value.toFixed(2)}`);
  const word = right ? tokens[1][focus.column] : tokens[0][from];
  byId("said").textContent = right
    ? say`${word} is attended to by ${strongest.join(", ")}` : say`${word} attends to ${strongest.join(", ")}`;
};
const pointed = (node, at, withTip = true) => {
  node.addEventListener("pointermove", (event) => {
    if (held) return;
    const next = at(event);
    if (!same(next, focus)) setFocus(next);
    if (withTip) showWeight(event.clientX, event.clientY);
  });
  node.addEventListener("pointerleave", () => { if (!held) release(); });
  node.addEventListener("click", (event) => {
    const next = at(event), letGo = held && same(next, focus);
    if (letGo || (next.row === null && next.column === null)) return release();
    held = true;
    setFocus(next);
    return withTip && showWeight(event.clientX, event.clientY);
  });
};
addEventListener("keydown", (event) => { if (event.key === "Escape") release(); });

// Drawing
const views = () => {
  hideTip();
  showFocus = [];
  byId("views").classList.toggle("long", chosen().columns > LONG);
  const place = matrix(byId("matrix").parentElement.clientWidth - 12);
  const [one, other] = [...byId("views").children].map((figure) => figure.getBoundingClientRect().top);
  links(byId("links").clientWidth, one === other ? place : null);
  setFocus(focus);
};
const draw = () => { controls(); overview(); views(); };

options(byId("sentences"), alignments.map((each, i) => [i, `${i + 1}. ${clip(each.sourceText, 60)}`]), 0);
byId("sentences").addEventListener("change", (event) => choose({ sentence: Number(event.target.value) }));
byId("previous").addEventListener("click", () => choose({ sentence: state.sentence - 1 }));
byId("next").addEventListener("click", () => choose({ sentence: state.sentence + 1 }));
byId("layer").addEventListener("change", (event) => choose({ layer: Number(event.target.value) }));
byId("head").addEventListener("change", (event) => choose({ head: Number(event.target.value) }));
byId("shade").addEventListener("change", (event) => choose({ shade: event.target.value }));
byId("least").textContent = String(LEAST);
for (const query of ["(prefers-color-scheme: dark)", "print"])
  matchMedia(query).addEventListener("change", () => { readShades(); draw(); });
addEventListener("hashchange", () => choose(fromHash()));
readShades();
choose(fromHash());
let drawnWidth = byId("views").clientWidth;
new ResizeObserver(() => {
  const width = byId("views").clientWidth;
  if (width !== drawnWidth) requestAnimationFrame(views);
  drawnWidth = width;
}).observe(byId("views"));
