// The head of the page and the table of figures.

function pageHead(head) {
  const links = [head.against && ["changes", "Decision"], ["summary", "Summary"], ["charts", "Charts"], ...Object.keys(head.panels).map((name) => [name, panelTitle(name)]), ["rows", "Rows"]];
  const nav = el("nav", { "aria-label": "Parts of the report" }, ...links.filter(Boolean).map(partLink));
  const top = stickyHead();
  if (head.home) top.append(el("a", { href: head.home, class: "home" }, "All runs"));
  top.append(el("h1", { class: "title" }, data(head.run)), nav, themeButton());
  return top;
}

function badges(head) {
  const found = [];
  const some = head.simulated_rows > 0 && head.simulated_rows < head.rows;
  const where = some ? ` in ${counted(head.simulated_rows, "row")}` : ": no model was asked";
  if (head.simulated) found.push(el("strong", { class: "badge warn" }, `SIMULATED answers${where}`));
  if (head.stopped) found.push(el("strong", { class: "badge warn" }, data(head.stopped)));
  if (head.failed_rows) found.push(el("strong", { class: "badge bad" }, `errors in ${counted(head.failed_rows, "row")}`));
  return found;
}

function interval(cell, shown) {
  if (typeof cell.low !== "number") return el("small", { title: cell.remark || null }, cell.remark ? "no interval" : "");
  return el("small", { title: `95% interval (${cell.method})` }, `${shown(cell.low)} – ${shown(cell.high)}`);
}

function cellOf(line, cell) {
  if (cell === null || cell === undefined) return el("td", { class: "none" }, "–");
  if (line.kind === "count") return el("td", {}, whole(cell));
  if (line.kind === "mean") return el("td", {}, el("b", {}, figure(cell.value)), interval(cell, figure));
  const of = cell.passed === undefined ? null : el("small", { class: "of" }, `${whole(cell.passed)} of ${whole(cell.n)} `);
  return el("td", {}, of, el("b", {}, percent(cell.value)), interval(cell, (value) => percent(value)));
}

/** Evaluators down; all rows, and the values of one column, across. */
function figureTable(summary, column, caption) {
  const shown = summary.groups.map((group, at) => ({ ...group, at })).filter((group) => group.column === null || group.column === column);
  const head = el("tr", {}, el("td"));
  for (const group of shown) {
    const label = group.column === null ? "all rows" : data(group.value);
    head.append(el("th", { scope: "col" }, label, el("small", {}, counted(group.rows, "row"))));
  }
  const body = el("tbody");
  for (const evaluator of summary.evaluators) {
    evaluator.lines.forEach((line, at) => {
      const label = at ? el("span", { class: "sub" }, data(line.label)) : el("span", {}, name(evaluator.name), " ", el("span", { class: "sub" }, data(line.label)));
      const note = line.lower_is_better ? el("span", { class: "sub" }, " (lower is better)") : null;
      const kind = `${at ? "" : "first"} ${line.label === "errors" ? "bad-text" : ""}`;
      body.append(el("tr", { class: kind.trim() || null }, el("th", { scope: "row" }, label, note), ...shown.map((group) => fill(cellOf(line, line.cells[group.at]), { "data-label": group.value ?? "all rows" }, []))));
    });
    if (column === "row_kind" && evaluator.more.length) body.append(moreFigures(evaluator, shown.length));
  }
  return scroller(column === "row_kind" ? "Figures" : `Figures by ${column}`, el("table", { class: "figures summary" }, caption ? el("caption", {}, caption) : null, el("thead", {}, head), body));
}

/** What an evaluator adds up itself; no trouble is not worth its place. */
function moreFigures(evaluator, columns) {
  const quiet = (key, value) => value === 0 && (/(_rate|_count)$/.test(key) || key.includes("."));
  const shown = evaluator.more.filter(([key, value]) => !quiet(key, value));
  const words = shown.map(([key, value]) => el("span", { class: "pair" }, name(key.replaceAll("_", " ").replace(".", ": ")), " ", el("b", {}, key.endsWith("_rate") && typeof value === "number" ? percent(value) : figure(value))));
  return el("tr", { class: "sums" }, el("td", { colspan: columns + 1 }, ...words));
}

/** What the command printed when the run ended: three sentences and a table. */
function firstScreen(first) {
  const rows = first.rows.map(([label, ...cells]) => el("tr", {}, el("th", { scope: "row" }, data(label.trim(), "span", { class: label.startsWith(" ") ? "sub" : "" })), ...cells.map((cell) => el("td", {}, cell.replace("  ", " · ")))));
  const heads = first.heads.map((head) => (head ? el("th", { scope: "col" }, head) : el("td")));
  return [
    ...first.sentences.map((sentence, at) => el("p", { class: at ? null : "lead" }, data(sentence))),
    scroller("Main figures", el("table", { class: "figures brief" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows))),
  ];
}

function summarySection(head) {
  const facts = el("dl", { class: "facts" });
  facts.append(el("div", {}, el("dt", {}, "rows"), el("dd", {}, whole(head.rows))));
  for (const [key, text] of head.facts) facts.append(el("div", {}, el("dt", {}, key), el("dd", {}, data(text))));
  const columns = [...new Set(head.summary.groups.map((group) => group.column))].filter((column) => column && column !== "row_kind");
  const parts = [el("div", { class: "badges" }, ...badges(head)), ...(head.first ? firstScreen(head.first) : []), facts, figureTable(head.summary, "row_kind", null)];
  for (const column of columns) parts.push(el("details", { class: "by" }, el("summary", {}, "By ", data(column)), figureTable(head.summary, column, null)));
  for (const note of head.notes) parts.push(el("p", { class: "note" }, "Note: ", data(note)));
  if (head.manifest) parts.push(el("details", { class: "by" }, el("summary", {}, "How it was run (run.json)"), data(head.manifest, "pre")));
  return section("summary", "Summary", ...parts);
}
