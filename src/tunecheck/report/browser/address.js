// What one looks at, in the part of the address after `#`: `#find=refund&of+calls=f&sort=-latency&row=calendar-1-1`.

const address = {
  read() {
    return new URLSearchParams(location.hash.slice(1));
  },
  /** Calls for another address than what was written here. */
  follow(act) {
    addEventListener("hashchange", () => this.read().toString() === this.written || act());
    act();
  },
  /** Replace some keys: each by a text, by several, or by nothing. */
  write(changes) {
    const now = this.read();
    for (const [key, value] of Object.entries(changes)) {
      now.delete(key);
      for (const each of [value].flat()) if (each) now.append(key, each);
    }
    const words = (this.written = now.toString());
    try {
      history.replaceState(null, "", location.href.split("#")[0] + (words ? `#${words}` : ""));
    } catch {
      location.hash = words; // where a file of its own may not replace it
    }
  },
};

/** Says what an address asks for that is not here. */
class Missing {
  constructor(what) {
    this.what = what;
    this.node = el("p", { class: "note warn-text", role: "alert", hidden: true });
  }
  say(wrong) {
    this.node.hidden = !wrong.length;
    this.node.replaceChildren("The address asks for what is not in ", this.what, ": ", ...wrong.flatMap((each, at) => [at ? ", " : "", data(each, "b")]), ". The rest of it is shown.");
  }
}

/** Leads to a part of the page and leaves the address as it is. */
function partLink([id, text]) {
  const go = (event) => {
    event.preventDefault();
    document.getElementById(id).scrollIntoView();
  };
  return el("a", { href: `#${id}`, "data-part": true, click: go }, text);
}

/** Boxes that say which columns a table has; `chosen` holds their keys. */
class Columns {
  constructor(all, shown, changed) {
    Object.assign(this, { all, usual: shown, chosen: new Set(shown), changed });
    this.boxes = new Map(all.map(([key]) => [key, el("input", { type: "checkbox", change: () => this.toggle(key) })]));
    const labels = all.map(([key, label]) => el("label", {}, this.boxes.get(key), " ", name(label)));
    this.node = el("details", { class: "columns" }, el("summary", {}, "Columns"), el("div", { class: "choices" }, ...labels));
    this.mark();
  }
  toggle(key) {
    if (!this.chosen.delete(key)) this.chosen.add(key);
    const kept = this.all.map(([each]) => each).filter((each) => this.chosen.has(each));
    address.write({ columns: kept.join() === this.usual.join() ? null : kept.length ? kept : "none" });
    this.changed();
  }
  /** What an address says, as texts; gives those that are no columns. */
  follow(asked) {
    const names = asked.filter((key) => key !== "none");
    this.chosen = new Set(asked.length ? names.filter((key) => this.boxes.has(key)) : this.usual);
    this.mark();
    return names.filter((key) => !this.boxes.has(key)).map((key) => `the column ${key}`);
  }
  mark() {
    for (const [key, box] of this.boxes) box.checked = this.chosen.has(key);
  }
}
