// Against other runs: the decision, all candidates, slices, and how each metric differs on the rows that both have.

/** The place of a value between two ends, in percent. */
const placeIn = ([low, high]) => (value) => ((100 * (Math.max(low, Math.min(high, value)) - low)) / (high - low || 1)).toFixed(2);

/** A difference with its interval, and a line at zero, between the ends of an axis. */
function differenceBar({ value, low, high }, ends, kind = "") {
  const at = placeIn(ends);
  const drawn = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: `bar difference ${kind}`, "aria-hidden": "true" });
  drawn.append(svg("line", { x1: at(0), x2: at(0), y1: 0, y2: 10, class: "zero" }));
  if (typeof low === "number") drawn.append(svg("line", { x1: at(low), x2: at(high), y1: 5, y2: 5, class: "whisker" }));
  if (typeof value === "number") drawn.append(svg("line", { x1: at(value), x2: at(value), y1: 5, y2: 5, class: "point" }));
  return drawn;
}

/** Four to eight round numbers between two ends. */
function ticksOf([low, high]) {
  const size = (high - low || 1) / 5;
  const power = 10 ** Math.floor(Math.log10(size));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= size);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(at * step);
  return found;
}

/** Differences on one axis, a line each: `label`, `difference`, `words`, and `kind`: good, bad or marked. */
function forest(items, axis, rate) {
  const ends = items.flatMap(({ difference }) => [difference.value, difference.low, difference.high]).filter((each) => typeof each === "number");
  const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const room = (most - least || 0.01) * 0.05;
  const span = [least - room, most + room];
  const ticks = ticksOf(span).map((value) => {
    const tick = el("span", {}, rate ? String(Math.round(value * 1e4) / 100).replace("-", "−") : figure(value));
    tick.style.setProperty("left", `${placeIn(span)(value)}%`);
    return tick;
  });
  const lines = items.map((item) => el("li", { class: item.kind || null }, el("span", { class: "label" }, item.label), differenceBar(item.difference, span, item.kind), el("span", { class: "words" }, item.words)));
  return el("figure", { class: "forest" }, el("ul", {}, ...lines, el("li", { class: "ticks", "aria-hidden": "true" }, el("div", {}, ...ticks))), el("figcaption", {}, axis));
}

const signed = (number, shown) => `${number > 0 ? "+" : number < 0 ? "−" : "±"}${shown(Math.abs(number))}`;
const points = (share) => rounded(share * 100, 1);
const third = (number) => rounded(number, 3);
const probability = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);

function verdictCell(line) {
  if (!line.verdict) return el("td", { class: "none" });
  const kind = line.verdict.split(" ")[0];
  const p = typeof line.p_adjusted === "number" ? line.p_adjusted : line.p_value;
  const about = typeof line.p_value === "number" ? `${line.test ? `${line.test}: ` : ""}${probability(line.p_value)}; corrected for the number of tests: ${probability(p)}` : null;
  const small = typeof p === "number" ? el("small", { title: about }, `${typeof line.p_adjusted === "number" ? "adjusted " : ""}${probability(p)}`) : null;
  return el("td", { class: "verdict-cell" }, el("b", { class: `verdict ${kind}`, title: line.why || null }, data(line.verdict)), small);
}

function changeLine(line, reach, find, where) {
  const rate = line.kind === "binary";
  const shown = rate ? (value) => (typeof value === "number" ? percent(value) : "–") : figure;
  const delta = rate ? points : third;
  const { value, low, high, method, remark } = line.difference;
  const totals = line.totals || {}; // a part has none
  const about = typeof low === "number" ? `${signed(low, delta)} to ${signed(high, delta)}` : remark || "";
  const rows = (count, change) => {
    if (typeof count !== "number") return "";
    return count && line.tested ? el("button", { type: "button", class: "link", click: () => find("change", `${line.evaluator}: ${change}${where}`) }, whole(count)) : whole(count);
  };
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name(line.name), " ", el("span", { class: "sub" }, line.primary ? "primary, " : "", rate ? "passed" : "mean", line.higher_is_better ? "" : " (lower is better)")),
    el("td", {}, shown(line.base.value)),
    el("td", {}, shown(line.new.value)),
    el("td", { class: "wide" }, differenceBar(line.difference, [-reach, reach], line.verdict === "better" ? "good" : line.verdict === "worse" ? "bad" : "")),
    el("td", {}, el("b", {}, typeof value === "number" ? signed(value, delta) + (rate ? " points" : "") : "–"), el("small", { title: method || null }, about)),
    verdictCell(line),
    el("td", {}, rows(totals.regressed ?? line.b, "regressed")),
    el("td", {}, rows(totals.fixed ?? line.c, "fixed")),
    el("td", {}, typeof totals.changed === "number" ? whole(totals.changed) : ""),
    el("td", {}, whole(line.difference.n)),
  );
}

function changeTable(metrics, find, where) {
  const heads = ["metric", "base", "new", "", "difference", "verdict", "regressed", "fixed", "changed", "rows"];
  const reach = {};
  for (const { kind, difference } of metrics) {
    for (const end of [difference.value, difference.low, difference.high]) if (typeof end === "number") reach[kind] = Math.max(reach[kind] || 0, Math.abs(end));
  }
  const lines = metrics.map((line) => changeLine(line, reach[line.kind] || 1, find, where));
  for (const line of lines) [...line.cells].forEach((cell, at) => (cell.dataset.label = heads[at])); // where columns do not fit
  return scroller("How each metric differs", el("table", { class: "figures changes" }, el("thead", {}, el("tr", {}, ...heads.map((text) => (text ? el("th", { scope: "col" }, text) : el("td"))))), el("tbody", {}, ...lines)));
}

function onlyIn(title, found) {
  if (!found.count) return null;
  const more = found.count - found.first.length;
  const ids = found.first.flatMap((id, at) => [at ? ", " : "", data(id)]);
  return el("details", { class: "by" }, el("summary", {}, `${counted(found.count, "row")} only in ${title}`), el("p", {}, ...ids, more ? ` and ${whole(more)} more` : ""));
}

/** `−4.7 points (−8.1 to −1.3)` */
function differenceWords({ value, low, high }, rate) {
  const shown = rate ? points : third;
  const about = typeof low === "number" ? ` (${signed(low, shown)} to ${signed(high, shown)})` : "";
  return typeof value === "number" ? `${signed(value, shown)}${about}` : "–";
}

/** The parts of the rows on one axis, worst first; open if one is worse. */
function slicesNode(head, held) {
  const primary = held.metrics.find((line) => line.name === held.part_metric);
  if (!held.parts.length) return null;
  const rate = primary.kind === "binary";
  const shown = rate ? (value) => (typeof value === "number" ? percent(value) : "–") : figure;
  const up = primary.higher_is_better ? 1 : -1;
  const sorted = held.parts.filter((part) => typeof part.difference.value === "number").sort((one, other) => up * (one.difference.value - other.difference.value));
  const kinds = { better: "good", worse: "bad" };
  const items = sorted.map((part) => {
    const least = part.smallest_difference && typeof part.smallest_difference.value === "number" ? el("small", { title: "the smallest difference that this many rows would show with 80% power" }, ` detectable: ${rate ? points(part.smallest_difference.value) : third(part.smallest_difference.value)}`) : null;
    const label = el("span", {}, name(part.title ? `${part.column} ${part.value}` : `${part.column}=${part.value}`), el("small", {}, ` ${counted(part.difference.n, "row")}`));
    return { label, difference: part.difference, kind: kinds[part.verdict], words: el("span", {}, `${shown(part.base.value)} → ${shown(part.new.value)}, ${differenceWords(part.difference, rate)}`, least) };
  });
  const worse = sorted.filter((part) => part.verdict === "worse").length;
  const summary = el("summary", {}, `Slices: ${worse ? `${whole(worse)} of ${whole(sorted.length)} worse` : `none of ${whole(sorted.length)} shown to be worse`}`);
  const axis = `${held.part_metric}: new − base${rate ? ", points" : ""} (${percent(head.against.confidence, 0)} intervals)`;
  return el("details", { class: "by", open: worse > 0 }, summary, forest(items, axis, rate));
}

/** Causes that grew, and the first regressed rows. */
function brokenNodes(held, find, isLast, rows, run, open) {
  const parts = [];
  if (held.causes.length) {
    const line = (each) => el("li", {}, isLast ? el("button", { type: "button", class: "link", click: () => find("causes", each.title) }, each.title) : each.title, `: ${whole(each.base)} → ${whole(each.new)} rows`);
    parts.push(el("h3", {}, "Causes that grew"), el("ul", {}, ...held.causes.slice(0, 3).map(line)));
  }
  if (rows) {
    const evaluator = Math.max(0, rows.outcomes.findIndex((each) => each.name === held.part_metric));
    const found = [];
    for (let row = 0; row < rows.count && found.length < 3; row++) if (rows.change(evaluator, row, run) === "regressed") found.push(row);
    const line = (row) => el("li", {}, el("button", { type: "button", class: "link", click: () => open(row) }, data(rows.ids[row])), " ", data(rows.questions[row], "span", { class: "sub" }));
    if (found.length) parts.push(el("h3", {}, "First regressed rows"), el("ul", {}, ...found.map(line)));
  }
  return parts;
}

/** One run held against the base. */
function heldNode(head, held, find, where) {
  const parts = held.notes.map((note) => el("p", { class: "note" }, "Note: ", data(note)));
  const tested = held.metrics.filter((line) => line.tested);
  const others = held.metrics.filter((line) => !line.tested);
  parts.unshift(tested.length ? changeTable(tested, find, where) : el("p", {}, "No metric has rows that both runs judged."));
  if (others.length) parts.push(el("details", { class: "by" }, el("summary", {}, counted(others.length, "more metric")), changeTable(others, find, where)));
  const corrected = tested.some((line) => line.primary) ? "the primary metric is tested by itself, the others are corrected for their number" : "verdicts are corrected for the number of tests";
  parts.push(el("p", { class: "note" }, `Differences are new minus base, with ${percent(head.against.confidence, 0)} intervals; ${corrected} (Holm).`));
  parts.unshift(...held.warnings.filter(Boolean).map((words) => el("p", { class: "note warn-text" }, data(words))));
  parts.push(onlyIn("the base", held.only_in_base), onlyIn("the new run", held.only_in_new));
  return parts.filter(Boolean);
}

/** The decision as a card: what to do, why, each objection, and the next step. */
function decisionNode({ decision, head, because, lines }) {
  const objections = lines.filter(([text]) => text.startsWith("- ")).map(([text, effect]) => el("li", { class: effect }, data(text.slice(2))));
  const others = lines.filter(([text]) => !text.startsWith("- ")).map(([text, effect]) => el("p", { class: effect }, data(text.replaceAll("`", ""))));
  return el("div", { class: `decision ${decision}` }, el("h3", {}, data(head)), ...because.map((text) => el("p", {}, data(text))), el("ul", {}, ...objections), ...others);
}

/** All candidates on one axis: of several, how far each is from the best of the others; of one, from the base. */
function candidatesNode(against, names, runs) {
  const { best, decision, confidence } = against;
  const level = percent(confidence, 0);
  if (!best) {
    const held = against.held.at(-1);
    const line = held.metrics.find((each) => each.name === held.part_metric);
    const rate = line.kind === "binary";
    return forest([{ label: data(names.at(-1)), difference: line.difference, kind: "marked", words: differenceWords(line.difference, rate) }], `${line.name}: new − base${rate ? ", points" : ""} (${level} interval)`, rate);
  }
  const rate = best.kind === "binary";
  const items = best.ranking.map(({ run, value, difference }) => {
    const isCandidate = run === decision.candidate;
    const sign = isCandidate && decision.decision === "ship" ? el("b", { title: "recommended" }, "★ ") : "";
    const role = run === best.base ? " base" : isCandidate && sign ? " recommended" : isCandidate ? " candidate" : "";
    const label = el("span", {}, sign, data(names[runs.indexOf(run)] ?? run), el("small", {}, role));
    return { label, difference, kind: isCandidate ? "marked" : "", words: `${typeof value.value === "number" ? (rate ? percent(value.value) : figure(value.value)) : "–"}; ${differenceWords(difference, rate)}` };
  });
  return forest(items, `${best.metric}: difference from the best other run${rate ? ", points" : ""} (${level} intervals, simultaneous)`, rate);
}

/** Every run against the first: the decision, all candidates, one run's slices and rows, and all runs over time (`map`). */
function changeSection(head, find, map, open) {
  const { against } = head;
  if (!against) return null;
  const runs = [...against.runs.map((each) => each.run), head.run];
  const names = shortNames(runs);
  const [place, slices, broken] = [el("div"), el("div", { class: "slices" }), el("div", { class: "broken" })];
  const select = el("select", { "aria-label": "The run that is compared with the base", change: () => draw(Number(select.value)) });
  against.held.forEach((held, at) => select.append(el("option", { value: at }, names[at + 1])));
  const shared = el("span");
  let known = null;
  let shown = Math.max(0, against.held.findIndex((held) => held.run === against.decision.candidate));
  function draw(at) {
    const held = against.held[at];
    const isLast = at === against.held.length - 1;
    select.value = shown = at;
    shared.textContent = ` on ${counted(held.pairs, "row")} of the same ${held.alike}.`;
    slices.replaceChildren(...[slicesNode(head, held)].filter(Boolean));
    broken.replaceChildren(...brokenNodes(held, find, isLast, known, at + 1, open));
    place.replaceChildren(...heldNode(head, held, find, isLast ? "" : ` in ${names[at + 1]}`));
  }
  draw(shown);
  const held = against.held.length > 1 ? [select, " compared"] : ["Compared"];
  const simulated = new Set([head.simulated, ...against.runs.map((each) => each.simulated)]);
  const warning = simulated.size > 1 ? el("p", { class: "badge warn" }, "Some of the runs are SIMULATED: this says nothing about a model.") : null;
  const short = (text) => runs.reduce((said, id, at) => said.replaceAll(id, names[at]), text);
  const regressed = against.regressed ? el("p", { class: "bad-text" }, data(short(against.regressed), "b")) : null;
  const about = el("p", { class: "about" }, ...held, " with ", el("b", {}, data(names[0], "span", { title: against.runs[0].run })), shared);
  const left = el("div", {}, decisionNode(against.decision), broken);
  const right = el("div", {}, candidatesNode(against, names, runs), about, slices);
  const parts = [el("div", { class: "side" }, left, right), regressed, warning, place];
  if (names.length > 2) parts.push(trends(against.history, names), map);
  const node = section("changes", "Decision", ...parts.filter(Boolean));
  return { node, follow: (rows) => draw(shown, (known = rows)) };
}
