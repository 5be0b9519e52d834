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
  const parts = [summarySection(head), changeSection(head, find), chartSection(head, find), timelineSection(head, open)].filter(Boolean);
  const place = section("rows", "Rows", el("p", { class: "loading" }, "Unpacking the rows …"));
  page.replaceChildren(...parts, place);
  page.before(pageHead(head));
  const rows = new Rows(head, await unpack(embedded("index")));
  const table = new Table(rows, (row) => opened.open(row), (column) => filters.sortBy(column));
  opened = new RowWindow(rows, table, head);
  filters = new Filters(rows, facetsOf(rows), (found) => table.show(found, filters.order, filters.down));
  const left = head.rows - rows.count;
  place.replaceChildren(place.firstElementChild, filters.node, left > 0 ? el("p", { class: "note" }, `The first ${whole(rows.count)} of ${counted(head.rows, "row")}; figures and charts are of all.`) : "", table.node);
  document.body.append(opened.node);
  filters.apply();
  listen(rows, table, filters, opened);
}

function listen(rows, table, filters, opened) {
  const follow = () => {
    const row = rows.addressed(location.hash);
    if (row !== undefined && row !== opened.row) opened.open(row);
  };
  addEventListener("hashchange", follow);
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || opened.node.open) return;
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
  });
  document.documentElement.dataset.ready = "true";
  follow();
}

begin().catch((error) => {
  document.getElementById("page").append(el("p", { class: "bad-text" }, "The report cannot be shown: ", data(String(error))));
  throw error;
});
