// The list of runs, and the choice of two to hold against each other.

function runLine(run, choice) {
  const pick = (side) => el("input", { type: "radio", name: side, value: run.id, "aria-label": `${run.id} as ${side}`, disabled: !run.finished, change: () => choice(side, run.id) });
  const title = run.finished ? data(run.id, "a", { href: `/runs/${encodeURIComponent(run.id)}` }) : data(run.id);
  const facts = [run.status, run.created, typeof run.rows === "number" ? counted(run.rows, "row") : null, run.failed_rows ? `errors in ${counted(run.failed_rows, "row")}` : null, run.problem].filter(Boolean);
  const figures = run.figures.map(([key, value]) => el("span", { class: "pair" }, name(key), " ", el("b", {}, data(value))));
  const about = el("td", {}, el("div", {}, title, " ", run.simulated ? el("strong", { class: "badge warn" }, "SIMULATED") : null), el("small", {}, data(facts.join(" · "))), el("div", { class: "sums" }, ...figures));
  return el("tr", { "data-text": run.id.toLowerCase() }, el("td", {}, pick("base")), el("td", {}, pick("new")), about);
}

function begin() {
  const { folder, runs } = embedded("head");
  const chosen = { base: null, new: null };
  const go = el("button", { type: "button", disabled: true, click: () => (location.href = `/runs/${encodeURIComponent(chosen.new)}?against=${encodeURIComponent(chosen.base)}`) }, "Compare");
  const choice = (side, id) => {
    chosen[side] = id;
    go.disabled = !chosen.base || !chosen.new || chosen.base === chosen.new;
  };
  const lines = runs.map((run) => runLine(run, choice));
  const search = el("input", { type: "search", id: "search", placeholder: "Find a run  ( / )", "aria-label": "Find a run" });
  search.addEventListener("input", () => {
    for (const line of lines) line.hidden = !line.dataset.text.includes(search.value.trim().toLowerCase());
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.closest("input[type=search]")) return;
    event.preventDefault();
    search.focus();
  });
  const head = el("thead", {}, el("tr", {}, ...["base", "new", "run"].map((text) => el("th", { scope: "col" }, text))));
  const table = el("table", { class: "figures left runs" }, head, el("tbody", {}, ...lines));
  const none = el("p", {}, "There are no runs in this folder.");
  const bar = el("div", { class: "searchline sticky" }, search, go);
  const page = document.getElementById("page");
  page.replaceChildren(section("list", "Runs", el("p", { class: "note" }, "In ", data(folder), ". Choose a base and a new run to compare them."), bar, lines.length ? el("div", { class: "scroll" }, table) : none));
  page.before(el("header", { class: "top" }, el("span", { class: "title" }, "Tunecheck"), el("nav"), themeButton()));
  document.documentElement.dataset.ready = "true";
}

begin();
