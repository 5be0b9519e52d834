// Puts the page together.

async function begin() {
  const head = embedded("head");
  const page = document.getElementById("page");
  let filters = null;
  const find = (key, value) => {
    if (!filters) return;
    filters.only(key, value);
    document.getElementById("rows").scrollIntoView();
    filters.search.focus({ preventScroll: true });
  };
  let opened = null;
  const open = (row) => opened && row < head.rows && opened.open(row);
  const missing = new Missing("this report");
  const map = el("div");
  const changes = changeSection(head, find, map, open);
  const parts = [changes?.node, summarySection(head), chartSection(head, find), ...panelSections(head, open)].filter(Boolean);
  const place = section("rows", "Rows", el("p", { class: "loading" }, "Unpacking the rows …"));
  page.replaceChildren(missing.node, ...parts, place);
  page.before(pageHead(head));
  const rows = new Rows(head, await unpack(embedded("index")));
  const table = new Table(rows, (row) => opened.open(row), (order) => filters.sortBy(order));
  opened = new RowWindow(rows, table, head);
  filters = new Filters(rows, facetsOf(rows), (found) => table.show(found, filters.order));
  const left = head.rows - rows.count;
  place.replaceChildren(place.firstElementChild, filters.node, left > 0 ? el("p", { class: "note" }, `The first ${whole(rows.count)} of ${counted(head.rows, "row")}; figures and charts are of all.`) : "", table.node);
  document.body.append(opened.node);
  changes?.follow(rows);
  if (rows.others.length > 1) map.append(runMap(rows, find));
  const follow = () => {
    const asked = address.read();
    const wrong = [...filters.follow(asked), ...table.columns.follow(asked.getAll("columns")), ...unknown(asked, filters)];
    filters.show(); // before a row is opened, which has others beside it
    missing.say([...wrong, ...opened.follow(asked)]);
  };
  addEventListener("keydown", (event) => opened.node.open || finderKey(event, filters, table));
  address.follow(follow);
  document.documentElement.dataset.ready = "true";
}

const KEYS = ["row", "number", "beside", "find", "sort", "columns"];

/** Keys of an address that stand for nothing here; a part's own name leads to it. */
function unknown(asked, filters) {
  const keys = [...asked.keys()].filter((key) => !KEYS.includes(key) && !filters.facets.some((facet) => facet.key === key));
  const part = keys.find((key) => document.getElementById(key)?.tagName === "SECTION");
  if (part) document.getElementById(part).scrollIntoView();
  return keys.filter((key) => key !== part);
}

function finderKey(event, filters, table) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    filters.search.focus();
  } else if (event.key === "Escape" && event.target === filters.search) {
    filters.searchFor("");
    filters.search.blur();
  } else if ((event.key === "Enter" || event.key === "ArrowDown") && event.target === filters.search) {
    event.preventDefault();
    filters.searchFor(filters.search.value);
    table.focus(-1);
  }
}

function fail(error) {
  document.getElementById("page").append(el("p", { class: "bad-text" }, "The report cannot be shown: ", data(String(error))));
  throw error;
}

// The scripts of panels, which follow this one, run before the event.
addEventListener("DOMContentLoaded", () => begin().catch(fail));
