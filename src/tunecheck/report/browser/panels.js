// Panels that plug-ins add: each by its name, with a title, what draws it, and what draws it in an opened row.

const PANELS = {};

/** What a plug-in's script calls: `draw(data, open)` gives elements, `row(shown)` one of an opened row. */
function panel(name, { title, draw, row }) {
  PANELS[name] = { title, draw, row };
}

const panelsOf = (shown) => Object.entries(shown || {}).filter(([name]) => PANELS[name]);

function panelSections(head, open) {
  return panelsOf(head.panels).map(([name, found]) => section(name, PANELS[name].title, ...PANELS[name].draw(found, open)));
}

/** What panels show of an opened row. */
function panelRows(details) {
  return panelsOf(details.panels).map(([name, shown]) => PANELS[name].row(shown));
}
