// Small charts: bars with intervals, histograms, a table of confusions. Drawn in SVG, labelled in text.

function card(title, ...children) {
  return el("article", { class: "card" }, el("h3", {}, title), ...children);
}

/** A bar from 0 to 1 with its interval. */
function bar(share, low, high, kind) {
  const at = (value) => (100 * Math.min(1, Math.max(0, value))).toFixed(2);
  const drawn = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" });
  drawn.append(svg("rect", { x: 0, y: 0, width: 100, height: 10, class: "track" }));
  drawn.append(svg("rect", { x: 0, y: 0, width: at(share), height: 10, class: `fill ${kind}` }));
  if (typeof low === "number" && typeof high === "number") {
    drawn.append(svg("line", { x1: at(low), x2: at(high), y1: 5, y2: 5, class: "whisker" }));
    for (const end of [low, high]) drawn.append(svg("line", { x1: at(end), x2: at(end), y1: 2, y2: 8, class: "whisker" }));
  }
  return drawn;
}

/** Lines of label, bar and figure; `choose` makes the labels buttons. More than `most` are shown on demand. */
function bars(items, { most = 10, choose = null, stacked = false } = {}) {
  const list = el("ul", { class: stacked ? "bars stacked" : "bars" });
  const line = (item) => {
    const label = choose
      ? el("button", { type: "button", class: "link", title: "show these rows", click: () => choose(item) }, name(item.label))
      : name(item.label);
    const shown = el("span", { class: "figure" }, item.figure, item.small ? el("small", {}, ` ${item.small}`) : null);
    return el("li", {}, el("span", { class: "label" }, label), bar(item.share, item.low, item.high, item.kind || ""), shown);
  };
  list.append(...items.slice(0, most).map(line));
  if (!stacked) list.append(el("li", { class: "axis-line", "aria-hidden": "true" }, el("span"), el("span", { class: "axis" }, el("span", {}, "0%"), el("span", {}, "passed"), el("span", {}, "100%"))));
  if (items.length <= most) return list;
  const more = el("button", { type: "button", class: "more" }, `${whole(items.length - most)} more`);
  more.addEventListener("click", () => {
    list.querySelector(".axis-line")?.before(...items.slice(most).map(line)) ?? list.append(...(stacked ? items.slice(most).map(line) : []));
    more.remove();
  });
  return el("div", {}, list, more);
}

/** Counts as bars against the largest. */
function countBars(pairs, choose) {
  const largest = Math.max(...pairs.map((pair) => pair[1]));
  const items = pairs.map(([label, count]) => ({ label, share: count / largest, figure: whole(count), kind: "neutral" }));
  return bars(items, { choose: choose && ((item) => choose(item.label)), stacked: true });
}

function histogram(chart, shown, label, unit) {
  const { counts, low, high, log } = chart;
  const largest = Math.max(...counts);
  const width = 200 / counts.length;
  const edge = (at) => (log ? Math.exp(Math.log(low) + ((Math.log(high) - Math.log(low)) * at) / counts.length) : low + ((high - low) * at) / counts.length);
  const place = (value) => (200 * (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low || 1))).toFixed(2);
  const drawn = svg("svg", { viewBox: "0 0 200 70", preserveAspectRatio: "none", class: "histogram", role: "img", "aria-label": label });
  counts.forEach((count, at) => {
    const height = count ? Math.max(1.5, (66 * count) / largest) : 0;
    const box = svg("rect", { x: (at * width + 0.6).toFixed(2), y: (70 - height).toFixed(2), width: (width - 1.2).toFixed(2), height: height.toFixed(2), class: "fill neutral" });
    box.append(svg("title", {}, `${shown(edge(at))} to ${shown(edge(at + 1))}: ${counted(count, "row")}`));
    drawn.append(box);
  });
  const mark = (value, kind) => drawn.append(svg("line", { x1: place(value), x2: place(value), y1: 0, y2: 70, class: kind }));
  if (typeof chart.mean === "number") mark(chart.mean, "mean");
  if (typeof chart.threshold === "number" && chart.threshold >= low && chart.threshold <= high) mark(chart.threshold, "threshold");
  return el("div", {}, drawn, el("div", { class: "axis" }, el("span", {}, shown(low)), el("span", {}, log ? `${unit}, logarithmic` : unit), el("span", {}, shown(high))));
}

function distribution(chart) {
  const notes = [`mean ${figure(chart.mean)}`];
  if (typeof chart.threshold === "number") notes.push(`threshold ${figure(chart.threshold)}`);
  return card(name(chart.name), histogram(chart, figure, `How the scores of ${chart.name} are distributed`, "score"), el("p", { class: "note" }, notes.join(" · ")));
}

function measured(title, chart, shown, sum) {
  const notes = [`median ${shown(chart.p50)}`, `90% within ${shown(chart.p90)}`, `99% within ${shown(chart.p99)}`];
  if (sum) notes.push(`${shown(chart.sum)} in all`);
  return card(title, histogram(chart, shown, title, sum ? "tokens" : "time"), el("p", { class: "note" }, notes.join(" · ")));
}

/** Expected functions down, called ones across; what is confused is marked, and shows its rows. */
function confusion(chart, choose) {
  const names = [...chart.names, "(others)"];
  const used = (side) => names.map((_, at) => chart.cells.some((cell) => (cell[side] === -1 ? names.length - 1 : cell[side]) === at));
  const [down, across] = [used(0), used(1)];
  const counts = new Map(chart.cells.map(([row, column, count]) => [`${row},${column}`, count]));
  const wrong = Math.max(...chart.cells.filter(([row, column]) => row !== column).map((cell) => cell[2]));
  const code = (at) => (at === names.length - 1 ? -1 : at);
  const head = el("tr", {}, el("td", { class: "corner" }, "expected ↓ called →"));
  names.forEach((each, at) => across[at] && head.append(el("th", { scope: "col" }, el("span", {}, data(each)))));
  const body = el("tbody");
  names.forEach((expected, row) => {
    if (!down[row]) return;
    const line = el("tr", {}, el("th", { scope: "row" }, name(expected)));
    names.forEach((called, column) => {
      if (!across[column]) return;
      const count = counts.get(`${code(row)},${code(column)}`);
      const known = count && code(row) !== -1 && code(column) !== -1;
      const kind = !count ? "" : row === column ? "right" : "wrong";
      const cell = el("td", { class: kind, title: count ? `expected ${expected}, called ${called}: ${counted(count, "row")}` : null });
      if (kind === "wrong") cell.style.setProperty("--part", (0.25 + (0.75 * count) / wrong).toFixed(2));
      if (known) cell.append(el("button", { type: "button", class: "plain", click: () => choose([expected, called]) }, whole(count)));
      else if (count) cell.append(whole(count));
      line.append(cell);
    });
    body.append(line);
  });
  return el("article", { class: "card" }, el("h3", {}, "Expected and called functions"), el("div", { class: "scroll" }, el("table", { class: "confusion" }, el("thead", {}, head), body)), el("p", { class: "note" }, "Rows of single answers. What was confused most comes first."));
}

function functionChart(chart, choose) {
  const names = Object.keys(chart.by);
  const place = el("div");
  const select = el("select", { "aria-label": "Whose verdicts", change: () => draw(select.value) });
  for (const each of names) select.append(el("option", { value: each }, each));
  function draw(evaluator) {
    const items = chart.by[evaluator].map(([label, passed, judged, low, high]) => {
      const share = passed / judged;
      return { label, share, low, high, figure: percent(share, 0), small: `of ${whole(judged)}`, kind: "good" };
    });
    items.sort((one, other) => one.share - other.share || other.low - one.low);
    place.replaceChildren(bars(items, { choose: (item) => choose(item.label) }));
  }
  draw(names[0]);
  const rest = chart.all > chart.shown ? `The ${whole(chart.shown)} functions with the most rows, of ${whole(chart.all)}. ` : "";
  return card("Pass rate by expected function", names.length > 1 ? select : el("p", { class: "note" }, name(names[0])), place, el("p", { class: "note" }, `${rest}The lowest first; lines are 95% intervals.`));
}

function spentTable(rows) {
  const heads = ["", "calls", "tokens in", "tokens out", "cost"];
  const body = rows.map(([who, calls, input, output, cost]) => {
    return el("tr", {}, el("th", { scope: "row" }, name(who)), ...[calls, input, output].map((each) => el("td", {}, figure(each))), el("td", {}, data(cost || "no price")));
  });
  return card("Calls, tokens and cost", el("div", { class: "scroll" }, el("table", { class: "figures" }, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...body))));
}

/** All charts of a run; `find(facet, value)` shows the rows behind one. */
function chartSection(head, find) {
  const charts = head.charts;
  const cards = [passRates(head.summary), ...causeCards(charts.causes || {}, (value) => find("causes", value))];
  if (charts.functions) cards.push(functionChart(charts.functions, (value) => find("functions", value)));
  if (charts.reasons) cards.push(card("Faults that evaluators found", countBars(charts.reasons, (value) => find("reasons", value))));
  if (charts.differences) cards.push(card("Differences that judges found", countBars(charts.differences, (value) => find("differences", value))));
  if (charts.errors) cards.push(card("Errors", countBars(charts.errors, (value) => find("errors", value))));
  cards.push(...(charts.distributions || []).map(distribution));
  if (charts.latency) cards.push(measured("Latency of an answer", charts.latency, milliseconds, false));
  if (charts.first_token) cards.push(measured("Time to the first token", charts.first_token, milliseconds, false));
  const tokens = (number) => figure(Math.round(number));
  if (charts.input_tokens) cards.push(measured("Tokens in", charts.input_tokens, tokens, true));
  if (charts.output_tokens) cards.push(measured("Tokens out", charts.output_tokens, tokens, true));
  if (charts.reasoning_tokens) cards.push(measured("Tokens of reasoning", charts.reasoning_tokens, tokens, true));
  if (charts.spent) cards.push(spentTable(charts.spent));
  const below = charts.confusion ? confusion(charts.confusion, (pair) => find("confused", JSON.stringify(pair))) : null;
  return section("charts", "Charts", el("div", { class: "cards" }, ...cards.filter(Boolean)), below);
}

/** Why rows failed: what serving should change, then the model; each cause with what to try. */
function causeCards(sides, choose) {
  const titles = { serving: "Failed because of how the model is served", unknown: "Failed because of serving or of the model", model: "Failed because of the model" };
  return Object.entries(sides).map(([side, causes]) => {
    const advice = causes.map(([title, , words]) => el("li", {}, el("b", {}, title), `: ${words}`));
    return card(titles[side], countBars(causes, choose), el("details", {}, el("summary", {}, "What to try"), el("ul", {}, ...advice)));
  });
}

function passRates(summary) {
  const items = [];
  for (const evaluator of summary.evaluators) {
    const line = evaluator.lines.find((each) => each.kind === "rate");
    const cell = line && line.cells[0];
    if (cell) items.push({ label: evaluator.name, share: cell.value, low: cell.low, high: cell.high, figure: percent(cell.value), small: `of ${whole(cell.n)}`, kind: "good" });
  }
  return items.length ? card("Pass rate by evaluator", bars(items, { most: 20 }), el("p", { class: "note" }, "Lines are 95% intervals.")) : null;
}
