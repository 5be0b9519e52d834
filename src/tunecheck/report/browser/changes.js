// Against another run: how each metric differs on the rows that both have.

/** A difference and its interval around zero. */
function differenceBar(line, reach) {
  const { value, low, high } = line.difference;
  const at = (number) => (50 + (50 * Math.max(-reach, Math.min(reach, number))) / reach).toFixed(2);
  const drawn = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar difference", "aria-hidden": "true" });
  drawn.append(svg("rect", { x: 0, y: 0, width: 100, height: 10, class: "track" }), svg("line", { x1: 50, x2: 50, y1: 0, y2: 10, class: "zero" }));
  if (typeof value !== "number") return drawn;
  const up = line.higher_is_better ? value > 0 : value < 0;
  const [from, to] = [Math.min(0, value), Math.max(0, value)];
  drawn.append(svg("rect", { x: at(from), y: 2, width: (at(to) - at(from)).toFixed(2), height: 6, class: `fill ${up ? "good" : "bad"}` }));
  if (typeof low === "number") drawn.append(svg("line", { x1: at(low), x2: at(high), y1: 5, y2: 5, class: "whisker" }));
  return drawn;
}

const signed = (number, shown) => `${number > 0 ? "+" : number < 0 ? "−" : "±"}${shown(Math.abs(number))}`;
const points = (share) => (share * 100).toFixed(1);
const third = (number) => number.toFixed(3);
const probability = (p) => (p < 0.001 ? "p < 0.001" : `p = ${p.toFixed(3)}`);

function verdictCell(line) {
  if (!line.verdict) return el("td", { class: "none" });
  const kind = line.verdict.split(" ")[0];
  const p = typeof line.p_adjusted === "number" ? line.p_adjusted : line.p_value;
  const about = typeof line.p_value === "number" ? `${line.test ? `${line.test}: ` : ""}${probability(line.p_value)}; corrected for the number of tests: ${probability(p)}` : null;
  const small = typeof p === "number" ? el("small", { title: about }, probability(p)) : null;
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
    el("td", { class: "wide" }, differenceBar(line, reach)),
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

/** A part of the rows as a line like a metric's. */
function partLine(part, held) {
  const { kind, higher_is_better } = held.metrics.find((line) => line.name === held.part_metric);
  return { ...part, kind, higher_is_better, name: `${part.column}: ${part.value}` };
}

/** One run held against the base. */
function heldNode(head, held, find, where) {
  const parts = held.notes.map((note) => el("p", { class: "note" }, "Note: ", data(note)));
  const tested = held.metrics.filter((line) => line.tested);
  const others = held.metrics.filter((line) => !line.tested);
  parts.unshift(tested.length ? changeTable(tested, find, where) : el("p", {}, "No metric has rows that both runs judged."));
  if (others.length) parts.push(el("details", { class: "by" }, el("summary", {}, counted(others.length, "more metric")), changeTable(others, find, where)));
  if (held.parts.length) parts.push(el("details", { class: "by" }, el("summary", {}, "Where ", name(held.part_metric), " differs"), changeTable(held.parts.map((part) => partLine(part, held)), find, where)));
  const corrected = tested.some((line) => line.primary) ? "the primary metric is tested by itself, the others are corrected for their number" : "verdicts are corrected for the number of tests";
  parts.push(el("p", { class: "note" }, `Differences are new minus base, with ${percent(head.against.confidence, 0)} intervals; ${corrected} (Holm).`));
  parts.unshift(...held.warnings.filter(Boolean).map((words) => el("p", { class: "note warn-text" }, data(words))));
  parts.push(onlyIn("the base", held.only_in_base), onlyIn("the new run", held.only_in_new));
  return parts.filter(Boolean);
}

/** The decision: its sentence, each objection, and the next step. */
function decisionNode([sentence, ...lines]) {
  return el("div", { class: "decision" }, el("p", {}, data(sentence, "b")), ...lines.map((line) => el("p", { class: "note" }, data(line))));
}

/** How far each run is from the best of the others. */
function bestNode(best, names, runs) {
  if (!best) return null;
  const rate = best.kind === "binary";
  const shown = rate ? (value) => percent(value) : figure;
  const line = ({ run, value, difference, may_be_best: mayBe }) => {
    const { low, high } = difference;
    const delta = rate ? points : third;
    const apart = typeof low === "number" ? `${signed(low, delta)} to ${signed(high, delta)}` : "–";
    return el("tr", {}, el("th", { scope: "row" }, data(names[runs.indexOf(run)] ?? run)), el("td", {}, typeof value.value === "number" ? shown(value.value) : "–"), el("td", {}, apart), el("td", {}, mayBe ? "may be the best" : ""));
  };
  const heads = ["run", best.metric, `from the best of the others${rate ? ", points" : ""}`, "so far"];
  const table = el("table", { class: "figures ranking" }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, data(text))))), el("tbody", {}, ...best.ranking.map(line)));
  const short = (text) => runs.reduce((said, id, at) => said.replaceAll(id, names[at]), text);
  const regressed = best.regressed ? el("p", { class: "bad-text" }, data(short(best.regressed), "b")) : null;
  return el("div", {}, regressed, el("details", { class: "by" }, el("summary", {}, "Ranking"), scroller("Ranking", table)));
}

/** Every run against the first: one of them at a time, how each metric went over all, and which rows changed (`map`). */
function changeSection(head, find, map) {
  const { against } = head;
  if (!against) return null;
  const runs = [...against.runs.map((each) => each.run), head.run];
  const names = shortNames(runs);
  const place = el("div");
  const select = el("select", { "aria-label": "The run that is held against the base", change: () => draw(Number(select.value)) });
  against.held.forEach((held, at) => select.append(el("option", { value: at }, names[at + 1])));
  const rows = el("span");
  function draw(at) {
    const held = against.held[at];
    select.value = at;
    rows.textContent = `: ${counted(held.pairs, "row")} of the same ${held.alike} in both.`;
    place.replaceChildren(...heldNode(head, held, find, at === against.held.length - 1 ? "" : ` in ${names[at + 1]}`));
  }
  draw(against.held.length - 1);
  const held = against.held.length > 1 ? [select, " held"] : ["Held"];
  const simulated = new Set([head.simulated, ...against.runs.map((each) => each.simulated)]);
  const warning = simulated.size > 1 ? el("p", { class: "badge warn" }, "Some of the runs are SIMULATED: this says nothing about a model.") : null;
  const parts = [decisionNode(against.decision), bestNode(against.best, names, runs), el("p", {}, ...held, " against ", el("b", {}, data(names[0], "span", { title: against.runs[0].run })), rows), warning, place];
  if (names.length > 2) parts.push(trends(against.history, names), map);
  return section("changes", "Changes", ...parts.filter(Boolean));
}
