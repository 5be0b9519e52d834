// All runs as a table: sorted, searched, and any number of them chosen to be compared.

const FACTS = [
  ["data", "data set", (run) => run.data, (run) => data(run.data)],
  ["answers", "answers", (run) => run.answers, (run) => data(run.answers)],
  ["begun", "begun", (run) => run.created, (run) => data(run.created.slice(0, 16).replace("T", " "))],
  ["took", "took", (run) => run.seconds, (run) => (run.seconds < 1 ? "< 1 s" : timePassed(run.seconds))],
  ["rows", "rows", (run) => (run.is_finished ? run.rows : null), (run) => whole(run.rows)],
  ["errors", "errors", (run) => run.failed_rows, (run) => (run.failed_rows ? el("span", { class: "bad-text" }, whole(run.failed_rows)) : "0")],
  ["cost", "cost", (run) => (Object.keys(run.cost || {}).length === 1 ? Object.values(run.cost)[0] : null), (run) => Object.entries(run.cost).map(([currency, amount]) => `${figure(amount)} ${currency}`).join(" + ")],
];
const TEXTS = ["data", "answers", "begun"];
const MOST_METRICS = 6;
const EVERY_MS = 3000;

/** A run's main figures that have a value. */
const knownFigures = (run) => run.figures.filter((each) => each.value !== null);

/** The columns that there are: `[key, label, what it sorts by, what it shows]`; metrics that most runs have come first. */
function columnsOf(runs) {
  const counts = new Map();
  for (const run of runs) for (const { evaluator } of knownFigures(run)) counts.set(evaluator, (counts.get(evaluator) || 0) + 1);
  const metrics = [...counts].sort((one, other) => other[1] - one[1]).map(([who]) => {
    const of = (run) => knownFigures(run).find((each) => each.evaluator === who);
    const shown = (each) => [each.is_rate ? percent(each.value) : figure(each.value), each.is_uncalibrated ? el("small", {}, "uncalibrated") : ""];
    return [`of ${who}`, who, (run) => of(run)?.value, (run) => el("span", {}, ...shown(of(run)))];
  });
  const facts = FACTS.filter(([, , value]) => runs.some(value));
  return [...facts.slice(0, 3), ...metrics, ...facts.slice(3)];
}

/** The chosen runs in the order in which they were made, and where they are compared. */
function comparison(runs, chosen, base) {
  const picked = runs.filter((run) => chosen.has(run.id)).reverse();
  const first = picked.find((run) => run.id === base) || picked[0];
  const others = picked.filter((run) => run !== first);
  const against = [first, ...others.slice(0, -1)].map((run) => `against=${encodeURIComponent(run?.id)}`).join("&");
  return { picked, first, address: others.length ? `/runs/${encodeURIComponent(others.at(-1).id)}?${against}` : null };
}

/** Each metric that several of the chosen runs have, over these runs. */
function chosenTrends(picked) {
  const names = [...new Set(picked.flatMap((run) => knownFigures(run).map((each) => each.evaluator)))];
  const history = names.map((who) => {
    const own = picked.map((run) => knownFigures(run).find((each) => each.evaluator === who));
    return { name: who, kind: own.find(Boolean).is_rate ? "binary" : "score", values: own.map((each) => each || {}), known: own.filter(Boolean).length };
  });
  return trends(history.filter((line) => line.known > 1), shortNames(picked.map((run) => run.id)), "Each run over its own rows");
}

class RunList {
  constructor(runs) {
    Object.assign(this, { runs, all: columnsOf(runs), chosen: new Set(), base: "", order: "" });
    const usual = [...this.all.filter(([key]) => !key.startsWith("of ")), ...this.all.filter(([key]) => key.startsWith("of ")).slice(0, MOST_METRICS)].map(([key]) => key);
    this.columns = new Columns(this.all, this.all.map(([key]) => key).filter((key) => usual.includes(key)), () => this.draw());
    this.search = el("input", { type: "search", id: "search", placeholder: "Find runs by id, data set, endpoint  ( / )", "aria-label": "Find runs", input: () => this.keep() });
    this.go = el("a", { class: "go" });
    this.select = el("select", { change: () => this.choose(null, this.select.value) });
    this.held = el("label", {}, "against ", this.select);
    this.said = el("p", { class: "note", role: "status", "aria-live": "polite" });
    this.trends = el("div");
    this.head = el("tr");
    this.body = el("tbody");
    this.bar = el("div", { class: "searchline sticky" }, this.search, this.go, this.held);
    this.node = el("div", {}, this.bar, this.said, this.columns.node, scroller("Table of runs", el("table", { class: "figures runs" }, el("thead", {}, this.head), this.body)), this.trends);
  }
  follow(asked) {
    const finished = new Set(this.runs.filter((run) => run.is_finished).map((run) => run.id));
    const runs = asked.getAll("run");
    this.chosen = new Set(runs.filter((id) => finished.has(id)));
    this.base = asked.get("base") || "";
    this.search.value = asked.get("find") || "";
    const order = asked.get("sort") || "";
    const sorts = !order || order.replace(/^-/, "") === "run" || this.all.some(([key]) => key === order.replace(/^-/, ""));
    this.order = sorts ? order : "";
    const wrong = this.columns.follow(asked.getAll("columns"));
    this.draw();
    const strange = [...new Set(asked.keys())].filter((key) => !["run", "base", "find", "sort", "columns"].includes(key));
    return [...runs.filter((id) => !finished.has(id)).map((id) => `the run ${id}`), ...(sorts ? [] : [`the order ${order}`]), ...wrong, ...strange];
  }
  keep() {
    address.write({ run: [...this.chosen], base: this.base, find: this.search.value.trim(), sort: this.order });
    this.draw();
  }
  choose(id, base = this.base) {
    if (id && !this.chosen.delete(id)) this.chosen.add(id);
    this.base = this.chosen.has(base) ? base : "";
    this.keep();
  }
  sort(order) {
    this.order = order;
    this.keep();
  }
  draw() {
    const words = this.search.value.trim().toLowerCase();
    const found = this.runs.filter((run) => [run.id, run.data, run.answers, run.status].join("\n").toLowerCase().includes(words));
    const key = this.order.replace(/^-/, "");
    const value = key === "run" ? (run) => run.id : this.all.find(([each]) => each === key)?.[2];
    if (value) sortBy(found, value, this.order.startsWith("-"));
    const shown = this.all.filter(([each]) => this.columns.chosen.has(each));
    const heads = shown.map(([each, label]) => [each, label, TEXTS.includes(each) ? "text" : null]);
    this.head.replaceChildren(el("td"), ...sortHeads([["run", "run", "text"], ...heads], this.order, (order) => this.sort(order)));
    this.body.replaceChildren(...found.map((run) => this.line(run, shown)));
    this.sayChosen(found.length);
  }
  line(run, shown) {
    const box = el("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, disabled: !run.is_finished, checked: this.chosen.has(run.id), change: () => this.choose(run.id) });
    const title = run.is_finished ? data(run.id, "a", { href: `/runs/${encodeURIComponent(run.id)}` }) : data(run.id);
    const answered = (run.answered ?? null) === null ? null : `${whole(run.answered)}${run.rows ? ` of ${whole(run.rows)}` : ""} answered`;
    const about = [run.status === "finished" ? null : run.status, answered, run.problem].filter(Boolean).join(" · ");
    const badge = run.simulated ? el("strong", { class: "badge warn" }, "SIMULATED") : null;
    const stopped = run.stopped ? el("strong", { class: "badge warn", title: run.stopped }, "STOPPED EARLY") : null;
    const cells = shown.map(([key, label, value, node]) => el("td", { "data-label": label, class: TEXTS.includes(key) ? "text" : null }, (value(run) ?? null) === null && !(key === "cost" && run.cost) ? "–" : node(run)));
    return el("tr", {}, el("td", {}, box), el("th", { scope: "row", class: "text" }, title, " ", badge, stopped, about ? data(about, "small") : null), ...cells);
  }
  sayChosen(found) {
    const { picked, first, address: to } = comparison(this.runs, this.chosen, this.base);
    this.go.textContent = `Compare ${picked.length} runs`;
    if (to) this.go.href = to;
    this.go.hidden = this.held.hidden = !to;
    this.trends.replaceChildren(to ? chosenTrends(picked) || "" : "");
    this.select.replaceChildren(...picked.map((run) => el("option", { value: run.id, selected: run === first }, run.id)));
    this.said.textContent = `${counted(found, "run")}${found === this.runs.length ? "" : ` of ${whole(this.runs.length)}`}. ${picked.length ? `${whole(picked.length)} chosen.` : "Choose two or more to compare them."}`;
  }
}

function begin() {
  const { folder, runs, all } = embedded("head");
  const list = new RunList(runs);
  const missing = new Missing("this folder");
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input[type=search]")) return;
    event.preventDefault();
    list.search.focus();
  });
  // The address keeps the order, the choice and the search.
  const again = () => (document.activeElement === list.search ? setTimeout(again, EVERY_MS) : location.reload());
  if (runs.some((run) => run.status === "running")) setTimeout(again, EVERY_MS);
  const left = all > runs.length ? ` The ${whole(runs.length)} newest of ${whole(all)}.` : "";
  const page = document.getElementById("page");
  page.replaceChildren(missing.node, section("list", "Runs", el("p", { class: "note" }, "In ", data(folder), ".", left), runs.length ? list.node : el("p", {}, "There are no runs in this folder.")));
  page.before(stickyHead(el("h1", { class: "title" }, "Tunecheck"), el("nav", { "aria-label": "Pages" }), themeButton()));
  address.follow(() => missing.say(list.follow(address.read())));
  document.documentElement.dataset.ready = "true";
}

begin();
