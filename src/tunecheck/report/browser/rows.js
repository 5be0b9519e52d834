// The rows: what is known of all of them at once, and how one is opened.

const OUTCOMES = {
  p: { sign: "✓", word: "pass", kind: "good" },
  f: { sign: "✗", word: "fail", kind: "bad" },
  n: { sign: "–", word: "not applicable", kind: "none" },
  s: { sign: "•", word: "scored", kind: "neutral" },
  e: { sign: "!", word: "error", kind: "warn" },
  "-": { sign: "", word: "not in the base", kind: "none" },
};
const RANK = { e: 0, f: 1, s: 2, p: 3, n: 4, "-": 5 };

class Rows {
  constructor(head, index) {
    Object.assign(this, index);
    this.count = this.ids.length;
    this.base = head.against ? head.against.outcomes : null;
    this.details = new Packed("rows", head.blocks.rows, head.blocks.count);
    const shared = head.blocks.shared;
    this.shared = new Packed("shared", shared, Infinity);
    this.places = new Map(this.ids.map((id, row) => [id, row]));
    this.searched = null;
  }
  /** What is searched of each row, in small letters; made when something is first searched. */
  get texts() {
    if (!this.searched) {
      const { ids, questions, answers, notes, reasons } = this;
      const kinds = (row) => (reasons ? codesOf(reasons.rows[row]).map((code) => reasons.values[code]) : []);
      this.searched = ids.map((id, row) => [id, questions[row], answers[row], notes ? notes[row] : "", ...kinds(row)].join("\n").toLowerCase());
    }
    return this.searched;
  }
  /** How a row changed for an evaluator: regressed, fixed, or neither. */
  change(evaluator, row) {
    const before = this.base && this.base[evaluator] ? this.base[evaluator].results[row] : "-";
    const now = this.outcomes[evaluator].results[row];
    if (before === "p" && now === "f") return "regressed";
    return before === "f" && now === "p" ? "fixed" : "";
  }
  place(id) {
    return this.places.get(id);
  }
  /** The part of an address that stands for a row. */
  address(row) {
    const id = this.ids[row];
    const whole = typeof id.isWellFormed === "function" ? id.isWellFormed() : !/[\ud800-\udfff]/.test(id);
    return whole && this.places.get(id) === row ? `row=${encodeURIComponent(id)}` : `number=${row + 1}`;
  }
  /** The row that an address stands for. */
  addressed(hash) {
    const [key, value] = [hash.slice(1, hash.indexOf("=")), hash.slice(hash.indexOf("=") + 1)];
    if (key === "number") return Number(value) >= 1 && Number(value) <= this.count ? Number(value) - 1 : undefined;
    if (key !== "row") return undefined;
    try {
      return this.place(decodeURIComponent(value));
    } catch {
      return undefined;
    }
  }
}

const codesOf = (codes) => (codes === null || codes === undefined ? [] : typeof codes === "number" ? [codes] : codes);

/** A facet from a column of few different values. */
function codedFacet(key, label, column) {
  const counts = new Array(column.values.length).fill(0);
  for (const codes of column.rows) for (const code of codesOf(codes)) counts[code]++;
  const options = column.values.map((value, code) => ({ value, label: value, count: counts[code], code }));
  options.sort((one, other) => other.count - one.count);
  const numbers = new Map(column.values.map((value, code) => [value, code]));
  const test = (value) => {
    const code = numbers.get(value);
    return (row) => column.rows[row] === code || (Array.isArray(column.rows[row]) && column.rows[row].includes(code));
  };
  return { key, label, options: options.filter((option) => option.count), test };
}

/** A facet from an evaluator's results. */
function outcomeFacet(evaluator) {
  const counts = {};
  for (const letter of evaluator.results) counts[letter] = (counts[letter] || 0) + 1;
  const options = ["f", "p", "n", "s", "e"].filter((letter) => counts[letter]).map((letter) => ({ value: letter, label: OUTCOMES[letter].word, count: counts[letter] }));
  return { key: `of ${evaluator.name}`, label: evaluator.name, options, test: (value) => (row) => evaluator.results[row] === value };
}

function changeFacet(rows) {
  const options = [];
  rows.outcomes.forEach((evaluator, at) => {
    const counts = { regressed: 0, fixed: 0 };
    for (let row = 0; row < rows.count; row++) {
      const change = rows.change(at, row);
      if (change) counts[change]++;
    }
    for (const [change, count] of Object.entries(counts)) if (count) options.push({ value: `${evaluator.name}\n${change}`, label: `${evaluator.name}: ${change}`, count });
  });
  const test = (value) => {
    const [evaluator, change] = value.split("\n");
    const at = rows.outcomes.findIndex((each) => each.name === evaluator);
    return (row) => rows.change(at, row) === change;
  };
  return { key: "change", label: "Change", options, test };
}

/** Everything that rows can be found by. */
function facetsOf(rows) {
  const facets = rows.outcomes.map(outcomeFacet);
  if (rows.base) facets.push(changeFacet(rows));
  const coded = [["kinds", "Kind of row"], ["functions", "Expected function"], ["called", "Called function"], ["causes", "Cause"], ["reasons", "Faults"], ["differences", "Difference"], ["errors", "Error"]];
  for (const [key, label] of coded) if (rows[key]) facets.push(codedFacet(key, label, rows[key]));
  for (const [column, values] of rows.groups) facets.push(codedFacet(`group ${column}`, column, values));
  if (rows.confused) facets.push({ ...confusedFacet(rows.confused), quiet: true });
  // One with nothing to choose from is not offered; charts still lead to its rows.
  return facets.map((facet) => ({ ...facet, quiet: facet.quiet || (facet.options.length < 2 && facet.key !== "errors") }));
}

/** Pairs of functions; they come from Python as JSON, which may be spaced in another way. */
function confusedFacet(column) {
  const facet = codedFacet("confused", "Expected and called", { ...column, values: column.values.map((text) => (text.startsWith("[") ? JSON.stringify(JSON.parse(text)) : text)) });
  for (const option of facet.options) if (option.value.startsWith("[")) option.label = JSON.parse(option.value).join(" → ");
  return facet;
}
