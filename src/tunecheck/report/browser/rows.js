// The rows: what is known of all of them at once, and how one is opened.

const OUTCOMES = {
  p: { sign: "✓", word: "pass", kind: "good" },
  f: { sign: "✗", word: "fail", kind: "bad" },
  n: { sign: "–", word: "not applicable", kind: "none" },
  s: { sign: "•", word: "scored", kind: "neutral" },
  e: { sign: "!", word: "error", kind: "warn" },
  "-": { sign: "", word: "not in this run", kind: "none" },
};
const RANK = { e: 0, f: 1, s: 2, p: 3, n: 4, "-": 5 };

class Rows {
  constructor(head, index) {
    Object.assign(this, index);
    this.count = this.ids.length;
    this.others = head.against ? head.against.runs : [];
    this.runs = [...this.others.map((other) => other.run), head.run];
    this.names = shortNames(this.runs);
    this.beside = 0;
    this.hasAnswers = this.answers.some(Boolean); // scores that others wrote may come without them
    this.main = Math.max(0, this.outcomes.findIndex((each) => /[pf]/.test(each.results)));
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
  /** What came of a row in one of the runs, the reported one being the last. */
  letter(evaluator, row, run) {
    const own = run === this.others.length ? this.outcomes[evaluator] : this.others[run].outcomes[evaluator];
    return own ? own.results[row] : "-";
  }
  /** The same of all runs, a letter each. */
  pattern(evaluator, row) {
    return this.runs.map((_, run) => this.letter(evaluator, row, run)).join("");
  }
  /** How a row changed from the base to a run: regressed, fixed, or neither. */
  change(evaluator, row, run = this.others.length) {
    if (!this.others.length) return "";
    const [before, now] = [this.letter(evaluator, row, 0), this.letter(evaluator, row, run)];
    if (before === "p" && now === "f") return "regressed";
    return before === "f" && now === "p" ? "fixed" : "";
  }
  place(id) {
    return this.places.get(id);
  }
  /** What of an address stands for a row. */
  address(row) {
    const id = this.ids[row];
    const whole = typeof id.isWellFormed === "function" ? id.isWellFormed() : !/[\ud800-\udfff]/.test(id);
    return whole && this.places.get(id) === row ? { row: id, number: null } : { row: null, number: String(row + 1) };
  }
  /** The row that an address asks for; undefined where it is not here. */
  addressed(asked) {
    if (asked.has("row")) return this.place(asked.get("row"));
    const number = Number(asked.get("number"));
    return Number.isInteger(number) && number >= 1 && number <= this.count ? number - 1 : undefined;
  }
}

/** Figures of a row that can be shown as columns. */
const FIGURES = { latency: milliseconds, input_tokens: whole, output_tokens: whole };

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
  return { key, label, options: options.filter((option) => option.count), test, known: (value) => numbers.has(value) };
}

/** A facet of which all options are listed. */
function listedFacet(facet) {
  return { ...facet, known: (value) => facet.options.some((option) => option.value === value) };
}

/** A facet from an evaluator's results. */
function outcomeFacet(evaluator) {
  const counts = {};
  for (const letter of evaluator.results) counts[letter] = (counts[letter] || 0) + 1;
  const options = ["f", "p", "n", "s", "e"].filter((letter) => counts[letter]).map((letter) => ({ value: letter, label: OUTCOMES[letter].word, count: counts[letter] }));
  return listedFacet({ key: `of ${evaluator.name}`, label: evaluator.name, options, test: (value) => (row) => evaluator.results[row] === value });
}

/** How a change is called among the filters. */
const changeValue = (rows, evaluator, change, run) => `${evaluator}: ${change}${run === rows.others.length ? "" : ` in ${rows.names[run]}`}`;

function changeFacet(rows) {
  const options = [];
  rows.outcomes.forEach((evaluator, at) => {
    for (let run = rows.others.length; run > 0; run--) {
      const counts = { regressed: 0, fixed: 0 };
      for (let row = 0; row < rows.count; row++) {
        const change = rows.change(at, row, run);
        if (change) counts[change]++;
      }
      for (const [change, count] of Object.entries(counts)) {
        const value = changeValue(rows, evaluator.name, change, run);
        if (count) options.push({ value, label: value, count, test: (row) => rows.change(at, row, run) === change });
      }
    }
  });
  const test = (value) => options.find((option) => option.value === value).test;
  return listedFacet({ key: "change", label: "Change", options, test });
}

/** Which runs got a row right, by one evaluator, as `evaluator letters`. */
function patternFacet(rows) {
  const parts = (value) => [rows.outcomes.findIndex((each) => each.name === value.slice(0, value.lastIndexOf(" "))), value.slice(value.lastIndexOf(" ") + 1)];
  const known = (value) => parts(value)[0] >= 0 && parts(value)[1].length === rows.runs.length;
  const test = (value) => {
    const [at, letters] = parts(value);
    return (row) => rows.pattern(at, row) === letters;
  };
  return { key: "pattern", label: "Right in", options: [], quiet: true, test, known };
}

/** What became of a row over the runs, by one evaluator: the run that fixed or broke it, or how it went. */
function history(rows, letters) {
  const told = [...letters];
  if (!told.every((letter) => letter === "p" || letter === "f")) return "";
  const changes = told.flatMap((letter, at) => (at && letter !== told[at - 1] ? [at] : []));
  if (!changes.length) return told[0] === "p" ? "right" : "never right";
  if (changes.length > 1) return "back and forth";
  return `${told[changes[0]] === "p" ? "fixed" : "broken"} since ${rows.names[changes[0]]}`;
}

/** Everything that rows can be found by. */
function facetsOf(rows) {
  const facets = rows.outcomes.map(outcomeFacet);
  if (rows.others.length) facets.push(changeFacet(rows));
  if (rows.others.length > 1) facets.push(patternFacet(rows));
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
