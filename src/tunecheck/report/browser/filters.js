// Finding rows: a search, a choice for each facet, and an order.

class Filters {
  constructor(rows, facets, changed) {
    Object.assign(this, { rows, facets, changed, chosen: new Map(), words: "", order: null, down: false });
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
    if (select) {
      select.value = value;
      select.classList.toggle("set", Boolean(value));
    }
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
    for (const select of this.selects.values()) {
      select.value = "";
      select.classList.remove("set");
    }
    this.searchFor("");
  }
  /** Only the rows behind one bar of a chart. */
  only(key, value) {
    this.reset();
    this.choose(key, value);
  }
  sortBy(column) {
    if (this.order === column) {
      if (this.down) this.order = null;
      this.down = !this.down;
    } else Object.assign(this, { order: column, down: false });
    this.apply();
  }
  apply() {
    const tests = [...this.chosen].map(([key, value]) => this.facets.find((facet) => facet.key === key).test(value));
    const { words, rows } = this;
    const texts = words ? rows.texts : null;
    const found = [];
    for (let row = 0; row < rows.count; row++) {
      if ((!texts || texts[row].includes(words)) && tests.every((test) => test(row))) found.push(row);
    }
    if (this.order) this.sort(found);
    this.say();
    this.changed(found);
  }
  sort(found) {
    const key = sortKey(this.rows, this.order);
    const keys = new Map(found.map((row) => [row, key(row)]));
    const side = this.down ? -1 : 1;
    found.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === b) return one - other;
      if (a === null || b === null) return a === null ? 1 : -1; // what has no value stands last
      return a < b ? -side : side;
    });
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

/** By what a column sorts. */
function sortKey(rows, column) {
  if (column === "id") return (row) => rows.ids[row];
  if (column === "question") return (row) => rows.questions[row].toLowerCase();
  if (column === "latency") return (row) => rows.latency[row];
  const evaluator = rows.outcomes[column];
  if (evaluator.scores && evaluator.scores.some((score) => score !== null)) return (row) => evaluator.scores[row];
  return (row) => RANK[evaluator.results[row]];
}
