// One row, opened: expected and actual answer side by side, the conversation, every verdict, errors, and the rest.

const STATUS = {
  same: ["good", "as expected"],
  named: ["good", "the right function"],
  beside: ["none", "side by side"],
  differs: ["bad", "arguments differ"],
  moved: ["warn", "out of order"],
  misnamed: ["bad", "wrong function"],
  missing: ["bad", "not called"],
  extra: ["bad", "not expected"],
  alone: ["none", "nothing to hold it against"],
};

/** What of two texts is not alike is marked, where they are not wholly different. */
function unlike(text, other) {
  let start = 0;
  while (start < text.length && text[start] === other[start]) start++;
  let end = 0;
  while (end < Math.min(text.length, other.length) - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
  const middle = text.slice(start, text.length - end);
  return [data(text.slice(0, start)), middle ? data(middle, "mark") : null, data(text.slice(text.length - end))];
}

function callNode(call, partner, isExpected = false, without = "no call") {
  if (!call) return el("div", { class: "call nothing" }, without);
  const [title, values] = call;
  const others = new Map((partner ? partner[1] : []).map((each) => [each[0], each[1]]));
  const list = el("dl");
  for (const [key, text, mark] of values) {
    const differs = mark === "wrong" && others.has(key);
    const shown = textBlock(text, differs ? el("span", {}, ...unlike(text, others.get(key))) : data(text));
    const label = mark && !(isExpected && mark === "wrong") ? el("em", { class: "fault" }, mark) : null;
    list.append(el("div", { class: mark || null }, el("dt", {}, data(key)), el("dd", {}, shown, label)));
  }
  const wrong = partner && partner[0] !== title;
  return el("div", { class: "call" }, el("code", { class: wrong ? "function wrong" : "function" }, data(title)), values.length ? list : el("small", {}, "no arguments"));
}

/** A call that was made, below it how it stands to the expected one. */
function madeNode(who, pair) {
  if (!pair) return el("div", { "data-who": who }, callNode(null));
  const [expected, actual, status, notes] = pair;
  const [kind, word] = STATUS[status];
  const faults = notes.length ? el("ul", { class: "faults" }, ...notes.map(([path, fault]) => el("li", {}, el("code", {}, data(path)), ": ", data(fault)))) : null;
  return el("div", { "data-who": who }, callNode(actual, expected), el("div", { class: "between" }, el("span", { class: `mark ${kind}` }, word), faults));
}

/** The pairs of several runs beside each other: `[expected call, pair of each run]`, those of no expected call last. */
function linesOf(sides) {
  const key = (call) => call && JSON.stringify([call[0], call[1].map(([title, text]) => [title, text])]);
  const lines = [];
  sides.forEach(({ pairs = [] }, side) => {
    for (const pair of pairs) {
      let line = lines.find((each) => each.key === key(pair[0]) && !each.made[side]);
      if (!line) lines.push((line = { key: key(pair[0]), expected: pair[0], made: [] }));
      line.made[side] = pair;
      line.expected = pair[0] || line.expected;
    }
  });
  return lines.sort((one, other) => !one.key - !other.key);
}

/** Calls as text that can be pasted. */
function callsText(side, calls) {
  const made = calls.filter(Boolean).map(([title, values]) => `{"name": ${JSON.stringify(title)}, "arguments": {${values.map(([key, text]) => `${JSON.stringify(key)}: ${text}`).join(", ")}}}`);
  return [...(made.length ? [`[${made.join(",\n ")}]`] : []), ...[side.text, side.data].filter(Boolean)].join("\n");
}

function words(side, empty) {
  const parts = [];
  if (side.problem) parts.push(el("p", { class: "bad-text" }, "A call that cannot be read: ", data(side.problem)));
  if (side.text) parts.push(textBlock(side.text));
  if (side.data) parts.push(textBlock(side.data));
  if (side.more) parts.push(el("p", { class: "note" }, `${counted(side.more, "more call")} left out here`));
  return parts.length ? parts : [empty ? el("p", { class: "note" }, empty) : null];
}

/** Columns: what should have come, and what came, in each run; `made` are `[name, answer]`, the reported run last. */
function answers(expected, made) {
  const lines = linesOf(made.map(([, answer]) => answer));
  const kind = `pair of-${made.length + 1}`;
  const any = lines.length > 0;
  const without = (line) => (line.made.some((pair) => pair?.[2] === "alone") ? "nothing is given" : "no call");
  const heads = [["Expected", callsText(expected, lines.map((line) => line.expected))], ...made.map(([title, answer]) => [title, callsText(answer.actual || {}, (answer.pairs || []).map((pair) => pair[1]))])];
  const head = heads.map(([title, text]) => el("h4", {}, data(title), text ? copyButton(text, `Copy: ${title}`) : null));
  const cells = lines.map((line) => el("div", { class: kind }, el("div", { "data-who": "Expected" }, callNode(line.expected, line.made.at(-1)?.[1], true, without(line))), ...made.map(([who], at) => madeNode(who, line.made[at]))));
  const said = made.map(([who, { actual = {}, pairs = [], reasoning }]) => el("div", { "data-who": pairs.length ? null : who }, ...words(actual, pairs.some((pair) => pair[1]) ? "" : "no answer"), reasoningNode(reasoning)));
  const texts = el("div", { class: kind }, el("div", {}, ...words(expected, any ? "" : "nothing is given")), ...said);
  return el("section", { class: "answers" }, el("h3", {}, "Expected and actual"), el("div", { class: `${kind} heads` }, ...head), ...cells, texts);
}

function messageNode([role, text, calls]) {
  const parts = [el("span", { class: "role" }, data(role || "?"))];
  const body = el("div", {});
  if (text) body.append(textBlock(text));
  for (const call of calls || []) body.append(callNode(call, null));
  return el("div", { class: `message ${["system", "user", "assistant", "tool"].includes(role) ? role : ""}`.trim() }, ...parts, body);
}

function verdictNode([who, result, score, threshold, reason, differences, more]) {
  const facts = [];
  if (score !== null) facts.push(`score ${typeof score === "number" ? figure(score) : score}`);
  if (threshold !== null) facts.push(`passes from ${figure(threshold)}`);
  const kind = { pass: "good", fail: "bad", not_applicable: "none" }[result] || "neutral";
  const head = el("div", { class: "verdict-head" }, el("b", {}, name(who)), result ? el("span", { class: `mark ${kind}` }, data(result.replaceAll("_", " "))) : null, el("small", {}, facts.join(" · ")));
  const body = [];
  if (reason) body.push(textBlock(reason, data(reason, "p", { class: "reason" })));
  if (differences && differences.length) {
    const heads = ["where", "expected", "actual", "kind"];
    body.push(el("div", { class: "scroll" }, el("table", { class: "figures left" }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...differences.map((each) => el("tr", {}, ...each.map((text) => el("td", {}, data(text)))))))));
  }
  if (more.length) body.push(el("details", {}, el("summary", {}, counted(more.length, "more value")), pairsList(more)));
  return el("div", { class: `verdict-card ${kind}` }, head, ...body);
}

function pairsList(pairs) {
  return el("dl", { class: "values" }, ...pairs.map(([key, text]) => el("div", {}, el("dt", {}, data(key)), el("dd", {}, text.length > 80 || text.includes("\n") ? textBlock(text) : data(text)))));
}

function verdicts(found, title) {
  if (!found.length) return null;
  const order = { fail: 0, pass: 2, not_applicable: 3 };
  const sorted = [...found].sort((one, other) => (order[one[1]] ?? 1) - (order[other[1]] ?? 1));
  const away = sorted.filter((each) => each[1] === "not_applicable");
  const cards = sorted.filter((each) => each[1] !== "not_applicable").map(verdictNode);
  const rest = away.length ? el("details", {}, el("summary", {}, `not applicable: ${away.map((each) => each[0]).join(", ")}`), ...away.map(verdictNode)) : null;
  return el("section", { class: "verdicts" }, el("h3", {}, title), ...cards, rest);
}

function errors(found, title) {
  if (!found.length) return null;
  const cards = found.map(([stage, type, message, request]) => el("div", { class: "verdict-card warn" }, el("div", { class: "verdict-head" }, el("b", {}, name(stage)), el("span", { class: "mark warn" }, data(type || "error"))), data(message, "pre"), request ? el("small", {}, "request ", data(request)) : null));
  return el("section", {}, el("h3", {}, title), ...cards);
}

/** Why the row failed, and what to try. */
function causeNode(cause) {
  if (!cause) return null;
  const [title, side, advice, evidence] = cause;
  const head = el("div", { class: "verdict-head" }, el("b", {}, data(title)), el("span", { class: "mark warn" }, { serving: "how the model is served", unknown: "serving or the model" }[side] || "the model"));
  const words = evidence ? data(evidence, "p", { class: "reason" }) : null;
  return el("section", { class: "cause" }, el("h3", {}, "Why it failed"), el("div", { class: "verdict-card" }, head, words, el("p", { class: "note" }, `Try: ${advice}`)));
}

/** What the model thought, folded. */
function reasoningNode(text) {
  return text ? el("details", { class: "reasoning" }, el("summary", {}, "Reasoning"), textBlock(text)) : null;
}

function stepNode(step) {
  const parts = step.reasoning ? [reasoningNode(step.reasoning)] : [];
  if (step.text) parts.push(textBlock(step.text));
  (step.calls || []).forEach((call) => parts.push(callNode(call, null)));
  for (const text of step.results || []) parts.push(el("div", { class: "result" }, el("span", { class: "role" }, "result"), textBlock(text)));
  for (const note of step.notes || []) parts.push(el("p", { class: "note" }, data(note)));
  return el("li", {}, ...(parts.length ? parts : [el("p", { class: "note" }, "an empty answer")]));
}

function changesTable(changes, heads = ["state", "before", "after"]) {
  const line = ([path, before, after]) => el("tr", {}, el("th", { scope: "row" }, el("code", {}, name(path))), el("td", {}, ...unlike(before, after)), el("td", {}, ...unlike(after, before)));
  return el("div", { class: "scroll" }, el("table", { class: "figures left states" }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...changes.map(line))));
}

function stepsNode(title, turn) {
  const steps = turn.steps.length ? el("ol", { class: "steps" }, ...turn.steps.map(stepNode)) : el("p", { class: "note" }, "nothing was recorded");
  return el("div", {}, el("h4", {}, data(title)), steps, turn.left_out ? el("p", { class: "note" }, `and ${counted(turn.left_out, "more step")}`) : null);
}

/** What a turn changed, and how its state differs from the ground truth's. */
function statesNode(turn, where) {
  const states = turn.changes ? [el("h4", {}, data(`What it changed${where}`)), turn.changes.length ? changesTable(turn.changes) : el("p", { class: "note" }, "nothing")] : [];
  const apart = turn.apart?.length ? [el("h4", {}, data(`Against the ground truth${where}`)), changesTable(turn.apart, ["state", "ground truth", "here"])] : [];
  return el("div", {}, ...states, ...apart);
}

/** One turn of the runs beside each other, each as `[run, turn, whether it went wrong there]`, the reported one last. */
function turnNode(at, sides) {
  const turn = sides.at(-1)[1];
  const where = (run) => (sides.length > 1 ? ` in ${run}` : "");
  const wrong = sides.filter((side) => side[2]).map(([run]) => el("span", { class: "mark bad" }, data(`it went wrong here${where(run)}`)));
  const title = el("summary", {}, el("b", {}, `Turn ${at + 1}`), ...wrong, el("small", {}, counted(turn.steps.length + (turn.left_out || 0), "step")));
  const expected = (turn.expected || []).map(([call, made]) => el("li", {}, callNode(call, null), el("span", { class: `mark ${made ? "good" : "none"}`, title: "another way to the same end is not a mistake" }, `${made ? "made" : "not made like this"}${where(sides.at(-1)[0])}`)));
  const left = turn.expected ? el("div", {}, el("h4", {}, "Expected calls"), expected.length ? el("ol", { class: "steps" }, ...expected) : el("p", { class: "note" }, "none")) : null;
  const made = sides.map(([run, own]) => stepsNode(`What the model did${where(run)}`, own));
  const states = sides.map(([run, own]) => statesNode(own, where(run)));
  const columns = made.length + (left ? 1 : 0);
  return el("details", { class: sides.at(-1)[2] ? "turn wrong" : "turn", open: true }, title, ...turn.user.map(messageNode), el("div", { class: columns > 1 ? `pair of-${columns}` : null }, left, ...made), el("div", { class: states.length > 1 ? "pair of-2" : null }, ...states));
}

/** A conversation turn by turn; `runs` are `[run, answer]`, the reported one last. */
function turnsNode(runs) {
  const known = runs.filter(([, answer]) => answer.turns);
  const lines = known.at(-1)[1].turns.map((_, at) => turnNode(at, known.filter(([, answer]) => answer.turns[at]).map(([run, answer]) => [run, answer.turns[at], answer.failed_turn === at])));
  return el("section", {}, el("h3", {}, "Turn by turn"), ...lines);
}

/** The columns shown nowhere else; long values are fetched when they are asked for. */
function moreNode(rows, more) {
  const short = more.filter(([, value]) => typeof value === "string");
  const long = more.filter(([, value]) => typeof value === "number");
  const parts = short.length ? [pairsList(short)] : [];
  for (const [key, number] of long) {
    const box = el("details", {}, el("summary", {}, name(key)));
    box.addEventListener("toggle", async () => box.childElementCount === 1 && box.append(textBlock(await rows.shared.get(number))), { once: true });
    parts.push(box);
  }
  return parts.length ? el("section", {}, el("h3", {}, "Other columns"), ...parts) : null;
}

/** What another run has for a row: an answer with its `run`, or why there is none. */
function besideOf(rows, details) {
  if (!rows.others.length) return null;
  const run = rows.names[rows.beside];
  const number = details.others[rows.beside];
  if (number === null) return { run, none: `The row is not in ${run}.` };
  return number ? { ...details.answers[number - 1], run } : { ...details, run, none: `${run} has the same.` };
}

/** Everything of a row below its heading. */
function rowNode(rows, details, run) {
  const base = besideOf(rows, details);
  const other = base && !base.none ? base : null; // what has more to say than the row itself
  const parts = [base && base.none ? el("p", { class: "note" }, base.none) : null, causeNode(details.cause), errors(details.errors, "Errors")];
  const judged = () => el("div", { class: other ? "pair of-2 judged" : null }, other ? verdicts(other.verdicts, `Verdicts in ${other.run}`) : null, verdicts(details.verdicts, other ? `Verdicts in ${run}` : "Verdicts"));
  if (details.turns) parts.push(judged(), turnsNode([...(other ? [[other.run, other]] : []), [run, details]]));
  else {
    const made = [...(base && base.verdicts ? [[base.run, base]] : []), [base ? run : "Actual", details]];
    const nothing = [details.expected, ...made.map(([, each]) => each.actual)].every((side) => !Object.keys(side || {}).length) && made.every(([, each]) => !(each.pairs || []).length);
    const shown = nothing && !rows.hasAnswers ? null : answers(details.expected || {}, made);
    const own = panelRows(details);
    parts.push(...(own.length ? [judged(), shown, ...own] : [shown, judged()]));
    if (details.messages.length) parts.push(el("section", {}, el("h3", {}, "Conversation"), ...details.messages.map(messageNode)));
  }
  if (other) parts.push(...panelRows(other).map((node) => el("details", {}, el("summary", {}, "In ", data(other.run)), node)));
  if (other) parts.push(errors(other.errors, `Errors in ${other.run}`));
  parts.push(moreNode(rows, details.more));
  return el("div", { class: "row-body" }, ...parts.filter(Boolean));
}

/** The window in which a row is shown. */
class RowWindow {
  constructor(rows, table, head) {
    Object.assign(this, { rows, table, head, row: undefined });
    const button = (text, label, act) => el("button", { type: "button", "aria-label": label, title: label, click: act }, text);
    this.title = el("h2", { id: "row-title", tabindex: -1 });
    this.facts = el("p", { class: "note" });
    this.before = button("←", "Previous row (←)", () => this.step(-1));
    this.after = button("→", "Next row (→)", () => this.step(1));
    this.strip = el("div", { class: "strip" });
    this.body = el("div");
    const close = button("✕", "Close (Escape)", () => this.close());
    this.beside = this.besideSelect();
    const link = copyButton(() => location.href, "Copy the address of this row", "copy link");
    this.node = el("dialog", { "aria-labelledby": "row-title", class: "row" }, el("div", { class: "row-head" }, el("div", {}, this.title, this.facts, this.strip, this.beside), el("div", { class: "buttons" }, link, this.before, this.after, close)), this.body);
    this.node.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.close();
    });
    this.node.addEventListener("click", (event) => event.target === this.node && this.close());
    this.node.addEventListener("keydown", (event) => this.key(event));
  }
  /** Which run stands beside the reported one; null where there is no choice. */
  besideSelect() {
    const { rows } = this;
    if (rows.others.length < 2) return null;
    this.choice = el("select", { change: () => this.holdAgainst(Number(this.choice.value)) }, ...rows.others.map((_, run) => el("option", { value: run }, rows.names[run])));
    return el("p", {}, el("label", {}, "Beside ", this.choice));
  }
  holdAgainst(run) {
    this.rows.beside = run;
    this.show(this.row);
  }
  /** What an address says; gives what of it is not here. */
  follow(asked) {
    const wrong = [];
    const { rows } = this;
    const beside = asked.has("beside") ? rows.names.indexOf(asked.get("beside")) : 0;
    if (beside < 0 || (beside > 0 && beside >= rows.others.length)) wrong.push(`the run ${asked.get("beside")}`);
    else rows.beside = beside;
    const row = rows.addressed(asked);
    if (row === undefined && (asked.has("row") || asked.has("number"))) wrong.push(`the row ${asked.get("row") ?? asked.get("number")}`);
    if (row === undefined && this.node.open) this.close();
    else if (row !== undefined && row !== this.row) this.open(row);
    return wrong;
  }
  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input, select, textarea")) return;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.step(step);
  }
  step(by) {
    const next = this.table.beside(this.row, by);
    if (next !== undefined) this.open(next);
  }
  async open(row) {
    this.row = row;
    this.title.replaceChildren(data(this.rows.ids[row]));
    const kind = this.rows.kinds ? codesOf(this.rows.kinds.rows[row]).map((code) => this.rows.kinds.values[code]) : [];
    const latency = this.rows.latency && this.rows.latency[row] !== null ? [milliseconds(this.rows.latency[row])] : [];
    this.facts.replaceChildren(data([`row ${whole(row + 1)} of ${whole(this.rows.count)}`, ...kind, ...latency].join(" · ")));
    this.strip.replaceChildren(...this.rows.outcomes.map((each, at) => el("span", {}, name(each.name), " ", ...outcomeMark(this.rows, at, row).filter(Boolean))));
    this.before.disabled = this.table.beside(row, -1) === undefined;
    this.after.disabled = this.table.beside(row, 1) === undefined;
    if (!this.node.open) {
      this.node.showModal();
      document.documentElement.classList.add("row-open");
    }
    this.title.focus();
    await this.show(row);
    this.node.scrollTop = 0;
  }
  async show(row) {
    address.write({ ...this.rows.address(row), beside: this.rows.beside ? this.rows.names[this.rows.beside] : null });
    if (this.choice) this.choice.value = this.rows.beside;
    const details = await this.rows.details.get(row).catch((error) => ({ problem: String(error) }));
    if (this.row !== row) return; // somebody has gone on meanwhile
    this.body.replaceChildren(this.content(details));
  }
  content(details) {
    if (!details) return el("p", {}, "This report would be too large with all rows in it; this one is in eval_results.jsonl.");
    if (details.problem) return el("p", { class: "bad-text" }, "This row cannot be unpacked: ", data(details.problem));
    return rowNode(this.rows, details, this.rows.names.at(-1));
  }
  close() {
    this.node.close();
    document.documentElement.classList.remove("row-open");
    address.write({ row: null, number: null, beside: null });
    this.table.reveal(this.row);
    this.table.focus(this.row);
    this.row = undefined;
  }
}
