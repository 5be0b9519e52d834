// The table of rows: a page at a time.

/** What an evaluator found in a row, and whether that has changed. */
function outcomeMark(rows, at, row) {
  const { results, scores } = rows.outcomes[at];
  const { sign, word, kind } = OUTCOMES[results[row]];
  const score = scores ? scores[row] : null;
  const plain = score === null || (kind !== "neutral" && (score === 0 || score === 1));
  const number = score !== null && Math.abs(score) < 100 && !Number.isInteger(score) ? score.toFixed(2) : figure(score);
  const change = rows.change(at, row);
  const against = `${change} against ${rows.names[0]}`;
  const arrow = change ? el("span", { class: `change ${change}`, title: against, role: "img", "aria-label": against }, change === "fixed" ? "▲" : "▼") : null;
  const label = score === null ? word : `${word}, ${figure(score)}`;
  return [el("span", { class: `mark ${kind}`, title: label, role: "img", "aria-label": label }, plain ? sign : `${sign} ${number}`), arrow];
}

/** What came of a row in every run, a cell each, which opens the row beside that run; arrow keys lead to it. */
function runCells(rows, evaluator, row) {
  const cells = rows.names.map((title, run) => {
    const { sign, word, kind } = OUTCOMES[rows.letter(evaluator, row, run)];
    const said = `${title}: ${word}`;
    return el("button", { type: "button", class: `mark ${kind}`, title: said, "aria-label": said, tabindex: -1, "data-run": run }, sign || "·");
  });
  return el("span", { class: "cells", role: "group", "aria-label": history(rows, rows.pattern(evaluator, row)) || "over the runs" }, ...cells);
}

const MOST_SHOWN = 8;

class Table {
  constructor(rows, open, sort) {
    Object.assign(this, { rows, open, sort, found: [], first: 0, size: 50, order: "" });
    const all = [...(rows.others.length > 1 ? [["runs", "runs"]] : []), ...rows.outcomes.map((each) => [`of ${each.name}`, each.name]), ...Object.keys(FIGURES).filter((key) => rows[key]).map((key) => [key, key.replace("_", " ")])];
    const usual = all.map(([key]) => key).filter((key) => !key.endsWith("_tokens"));
    this.columns = new Columns(all, usual.length > MOST_SHOWN + 2 ? usual.slice(0, MOST_SHOWN) : usual, () => this.show(this.found, this.order));
    this.head = el("tr");
    this.body = el("tbody");
    this.status = el("p", { class: "status", role: "status", "aria-live": "polite" });
    const size = el("select", { "aria-label": "Rows on a page", change: () => this.resize(Number(size.value)) }, ...[50, 100, 500].map((count) => el("option", { value: count }, `${count} a page`)));
    const button = (text, label, to) => el("button", { type: "button", "aria-label": label, click: () => this.turn(to()) }, text);
    this.pager = el("div", { class: "pager" }, button("«", "First page", () => 0), button("‹", "Previous page", () => this.first - this.size), this.status, button("›", "Next page", () => this.first + this.size), button("»", "Last page", () => Infinity), size);
    this.table = el("table", { class: "rows" }, el("thead", {}, this.head), this.body);
    this.table.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    const marks = rows.others.length ? el("p", { class: "note" }, "▲ fixed, ▼ regressed against ", data(rows.names[0])) : "";
    this.node = el("div", {}, this.columns.node, el("div", { class: "scroll" }, this.table), marks, this.pager);
  }
  show(found, order) {
    Object.assign(this, { found, order, first: 0 });
    const own = this.columns.all.filter(([key]) => this.columns.chosen.has(key));
    const heads = own.map(([key, label]) => [key, label, key in FIGURES ? "latency" : key === "runs" ? "runs" : "outcome"]);
    this.head.replaceChildren(...sortHeads([["row", "row", "id"], ["question", "question", "question"], ...heads], order, this.sort));
    this.draw();
  }
  resize(size) {
    this.size = size;
    this.turn(this.first);
  }
  turn(first) {
    const last = Math.max(0, Math.ceil(this.found.length / this.size) - 1) * this.size;
    this.first = Math.max(0, Math.min(last, Math.floor(first / this.size) * this.size || (first === Infinity ? last : 0)));
    this.draw();
  }
  draw() {
    const shown = this.found.slice(this.first, this.first + this.size);
    this.body.replaceChildren(...shown.map((row) => this.line(row)));
    const of = this.found.length === this.rows.count ? "" : ` (of ${whole(this.rows.count)} in all)`;
    this.status.textContent = this.found.length ? `${whole(this.first + 1)}–${whole(this.first + shown.length)} of ${counted(this.found.length, "row")}${of}` : `no row is like that${of}`;
    this.pager.classList.toggle("single", this.found.length <= this.size && this.first === 0);
  }
  line(row) {
    const { rows } = this;
    const link = data(rows.ids[row], "a", { href: `#${new URLSearchParams(Object.entries(rows.address(row)).filter(([, value]) => value))}`, tabindex: row === this.found[this.first] ? 0 : -1 });
    const note = rows.notes && rows.notes[row] ? data(rows.notes[row], "small", { class: "why" }) : null;
    const cells = [el("td", { class: "id" }, link), el("td", { class: "question" }, data(rows.questions[row]), note)];
    const { chosen } = this.columns;
    if (chosen.has("runs")) cells.push(el("td", { class: "runs" }, runCells(rows, rows.main, row)));
    rows.outcomes.forEach((evaluator, at) => chosen.has(`of ${evaluator.name}`) && cells.push(this.outcome(evaluator, at, row)));
    for (const [key, shown] of Object.entries(FIGURES)) {
      if (rows[key] && chosen.has(key)) cells.push(el("td", { class: "latency" }, rows[key][row] === null ? "" : shown(rows[key][row])));
    }
    return el("tr", { "data-row": row }, ...cells);
  }
  outcome(evaluator, at, row) {
    return el("td", { class: "outcome" }, el("span", { class: "who" }, evaluator.name), ...outcomeMark(this.rows, at, row));
  }
  links() {
    return [...this.body.querySelectorAll("td.id a")];
  }
  click(event) {
    const line = event.target.closest("tr");
    if (!line || event.ctrlKey || event.metaKey || event.shiftKey || getSelection().toString()) return;
    event.preventDefault();
    const cell = event.target.closest("[data-run]");
    if (cell && Number(cell.dataset.run) < this.rows.others.length) this.rows.beside = Number(cell.dataset.run);
    this.open(Number(line.dataset.row));
  }
  focus(row) {
    const links = this.links();
    const link = links.find((each) => Number(each.closest("tr").dataset.row) === row) || links[0];
    if (!link) return;
    for (const each of links) each.tabIndex = each === link ? 0 : -1;
    link.focus();
  }
  key(event) {
    const links = this.links();
    const from = document.activeElement;
    const line = from.closest("tbody tr");
    const at = links.findIndex((each) => each.closest("tr") === line);
    if (at < 0) return;
    const across = { ArrowRight: 1, ArrowLeft: -1 };
    const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 };
    const pages = { PageDown: this.size, PageUp: -this.size };
    if (event.key in moves) {
      event.preventDefault();
      this.focus(Number(links[Math.max(0, Math.min(links.length - 1, moves[event.key]))].closest("tr").dataset.row));
      if (from.dataset.run) document.activeElement.closest("tr").querySelector(`[data-run="${from.dataset.run}"]`).focus();
    } else if (event.key in across) {
      const stops = [links[at], ...line.querySelectorAll("[data-run]")];
      const next = stops[stops.indexOf(from) + across[event.key]];
      if (!next) return;
      event.preventDefault();
      next.focus();
    } else if (event.key in pages) {
      event.preventDefault();
      this.turn(this.first + pages[event.key]);
      this.focus(-1);
    }
  }
  /** The row before or after one, in the order of the table. */
  beside(row, step) {
    const at = this.found.indexOf(row);
    return at < 0 ? undefined : this.found[at + step];
  }
  /** Turns to the page that a row is on. */
  reveal(row) {
    const at = this.found.indexOf(row);
    if (at >= 0) this.turn(at);
  }
}
