// How metrics went over several runs, and which rows each run got right.

const TREND = { width: 320, height: 110, left: 48, right: 8, top: 10, bottom: 10 };

/** One metric over the runs, with intervals. */
function trendCard(line, names) {
  const shown = line.kind === "binary" ? (value) => percent(value) : figure;
  const known = line.values.filter((each) => typeof each.value === "number");
  if (!known.length) return null;
  const ends = known.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const room = (most - least || Math.abs(most) || 1) * 0.08;
  const { width, height, left, right, top, bottom } = TREND;
  const x = (at) => left + ((width - left - right) * at) / Math.max(1, names.length - 1);
  const y = (value) => height - bottom - ((height - top - bottom) * (value - least + room)) / (most - least + 2 * room);
  const said = line.values.map(({ value, low, high }, at) => `${names[at]}: ${typeof value === "number" ? shown(value) : "–"}${typeof low === "number" ? ` (${shown(low)} to ${shown(high)})` : ""}`);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "trend", role: "img", "aria-label": `${line.name} over the runs. ${said.join("; ")}` });
  for (const value of [least, (least + most) / 2, most]) {
    drawn.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: left - 6, y: y(value) + 3.5 }, shown(value)));
  }
  const points = line.values.map(({ value }, at) => (typeof value === "number" ? `${x(at).toFixed(1)},${y(value).toFixed(1)}` : null)).filter(Boolean);
  drawn.append(svg("polyline", { points: points.join(" "), class: "line" }));
  line.values.forEach(({ value, low, high }, at) => {
    if (typeof value !== "number") return;
    const point = svg("g", {}, svg("title", {}, said[at]));
    if (typeof low === "number") point.append(svg("line", { x1: x(at), x2: x(at), y1: y(low), y2: y(high), class: "whisker" }));
    point.append(svg("circle", { cx: x(at), cy: y(value), r: 4 }));
    drawn.append(point);
  });
  const end = (at) => el("span", {}, data(names[at]), " ", el("b", {}, typeof line.values[at].value === "number" ? shown(line.values[at].value) : "–"));
  const table = el("table", { class: "figures" }, el("tbody", {}, ...line.values.map((each, at) => el("tr", {}, el("th", { scope: "row" }, data(names[at])), el("td", {}, said[at].slice(names[at].length + 2))))));
  return el("article", { class: "card" }, el("h3", {}, name(line.name)), drawn, el("div", { class: "axis" }, end(0), el("span", {}, "runs in order"), end(names.length - 1)), el("details", {}, el("summary", {}, "As a table"), table));
}

function trends(history, names, over = "Over the rows that every run has a figure for") {
  const cards = history.map((line) => trendCard(line, names)).filter(Boolean);
  const note = el("p", { class: "note" }, `${over}; lines are intervals.`);
  return cards.length ? el("div", {}, el("h3", { class: "part" }, "Over the runs"), el("div", { class: "trends" }, ...cards), note) : null;
}

const MOST_PATTERNS = 12;

/** Rows by which runs got them right, for one evaluator: each pattern with its rows, the commonest first. */
function runMap(rows, find) {
  const place = el("div");
  const select = el("select", { "aria-label": "Whose verdicts", change: () => draw(Number(select.value), MOST_PATTERNS) });
  rows.outcomes.forEach((each, at) => /[pf]/.test(each.results) && select.append(el("option", { value: at }, each.name)));
  if (!select.childElementCount) return el("div");
  function draw(at, most) {
    const counts = new Map();
    for (let row = 0; row < rows.count; row++) {
      const letters = rows.pattern(at, row);
      counts.set(letters, (counts.get(letters) || 0) + 1);
    }
    const found = [...counts].sort((one, other) => other[1] - one[1]);
    const more = found.length > most ? el("button", { type: "button", class: "more", click: () => draw(at, found.length) }, `${counted(found.length - most, "more pattern")}`) : null;
    place.replaceChildren(patternTable(rows, found.slice(0, most), (letters) => find("pattern", `${rows.outcomes[at].name} ${letters}`)), more || "");
  }
  draw(rows.main, MOST_PATTERNS);
  select.value = rows.main;
  return el("div", {}, el("h3", { class: "part" }, "Rows by run ", select), place);
}

function patternTable(rows, found, choose) {
  const heads = [...rows.names.map((title) => el("th", { scope: "col", class: "run" }, el("span", {}, data(title)))), el("th", { scope: "col" }, "rows"), el("th", { scope: "col", class: "words" }, "over the runs")];
  const lines = found.map(([letters, count]) => {
    const cells = [...letters].map((letter) => el("td", { class: `cell ${OUTCOMES[letter].kind}`, title: OUTCOMES[letter].word }, OUTCOMES[letter].sign || "·"));
    const button = el("button", { type: "button", class: "link", title: "show these rows", click: () => choose(letters) }, whole(count));
    return el("tr", {}, ...cells, el("td", {}, button), el("td", { class: "words" }, history(rows, letters)));
  });
  return scroller("Rows by run", el("table", { class: "figures patterns" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines)));
}
