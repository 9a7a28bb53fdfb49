const systems = data.systems;
const CLUSTER_COLOURS = 10, MOST_LABELS = 6;

// The colour and dash of each system are those of its row in the table.
const swatches = [...document.querySelectorAll("table.main .swatch line")];
const colour = (index) => swatches[index].getAttribute("stroke");
const dash = (index) => swatches[index].getAttribute("stroke-dasharray");
const known = (value) => typeof value === "number";
const piece = (line) => svg("svg", { class: "swatch", viewBox: "0 0 20 8", "aria-hidden": "true" },
  svg("line", { x1: 0, x2: 20, y1: 4, y2: 4, stroke: line.colour, "stroke-dasharray": line.dash }));
const swatch = (index) => piece({ colour: colour(index), dash: dash(index) });

// Names in figures omit their common prefix, such as "word2vec-".
const shortNames = (() => {
  const parts = systems.map((system) => system.name.split("-"));
  let shared = 0;
  while (systems.length > 1 && parts.every((p) => p.length > shared + 1 && p[shared] === parts[0][shared])) shared++;
  return parts.map((p) => p.slice(shared).join("-"));
})();

// A line of a drawing: the name, the look and the points of a system
const lineOf = (index, points) => ({ name: shortNames[index], colour: colour(index), dash: dash(index), points });

// Numbers
const SPACE = "\u00a0";
const significant = (value, digits) => String(Number(value.toPrecision(digits)));
const short = (value) => {
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= unit * 0.9995) return significant(value / unit, 3) + SPACE + name;
  return significant(value, 3);
};
const bytes = (value) => short(value) + (value >= 999.5 ? "B" : SPACE + "B");
const duration = (seconds) => {
  if (seconds < 99.5) return significant(seconds, 3) + SPACE + "s";
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes}${SPACE}min`
    : `${Math.floor(minutes / 60)}${SPACE}h${SPACE}${minutes % 60}${SPACE}min`;
};

// Axes
const linearTicks = (low, high, count) => {
  if (!(high > low)) return [low];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
};
const logTicks = (low, high) => {
  const decades = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) decades.push(10 ** e);
  const inside = (steps) => decades.flatMap((d) => steps.map((m) => m * d)).filter((t) => t >= low && t <= high);
  const few = inside([1, 2, 5]), more = inside([1, 1.5, 2, 3, 4, 5, 7]);
  return few.length > 2 ? few : more.length > 2 ? more : linearTicks(low, high, 3);
};
const tickText = (ticks) => {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1;
  const digits = clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6);
  return (value) => value.toFixed(digits).replace("-", "−");
};
// Not Math.min(...values): what is spread is on the stack, which a hundred thousand values overflow.
const extent = (values) =>
  values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
const padded = (values, fraction) => {
  const [low, high] = extent(values), pad = (high - low || Math.abs(high) || 1) * fraction;
  return [low - pad, high + pad];
};

const redraws = [];
const drawn = (box, draw) => {  // draws now, and again when the width changes
  let width = 0;
  const redraw = () => { width = box.clientWidth; if (width > 0) draw(width); };
  new ResizeObserver(() => { if (box.clientWidth !== width) requestAnimationFrame(redraw); }).observe(box);
  redraws.push(redraw);
  redraw();
  return redraw;
};

// The table sorts by a click on a column's head: best first, then the other way round.
const sortable = (table) => {
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[1].cells];
  heads.forEach((head, column) => {
    const button = html("button", { type: "button" }, head.firstElementChild || head.firstChild);
    head.prepend(button);
    button.addEventListener("click", () => {
      const first = head.dataset.first || "ascending", other = first === "ascending" ? "descending" : "ascending";
      const order = head.getAttribute("aria-sort") === first ? other : first, sign = order === "ascending" ? 1 : -1;
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const key = (row) => (column === 0 ? row.cells[0].textContent : row.cells[column].dataset.sort);
      table.tBodies[0].append(...[...rows].sort((a, b) => {
        const one = key(a), two = key(b);
        if (one === undefined || two === undefined) return (one === undefined) - (two === undefined);
        return sign * (column === 0 ? one.localeCompare(two) : one - two);
      }));
    });
  });
};

// Learning curves: one panel for each kind of loss
const curves = () => {
  const kinds = new Map();
  systems.forEach((system, index) => {
    const points = system.curve.filter((point) => known(point.loss) && known(point.progress))
      .map((point) => (known(point.mean) ? { ...point, loss: point.mean, recorded: point.loss } : point));
    if (points.length > 1) kinds.set(system.loss_kind, [...(kinds.get(system.loss_kind) || []), lineOf(index, points)]);
  });
  if (!kinds.size) return;
  byId("curves").hidden = false;
  const axis = () => document.querySelector("input[name=axis]:checked").value;
  const timed = [...kinds.values()].flat().some((line) => line.points.some((point) => known(point.seconds)));
  document.querySelector("#curves fieldset").hidden = !timed;
  for (const [kind, lines] of kinds) {
    const box = byId("curve-panels").appendChild(html("div", { class: "panel" }));
    const redraw = drawn(box, (width) => curvePanel(box, width, kind ? say`Loss, ${kind}` : say`Loss`, lines, axis()));
    document.querySelectorAll("input[name=axis]").forEach((input) => input.addEventListener("change", redraw));
  }
};

// Other panels with a line for each system: successive ones with the same heading share a section
const panels = () => {
  let section, heading;
  for (const [name, { section: title, title: what, axis, unit, caption, log, whole }] of Object.entries(data.panels)) {
    const place = `panel ${name}`;
    const lines = systems.map((system, index) => lineOf(index, (system.lines[name] || [])
      .filter((point) => known(point.y)).map(({ x, y, note }) => ({ [place]: x, loss: y, note }))))
      .filter((line) => line.points.length > 1);
    if (!lines.length) continue;
    if (title !== heading) section = byId("panels").appendChild(html("section", {}, html("h2", {}, title)));
    heading = title;
    AXES[place] = { unit: () => [1, axis], label: (at) => `${at.toFixed(0)} ${unit}`, log, whole };
    const box = html("div", { class: "panel" });
    section.append(html("figure", {}, box, html("figcaption", {}, caption)));
    drawn(box, (width) => curvePanel(box, width, what, lines, place));
  }
};

// Loss and accuracy by task: a panel each for a run; colours and dashes of tasks are those of the key above
const byTask = () => {
  for (const figure of document.querySelectorAll("#task-figures figure")) {
    const { by_task: metrics, stages } = systems[figure.dataset.system], looks = new Map();
    for (const item of figure.querySelectorAll(".legend li")) {
      const line = item.querySelector("line");
      looks.set(item.textContent, { colour: line.getAttribute("stroke"), dash: line.getAttribute("stroke-dasharray") });
    }
    for (const [metric, title] of [["loss", say`Loss`], ["accuracy", say`Accuracy`]]) {
      const lines = Object.entries(metrics[metric] || {}).map(([name, points]) => ({ name, ...looks.get(name),
        points: points.filter((point) => known(point.y)).map(({ x, y, note }) => ({ updates: x, loss: y, note })) }))
        .filter((line) => line.points.length > 1);
      if (!lines.length) continue;
      byId("tasks").hidden = false;
      const box = figure.querySelector(".beside").appendChild(html("div", { class: "panel" }));
      drawn(box, (width) => curvePanel(box, width, title, lines, "updates", { stages, key: false }));
    }
  }
};

// The horizontal axes: unit and title by where it ends, how the tip names a place, and whether it is logarithmic
const AXES = {
  progress: { unit: () => [0.01, say`Training done, %`], label: (at) => say`${(at * 100).toFixed(0)} % done`,
    end: () => 1 },
  seconds: {
    unit: (end) => (end > 7200 ? [3600, say`Wall time, hours`] : end > 180 ? [60, say`Wall time, minutes`]
      : [1, say`Wall time, seconds`]),
    label: (at) => duration(at),
  },
  updates: { unit: () => [1, say`Updates`], label: (at) => say`${at.toFixed(0)} updates`, whole: true },
};

// Where values stand in a panel: x and y in pixels, and the value at a fraction of the width
const scales = (lines, axis, edge, inner) => {
  const { log, end: given } = AXES[axis];
  const [low, high] = padded(lines.flatMap((line) => line.points.flatMap((p) => [p.loss, p.recorded ?? p.loss])), 0.04);
  const end = given ? given() : Math.max(...lines.map((line) => line.points.at(-1)[axis])) || 1;
  const start = log ? Math.min(...lines.map((line) => line.points[0][axis])) : 0;
  const x = (value) => edge.left + inner.width * (log ? Math.log(value / start) / Math.log(end / start) : value / end);
  const y = (value) => edge.top + inner.height * (1 - (value - low) / (high - low));
  const at = (fraction) => (log ? start * (end / start) ** fraction : fraction * end);
  return { start, end, low, high, x, y, at };
};

const yAxis = (low, high, y, left, right) => {
  const ticks = linearTicks(low, high, 5), text = tickText(ticks);
  return ticks.flatMap((tick) => [svg("line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) }),
    svg("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, text(tick))]);
};
const xAxis = (ticks, text, x, left, right, bottom, title) => [
  ...ticks.map((tick) => svg("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, text(tick))),
  svg("line", { class: "axis", x1: left, x2: right, y1: bottom + 0.5, y2: bottom + 0.5 }),
  svg("text", { x: right, y: bottom + 36, "text-anchor": "end" }, title),
];

// The names at the ends of the curves, moved apart; with a leader where there is room for one
const endLabels = (lines, labels, axis, x, y, edge, bottom) => {
  const places = lines.map((line, i) => ({ line, label: labels[i], x: x(line.points.at(-1)[axis]),
    at: y(line.points.at(-1).loss) }));
  places.sort((a, b) => a.at - b.at);
  spread(places, 15, edge.top, bottom);
  const moved = axis === "progress" && places.some((place) => Math.abs(place.y - place.at) > 3);
  return places.flatMap((place) => {
    const left = place.x + (moved ? 22 : 12);
    const leader = [svg("path", { class: "leader", d: `M${place.x + 5} ${place.at}L${left} ${place.y}` }),
      svg("line", { x1: left, x2: left + 16, y1: place.y, y2: place.y, stroke: place.line.colour,
        "stroke-dasharray": place.line.dash, "stroke-width": 2.5 })];
    const text = svg("text", { class: "name halo", x: left + (moved ? 21 : 0), y: place.y + 4 }, place.label);
    return [...(moved ? leader : []), text];
  });
};

// What the tip says of a place: a row for each line that reaches it
const readings = (lines, axis, x, at, slack) => lines.filter(({ points }) => x(at) <= x(points.at(-1)[axis]) + slack)
  .map((line) => {
    const far = (p) => Math.abs(x(p[axis]) - x(at));
    const point = line.points.reduce((best, p) => (far(p) < far(best) ? p : best));
    const speed = known(point.words_per_second) ? say`${short(point.words_per_second)} words/s` : point.note || "";
    const cells = [piece(line), html("span", {}, line.name), html("b", {}, point.loss.toFixed(4)),
      html("span", { class: "quiet" }, speed)];
    return { line, point, cells };
  });

// Vertical lines where a stage of the training begins, with its number; the word where there is room
const stageMarks = (stages, end, x, edge, bottom) => stages.flatMap((begin, i) => {
  const text = x(stages[i + 1] ?? end) - x(begin) > 56 ? say`stage ${i + 2}` : i + 2;
  return [svg("line", { class: "stage", x1: x(begin), x2: x(begin), y1: edge.top, y2: bottom }),
    svg("text", { class: "halo", x: x(begin), y: edge.top - 4 }, text)];
});

const curvePanel = (box, width, title, all, axis, { stages = [], key = true } = {}) => {
  const lines = all.map((line) => ({ ...line, points: line.points.filter((p) => known(p[axis])) }))
    .filter((line) => line.points.length);
  const wide = width > 560, height = wide ? 340 : 260;
  const labelled = key && wide && (axis === "progress" || lines.length <= MOST_LABELS);
  const labels = labelled ? lines.map((line) => clip(line.name, 24)) : [];
  const longest = Math.max(...labels.map((label) => label.length), 4);
  const edge = { left: 44, right: labelled ? 48 + 6.4 * longest : 8, top: 30, bottom: 42 };
  const inner = { width: width - edge.left - edge.right, height: height - edge.top - edge.bottom };
  const right = edge.left + inner.width, bottom = height - edge.bottom;
  const { start, end, low, high, x, y, at } = scales(lines, axis, edge, inner);
  const ends = ({ name, points }) => say`${name} from ${
    significant(points[0].loss, 4)} to ${significant(points.at(-1).loss, 4)}`;
  const names = lines.map((line) => line.name).join(", ");
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": say`${title} of ${names}: ${lines.map(ends).join("; ")}` });
  const { unit, label, log, whole } = AXES[axis], [size, unitName] = unit(end);
  const every = log ? logTicks(start, end) : linearTicks(0, end / size, wide ? 8 : 4),
    ticks = whole ? every.filter(Number.isInteger) : every,
    text = log ? short : tickText(ticks);
  root.append(svg("text", { class: "title", x: 0, y: 10 }, title), ...yAxis(low, high, y, edge.left, right),
    ...xAxis(ticks, text, (tick) => x(tick * size), edge.left, right, bottom, unitName),
    ...stageMarks(stages, end, x, edge, bottom));
  for (const { points, ...line } of lines) {
    const path = (value) =>
      points.map((p, i) => `${i ? "L" : "M"}${x(p[axis]).toFixed(1)} ${y(value(p)).toFixed(1)}`).join("");
    const last = points.at(-1);
    if (points.some((p) => known(p.recorded)))
      root.append(svg("path", { class: "recorded", d: path((p) => p.recorded ?? p.loss), stroke: line.colour }));
    root.append(svg("path", { class: "curve", d: path((p) => p.loss), stroke: line.colour,
      "stroke-dasharray": line.dash }),
      svg("circle", { cx: x(last[axis]), cy: y(last.loss), r: 3, fill: line.colour }));
  }
  if (labelled) root.append(...endLabels(lines, labels, axis, x, y, edge, bottom));
  const marks = root.appendChild(svg("g"));
  let cursor = 1;
  const read = (fraction, clientX, clientY) => {
    cursor = clamp(fraction, 0, 1);
    const place = at(cursor), rows = readings(lines, axis, x, place, inner.width * 0.02);
    marks.replaceChildren(svg("line", { class: "cursor", x1: x(place), x2: x(place), y1: edge.top, y2: bottom }),
      ...rows.map(({ line, point }) =>
        svg("circle", { cx: x(point[axis]), cy: y(point.loss), r: 4, fill: line.colour,
        stroke: "var(--paper)", "stroke-width": 1.5 })));
    rows.sort((a, b) => b.point.loss - a.point.loss);
    showTip(clientX, clientY, html("div", { class: "quiet" }, label(place)),
      html("div", { class: "rows" }, ...rows.flatMap((row) => row.cells)));
  };
  const frame = () => root.getBoundingClientRect();
  root.addEventListener("pointermove", (event) => {
    const scale = width / frame().width;
    read(((event.clientX - frame().left) * scale - edge.left) / inner.width, event.clientX, event.clientY);
  });
  const leave = () => {
    marks.replaceChildren();
    hideTip();
  };
  for (const type of ["pointerleave", "blur"]) root.addEventListener(type, leave);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const left = frame().left + edge.left + inner.width * clamp(cursor + step, 0, 1);
    read(cursor + step, left, frame().top + height / 2);
  });
  const legend = html("ul", { class: "legend" },
    ...lines.map((line) => html("li", {}, piece(line), line.name)));
  box.replaceChildren(root, ...(key && !labelled ? [legend] : []));
};

const spread = (places, gap, top, bottom) => {  // moves sorted labels apart, as little as two passes allow
  places.forEach((place, i) => { place.y = Math.max(place.at, i ? places[i - 1].y + gap : top); });
  for (let i = places.length - 1; i >= 0; i--)
    places[i].y = Math.min(places[i].y, i < places.length - 1 ? places[i + 1].y - gap : bottom);
};

// Quality against cost
const COSTS = { words_per_second: [say`words/s`, short, 1], seconds: [say`wall time`, duration, -1],
  peak_memory_bytes: [say`peak memory`, bytes, -1], size_bytes: [say`size on disk`, bytes, -1],
  corpus_bytes: [say`training text`, bytes, -1], answers_per_second: [say`answers/s`, short, 1] };

const kindName = (kind) => data.kinds[kind]?.name || kind;
const qualities = () => {  // the mean of each kind over the measures that all systems have, then every measure
  const byKind = new Map();
  for (const measure of systems.flatMap((system) => system.measures))
    byKind.set(measure.kind, new Set([...(byKind.get(measure.kind) || []), measure.name]));
  const all = [], names_of = [...byKind.values()].flatMap((names) => [...names]);
  const title = (kind, name) =>
    names_of.filter((other) => other === name).length > 1 ? `${name} (${kindName(kind)})` : name;
  for (const [kind, names] of byKind) {
    const of = (system, name) => system.measures.find((m) => m.kind === kind && m.name === name && known(m.value));
    const shared = [...names].filter((name) => systems.every((system) => of(system, name)));
    const lower = systems.some((system) => system.measures.some((m) => m.kind === kind && m.lower_is_better));
    if (shared.length > 1) all.push({ name: say`mean ${kindName(kind)} of ${shared.length} sets`, lower,
      values: systems.map((system) =>
      ({ value: shared.reduce((sum, name) => sum + of(system, name).value, 0) / shared.length })) });
    for (const name of names) all.push({ name: title(kind, name), lower,
      values: systems.map((system) => of(system, name) || { value: null }) });
  }
  return all.filter((quality) => quality.values.filter((v) => known(v.value)).length > 1);
};

const costs = () => {
  const choices = qualities();
  const values = (field) => new Set(systems.map((system) => system[field])
    .filter((value) => known(value) && value > 0));
  const fields = Object.keys(COSTS).filter((field) => values(field).size > 1);
  if (!choices.length || !fields.length) return;
  byId("cost").hidden = false;
  byId("cost-y").append(...choices.map((choice, i) => html("option", { value: i }, choice.name)));
  byId("cost-x").append(...fields.map((field) => html("option", { value: field }, COSTS[field][0])));
  const box = byId("cost-plot");
  const redraw = drawn(box, (width) => costPlot(box, width, choices[byId("cost-y").value], byId("cost-x").value));
  for (const id of ["cost-y", "cost-x"]) byId(id).addEventListener("change", redraw);
};

const costPlot = (box, width, quality, field) => {
  const [costName, costText, costSign] = COSTS[field], qualitySign = quality.lower ? -1 : 1;
  const points = systems.map((system, index) => ({ index, cost: system[field], ...quality.values[index] }))
    .filter((point) => known(point.value) && known(point.cost) && point.cost > 0);
  const height = clamp(width * 0.5, 280, 420), edge = { left: 52, right: 24, top: 32, bottom: 44 };
  const inner = { width: width - edge.left - edge.right, height: height - edge.top - edge.bottom };
  const logs = padded(points.map((p) => Math.log10(p.cost)), 0.12), span = Math.max(logs[1] - logs[0], 0.12);
  const middle = (logs[0] + logs[1]) / 2, x = (v) => edge.left + inner.width * ((Math.log10(v) - middle) / span + 0.5);
  const [low, high] = padded(points.flatMap((p) =>
    [p.value, known(p.low) ? p.low : p.value, known(p.high) ? p.high : p.value]), 0.1);
  const y = (value) => edge.top + inner.height * (1 - (value - low) / (high - low));
  const described = (p) => say`${systems[p.index].name} ${significant(p.value, 3)} at ${costText(p.cost)}`;
  const said = points.map(described).join("; ");
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": say`${quality.name} against ${costName}: ${said}` });
  const right = width - edge.right, bottom = height - edge.bottom;
  const ticks = logTicks(10 ** (middle - span / 2), 10 ** (middle + span / 2));
  const title = costSign > 0 ? say`${costName}, faster to the right` : say`${costName}, less to the left`;
  root.append(...yAxis(low, high, y, edge.left, right),
    ...xAxis(ticks, costText, x, edge.left, right, bottom, title),
    svg("text", { class: "title", x: 0, y: 10 }, quality.name));
  const taken = points.map((p) => ({ left: x(p.cost) - 7, right: x(p.cost) + 7, top: y(p.value) - 7,
    bottom: y(p.value) + 7 }));
  for (const p of points) {
    const beaten = points.some((q) => costSign * q.cost >= costSign * p.cost
      && qualitySign * q.value >= qualitySign * p.value
      && (q.cost !== p.cost || q.value !== p.value));
    const cx = x(p.cost), cy = y(p.value), name = clip(shortNames[p.index], 24), wide = 6.4 * name.length;
    if (known(p.low) && known(p.high))
      root.append(svg("line", { x1: cx, x2: cx, y1: y(p.low), y2: y(p.high), stroke: colour(p.index),
        "stroke-width": 1.5, opacity: 0.55 }));
    root.append(svg("circle", { cx, cy, r: 5.5, fill: beaten ? "var(--paper)" : colour(p.index),
      stroke: colour(p.index), "stroke-width": 2 }));
    const spots = [[11, 4], [-11 - wide, 4], [8, -10], [8, 18], [-8 - wide, -10], [-8 - wide, 18], [-wide / 2, -14],
      [-wide / 2, 24]]
      .map(([dx, dy]) => ({ left: cx + dx, right: cx + dx + wide, top: cy + dy - 11, bottom: cy + dy + 3 }));
    const crossed = (a) => taken.filter((b) => a.left < b.right && b.left < a.right && a.top < b.bottom
      && b.top < a.bottom).length
      + (a.left < 0 || a.right > width ? 4 : 0) + (a.bottom > bottom ? 2 : 0);
    const spot = spots.reduce((best, next) => (crossed(next) < crossed(best) ? next : best));
    taken.push(spot);
    root.append(svg("text", { class: "name halo", x: spot.left, y: spot.bottom - 3 }, name));
  }
  box.replaceChildren(root);
};

// Nearest neighbours side by side
const COSINE = say`The number is the cosine of the two vectors.`;
const neighbours = () => {
  const has = (word) => systems.some((system) => Object.hasOwn(system.neighbours, word));
  const words = [...new Set([...data.queries, ...systems.flatMap((system) => Object.keys(system.neighbours))])]
    .filter(has);
  if (!words.length) return;
  byId("neighbours").hidden = false;
  const input = byId("query"), lists = byId("neighbour-lists");
  byId("query-words").append(...words.map((word) => html("option", { value: word })));
  const chips = words.slice(0, 24).map((word) => html("button", { type: "button" }, word));
  byId("query-chips").append(...chips);
  const column = (list, index, ...heading) =>
    html("div", {}, html("h3", {}, swatch(index), html("span", {}, ...heading)), list);
  const show = (word) => {
    chips.forEach((chip, i) => chip.setAttribute("aria-pressed", words[i] === word));
    const found = systems.map((system) => (Object.hasOwn(system.neighbours, word) ? system.neighbours[word] : null));
    const counts = new Map();
    for (const [near] of found.flatMap((list) => list || [])) counts.set(near, (counts.get(near) || 0) + 1);
    lists.replaceChildren(...found.map((list, index) => column(list ? html("ol", {}, ...list.map(([near, cosine]) =>
      row(near, cosine, index, counts.get(near)))) : html("p", {}, say`not in the vocabulary`), index,
        shortNames[index])));
    const having = found.filter(Boolean).length,
      everywhere = [...counts.values()].filter((count) => count === having).length;
    const shared = having === 2
      ? say`For “${word}”, ${everywhere} of ${counts.size} different neighbours are in both lists.`
      : say`For “${word}”, ${everywhere} of ${counts.size} different neighbours are in all ${having} lists.`;
    byId("neighbour-note").textContent = having < 2 ? COSINE : [shared, COSINE,
      say`Point at a word to see which systems have it. Dotted: only this one.`].join(say` `);
  };
  const row = (near, cosine, index, count) => {
    const bar = html("b");
    bar.style.width = `${clamp(cosine || 0, 0, 1) * 100}%`;
    bar.style.background = colour(index);
    const item = html("li", count === 1 && systems.length > 1 ? { class: "alone" } : {},
      html("bdi", { title: near }, near),
      html("data", { value: cosine ?? "" }, known(cosine) ? cosine.toFixed(2).replace("-", "−") : "–"),
        html("i", { "aria-hidden": "true" }, bar));
    item.addEventListener("pointerenter", () => {
      lists.classList.add("pointing");
      lists.querySelectorAll("li").forEach((other) =>
        other.classList.toggle("same", other.firstChild.textContent === near));
    });
    item.addEventListener("pointerleave", () => lists.classList.remove("pointing"));
    return item;
  };
  chips.forEach((chip, i) => chip.addEventListener("click", () => { input.value = ""; show(words[i]); }));
  input.addEventListener("input", () => {
    const word = input.value.trim();
    if (has(word)) show(word);
    else if (word) byId("neighbour-note").textContent =
      say`“${word}” is not among the ${words.length} words of this report.`;
  });
  if (systems.length > 1) { show(words[0]); return; }
  // with one system there is nothing to choose: a list for every word
  document.querySelector("#neighbours .choice").hidden = byId("query-chips").hidden = true;
  lists.append(...words.map((word) => column(html("ol", {},
    ...systems[0].neighbours[word].map(([near, cosine]) => row(near, cosine, 0, 1))), 0, word)));
  byId("neighbour-note").textContent = COSINE;
};

// Maps of words
const maps = () => {
  const shown = systems.map((system, index) =>
    ({ system, index, words: system.map.filter((w) => known(w.x) && known(w.y)) }))
    .filter((map) => map.words.length);
  if (!shown.length) return;
  byId("maps").hidden = false;
  matchClusters(shown);
  const grid = byId("map-grid");
  grid.classList.toggle("few", shown.length < 3);
  const focus = { found: new Set(), pointed: null };
  const drawAll = () => views.forEach((view) => view());
  const views = shown.map((map) => wordMap(grid, map, focus, () => drawAll(), shown.length));
  const all = [...new Set(shown.flatMap((map) => map.words.map((w) => w.word)))];
  byId("map-words").append(...all.map((word) => html("option", { value: word })));
  byId("find").addEventListener("input", (event) => {
    const text = event.target.value.trim().toLocaleLowerCase();
    const exact = all.filter((word) => word.toLocaleLowerCase() === text);
    focus.found = new Set(!text ? [] : exact.length ? exact : all
      .filter((word) => word.toLocaleLowerCase().startsWith(text)));
    const on = shown.filter((map) => map.words.some((w) => focus.found.has(w.word))).length;
    const count = focus.found.size;
    byId("find-note").textContent = !text ? "" : !count
      ? say`“${text}” is not among the ${all.length} words of the maps.`
      : count === 1 ? say`“${[...focus.found][0]}” is on ${on} of ${shown.length} maps.`
      : say`${count} words that begin so are on ${on} of ${shown.length} maps.`;
    drawAll();
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawAll);
};

const matchClusters = (shown) => {  // a cluster takes the colour of the cluster on the first map that shares most words
  const first = new Map(shown[0].words.map((w) => [w.word, w.cluster]));
  for (const map of shown.slice(1)) {
    const pairs = new Map();
    for (const { word, cluster } of map.words) if (first.has(word)) {
      const key = `${cluster} ${first.get(word)}`;
      pairs.set(key, (pairs.get(key) || 0) + 1);
    }
    const chosen = new Map(), used = new Set();
    for (const [key] of [...pairs].sort((a, b) => b[1] - a[1])) {
      const [own, theirs] = key.split(" ").map(Number);
      if (!chosen.has(own) && !used.has(theirs)) { chosen.set(own, theirs); used.add(theirs); }
    }
    for (const { cluster } of map.words) if (!chosen.has(cluster)) {
      let spare = 0;
      while (used.has(spare)) spare++;
      chosen.set(cluster, spare);
      used.add(spare);
    }
    map.words = map.words.map((w) => ({ ...w, cluster: chosen.get(w.cluster) }));
  }
};

const wordMap = (grid, { system, index, words }, focus, drawAll, count) => {
  const canvas = html("canvas", { tabindex: 0, role: "img",
    "aria-label": say`Map of ${words.length} words of ${system.name}` });
  const button = (text, label, act) => {
    const node = html("button", { type: "button", "aria-label": label, title: label }, text);
    node.addEventListener("click", act);
    return node;
  };
  grid.append(html("div", { class: "map" },
    html("h3", { title: system.name }, swatch(index), html("span", {}, shortNames[index])),
    html("div", {}, canvas), html("div", { class: "zoom" }, button("+", say`Nearer`, () => zoom(1.5)),
      button("−", say`Farther`, () => zoom(1 / 1.5)),
      button("⟲", say`Whole map`, () => reset()))));
  const holder = canvas.parentElement, sorted = [...words].sort((a, b) => b.count - a.count);
  const ends = [extent(words.map((w) => w.x)), extent(words.map((w) => w.y))];
  const centre = ends.map(([low, high]) => (low + high) / 2), spread = ends.map(([low, high]) => high - low || 1);
  const view = { scale: 1, x: 0, y: 0 };
  let size = [0, 0], pad = 34;
  const unit = () => Math.min((size[0] - 2 * pad) / spread[0], (size[1] - 2 * pad + 16) / spread[1]) * view.scale;
  const place = (w) => [size[0] / 2 + (w.x - centre[0]) * unit() + view.x,
    size[1] / 2 - (w.y - centre[1]) * unit() + view.y];
  const widths = new Map();
  const draw = () => {
    const context = canvas.getContext("2d"), ratio = Math.max(devicePixelRatio || 1, 1.5);
    canvas.width = size[0] * ratio; canvas.height = size[1] * ratio;
    context.scale(ratio, ratio);
    context.textAlign = "center"; context.textBaseline = "middle"; context.lineJoin = "round";
    const marked = (w) => focus.found.has(w.word) || focus.pointed === w.word;
    const dimmed = focus.found.size > 0, taken = [], family = css("--sans"), paper = css("--raised");
    const ranked = [...sorted.filter(marked), ...sorted.filter((w) => !marked(w))], dots = [], labels = [];
    ranked.forEach((w, rank) => {
      const [px, py] = place(w), strong = marked(w);
      if (px < -60 || py < -20 || px > size[0] + 60 || py > size[1] + 20) return;
      const points = strong ? 14 : rank < words.length * 0.06 ? 13 : rank < words.length * 0.3 ? 12 : 11;
      const text = clip(w.word, 24), font = `${strong ? 700 : 400} ${points}px ${family}`, key = font + text;
      if (!widths.has(key)) { context.font = font; widths.set(key, context.measureText(text).width); }
      const half = widths.get(key) / 2 + 2, high = points / 2 + 2;
      const area = [px - half, py - high, px + half, py + high];
      const inside = area[0] > 0 && area[2] < size[0] && area[1] > 0 && area[3] < size[1];
      const free = !taken.some((t) => area[0] < t[2] && t[0] < area[2] && area[1] < t[3] && t[1] < area[3]);
      if (strong || (inside && free)) { taken.push(area); labels.push({ w, px: clamp(px, half, size[0] - half), py,
        text, font, strong }); }
      else dots.push({ w, px, py });
    });
    const inks = Array.from({ length: CLUSTER_COLOURS }, (_, i) => css(`--c${i}`));
    const ink = (w) => inks[w.cluster >= 0 ? w.cluster % CLUSTER_COLOURS : 9];
    for (const { w, px, py } of dots) {
      context.globalAlpha = dimmed ? 0.18 : 0.45;
      context.fillStyle = ink(w);
      context.beginPath(); context.arc(px, py, 1.6, 0, 7); context.fill();
    }
    for (const { w, px, py, text, font, strong } of labels.reverse()) {
      context.globalAlpha = dimmed && !strong ? 0.35 : 1;
      context.font = font;
      context.strokeStyle = paper;
      context.lineWidth = strong ? 5 : 3;
      context.strokeText(text, px, py);
      context.fillStyle = strong ? css("--ink") : ink(w);
      context.fillText(text, px, py);
      if (strong) context.fillRect(px - widths.get(font + text) / 2, py + 9, widths.get(font + text), 1.5);
    }
    canvas.classList.toggle("moved", view.scale > 1);
  };
  const zoom = (factor, at = [size[0] / 2, size[1] / 2]) => {
    const scale = clamp(view.scale * factor, 0.5, 60), by = scale / view.scale;
    view.x = (view.x - at[0] + size[0] / 2) * by + at[0] - size[0] / 2;
    view.y = (view.y - at[1] + size[1] / 2) * by + at[1] - size[1] / 2;
    view.scale = scale;
    draw();
  };
  const move = (dx, dy) => { view.x += dx; view.y += dy; draw(); };
  const reset = () => { Object.assign(view, { scale: 1, x: 0, y: 0 }); draw(); };
  const point = (word) => { if (focus.pointed !== word) { focus.pointed = word; drawAll(); } };
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) { hideTip(); move(event.movementX, event.movementY); return; }
    const [px, py] = [event.offsetX, event.offsetY];
    let nearest = null, closest = 16;
    for (const w of sorted) { const [x, y] = place(w),
      far = Math.hypot((x - px) / 1.6, y - py); if (far < closest) { closest = far; nearest = w; } }
    point(nearest && nearest.word);
    if (nearest) showTip(event.clientX, event.clientY, html("bdi", {}, html("b", {}, nearest.word)),
      html("span", { class: "quiet" }, say` ${nearest.count.toLocaleString("en")} times`));
    else hideTip();
  });
  canvas.addEventListener("pointerleave", () => { point(null); hideTip(); });
  canvas.addEventListener("dblclick", (event) => zoom(2, [event.offsetX, event.offsetY]));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;  // the page scrolls
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0025)), [event.offsetX, event.offsetY]);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40),
      ArrowDown: () => move(0, -40),
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: reset }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
  });
  drawn(holder, (width) => {
    size = [width, Math.round(count === 1 ? clamp(width * 0.62, 320, 680) : width * (count === 2 ? 0.85 : 0.95))];
    canvas.style.height = `${size[1]}px`;
    draw();
  });
  return draw;
};

if (systems.length > 1) sortable(document.querySelector("table.main"));
curves();
byTask();
panels();
costs();
neighbours();
maps();
addEventListener("beforeprint", () => redraws.forEach((redraw) => redraw()));
