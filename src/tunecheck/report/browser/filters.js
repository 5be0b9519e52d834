// Finding rows: a search, a choice for each facet, and an order.

class Filters {
  constructor(rows, facets, changed) {
    Object.assign(this, { rows, facets, changed, chosen: new Map(), words: "", order: "" });
    this.search = el("input", { type: "search", id: "search", placeholder: "Search ids, questions, answers, reasons  ( / )", "aria-label": "Search rows", autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.searchFor(this.search.value), 120);
    });
    this.clear = el("button", { type: "button", class: "clear", click: () => this.reset() }, "Clear all");
    this.selects = new Map();
    this.box = el("details", { class: "filters" }, el("summary", {}, "Filters"), el("div", { class: "facets" }, ...facets.filter((facet) => !facet.quiet).map((facet) => this.select(facet))));
    this.box.open = !matchMedia("(max-width: 700px)").matches;
    this.active = el("div", { class: "active" });
    this.node = el("div", { class: "finder" }, el("div", { class: "searchline" }, this.search, this.clear), this.box, this.active);
  }
  select(facet) {
    const select = el("select", { change: () => this.choose(facet.key, select.value) }, el("option", { value: "" }, "any"));
    for (const option of facet.options.slice(0, 300)) select.append(el("option", { value: option.value }, `${option.label} (${whole(option.count)})`));
    this.selects.set(facet.key, select);
    return el("label", {}, el("span", {}, name(facet.label)), select);
  }
  choose(key, value) {
    if (value) this.chosen.set(key, value);
    else this.chosen.delete(key);
    const select = this.selects.get(key);
    if (select) this.set(select, value);
    this.apply();
  }
  searchFor(words) {
    clearTimeout(this.waiting); // or the table would be drawn once more, and the focus lost, while somebody is in it
    this.words = words.trim().toLowerCase();
    this.search.value = words;
    this.apply();
  }
  reset() {
    this.chosen.clear();
    for (const select of this.selects.values()) this.set(select, "");
    this.searchFor("");
  }
  /** Only the rows behind one bar of a chart. */
  only(key, value) {
    this.reset();
    this.choose(key, value);
  }
  sortBy(order) {
    this.order = order;
    this.apply();
  }
  /** What an address says; gives what of it is not here. */
  follow(asked) {
    const wrong = [];
    this.chosen.clear();
    for (const facet of this.facets) {
      const value = asked.get(facet.key);
      if (value && facet.known(value)) this.chosen.set(facet.key, value);
      else if (value) wrong.push(`${facet.label}: ${value}`);
    }
    for (const [key, select] of this.selects) this.set(select, this.chosen.get(key) || "");
    this.words = (asked.get("find") || "").trim().toLowerCase();
    this.search.value = asked.get("find") || "";
    const order = asked.get("sort") || "";
    const known = !order || sortKey(this.rows, order.replace(/^-/, ""));
    this.order = known ? order : "";
    return known ? wrong : [...wrong, `the order ${order}`];
  }
  set(select, value) {
    select.value = value;
    select.classList.toggle("set", Boolean(value));
  }
  apply() {
    this.show();
    this.keep();
  }
  show() {
    const tests = [...this.chosen].map(([key, value]) => this.facets.find((facet) => facet.key === key).test(value));
    const { words, rows } = this;
    const texts = words ? rows.texts : null;
    const found = [];
    for (let row = 0; row < rows.count; row++) {
      if ((!texts || texts[row].includes(words)) && tests.every((test) => test(row))) found.push(row);
    }
    if (this.order) sortBy(found, sortKey(rows, this.order.replace(/^-/, "")), this.order.startsWith("-"));
    this.say();
    this.changed(found);
  }
  /** What is chosen goes into the address. */
  keep() {
    const chosen = this.facets.map((facet) => [facet.key, this.chosen.get(facet.key)]);
    address.write({ find: this.search.value.trim(), sort: this.order, ...Object.fromEntries(chosen) });
  }
  /** What is chosen, each with a button that takes it away. */
  say() {
    const chips = [...this.chosen].map(([key, value]) => {
      const facet = this.facets.find((each) => each.key === key);
      const option = facet.options.find((each) => each.value === value);
      const text = `${facet.label}: ${option ? option.label : value}`;
      return el("button", { type: "button", class: "chip", title: "take this filter away", click: () => this.choose(key, "") }, data(text), " ✕");
    });
    this.active.replaceChildren(...chips);
    this.clear.hidden = !chips.length && !this.words;
  }
}

/** By what a column sorts; null where there is no such column. */
function sortKey(rows, column) {
  if (column === "row") return (row) => rows.ids[row];
  if (column === "question") return (row) => rows.questions[row].toLowerCase();
  if (column === "runs" && rows.others.length) return (row) => rows.pattern(rows.main, row);
  if (FIGURES[column]) return rows[column] ? (row) => rows[column][row] : null;
  const evaluator = rows.outcomes.find((each) => `of ${each.name}` === column);
  if (!evaluator) return null;
  if (evaluator.scores && evaluator.scores.some((score) => score !== null)) return (row) => evaluator.scores[row];
  return (row) => RANK[evaluator.results[row]];
}
