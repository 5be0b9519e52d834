// Panels that plug-ins add: each by its name, with a title, what draws it, and what draws it in an opened row.

const PANELS = {};

/** What a plug-in's script calls: `draw(data, open)` gives elements, `row(shown)` one of an opened row. */
function panel(name, { title, draw, row }) {
  PANELS[name] = { title, draw, row };
}

// Each panel's script is an element of its own, which an error in another one does not stop. Of the page's names, it sees only these.
Object.assign(globalThis, { panel, el, svg, data, whole, counted, percent, figure, milliseconds, timePassed, scroller, reasoningNode });

const panelTitle = (name) => PANELS[name]?.title ?? name;

/** What a panel draws; if its code fails, a short text, so that the rest of the report is shown. */
function drawn(name, draw) {
  try {
    if (!PANELS[name]) throw new Error("its script does not run");
    return draw(PANELS[name]);
  } catch (error) {
    console.error(error);
    return [el("p", { class: "bad-text" }, "The panel ", data(name), " cannot be shown: ", data(String(error)))];
  }
}

function panelSections(head, open) {
  return Object.entries(head.panels).map(([name, found]) => section(name, panelTitle(name), ...drawn(name, (panel) => [...panel.draw(found, open)])));
}

/** What panels show of an opened row. */
function panelRows(details) {
  return Object.entries(details.panels || {}).flatMap(([name, shown]) => drawn(name, (panel) => [panel.row(shown)]));
}
