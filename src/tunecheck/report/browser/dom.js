// Elements and words. Whatever comes from a run is put in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// Letters that hide something, or turn the writing direction; and halves of characters. They are shown by number.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e" +
    "\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb]|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** An element: attributes by name, functions among them as listeners; children are elements or plain text. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A text that came from a run, in a direction of its own; what is invisible in it is made visible. */
function data(text, tag = "span", attributes = {}) {
  const node = el(tag, { dir: "auto", ...attributes, class: `data ${attributes.class || ""}`.trim() });
  const words = String(text);
  let last = 0;
  for (const found of words.matchAll(HIDDEN)) {
    const code = `U+${found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    node.append(words.slice(last, found.index), el("span", { class: "hidden-letter", title: "an invisible character" }, code));
    last = found.index + found[0].length;
  }
  node.append(words.slice(last));
  return node;
}

/** The same in one line with places to break a long name at. */
function name(text) {
  const node = data("", "span");
  String(text)
    .split(/(?<=[_.\/])/)
    .forEach((part, at) => node.append(...(at ? [el("wbr")] : []), ...data(part).childNodes));
  return node;
}

const whole = (number) => number.toLocaleString("en-US");
const counted = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
const percent = (share, digits = 1) => `${rounded(share * 100, digits)}%`;

/** As toFixed, but exact halves become even, as in the texts that Python writes. */
function rounded(number, digits) {
  const scaled = number * 10 ** digits;
  const isHalf = Math.abs(scaled % 1) === 0.5 && Number.isInteger(number * 2 ** (digits + 1));
  return (isHalf ? (2 * Math.round(scaled / 2)) / 10 ** digits : number).toFixed(digits);
}

/** A number in few digits. */
function figure(number) {
  if (typeof number !== "number") return number === null || number === undefined ? "–" : String(number);
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return whole(number);
  const size = Math.abs(number);
  if (size >= 1e9 || (size < 1e-3 && size > 0)) return number.toPrecision(3);
  return size >= 100 ? number.toLocaleString("en-US", { maximumFractionDigits: 1 }) : rounded(number, 3);
}

function milliseconds(number) {
  if (number >= 60000) return `${(number / 60000).toFixed(1)} min`;
  return number >= 1000 ? `${(number / 1000).toFixed(number >= 10000 ? 0 : 1)} s` : `${Math.round(number)} ms`;
}

/** Seconds in the largest units that say something. */
function timePassed(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = units.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [[size, unit], next] = [units[at], units[at + 1]];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

/** Copies a text, which may be made when it is asked for, and says that it has. */
function copyButton(text, label = "Copy", shown = "copy") {
  const button = el("button", { type: "button", class: "copy", "aria-label": label, title: label, click: copy }, shown);
  async function copy() {
    const words = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(words);
    } catch {
      const area = el("textarea", { readonly: true }); // where a page of its own may not use the clipboard
      area.value = words;
      button.after(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = "copied";
    setTimeout(() => (button.textContent = shown), 1500);
  }
  return button;
}

const FOLDED = { characters: 1500, lines: 18 };

/** A text as it is written; a long one is folded, and can be copied. `block` is what shows it. */
function textBlock(text, block = data(text, "pre")) {
  if (text.length < 200) return block;
  if (text.length <= FOLDED.characters && text.split("\n", FOLDED.lines + 1).length <= FOLDED.lines) return el("div", { class: "text" }, block, copyButton(text));
  const more = el("button", { type: "button", class: "more", click: () => say(!box.classList.toggle("folded")) });
  const box = el("div", { class: "text folded" }, block, el("div", { class: "buttons" }, more, copyButton(text)));
  function say(open) {
    more.setAttribute("aria-expanded", String(open));
    more.textContent = open ? "show less" : `show all ${whole(text.length)} characters`;
  }
  say(false);
  return box;
}

/** A part that can be scrolled sideways, with the keyboard, too. */
function scroller(label, ...children) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

/** A table's head that sorts: `order` is `column` or `-column`; `columns` are `[key, label, class]`. */
function sortHeads(columns, order, sort) {
  return columns.map(([key, label, kind]) => {
    const sorted = order === key ? "ascending" : order === `-${key}` ? "descending" : null;
    const mark = sorted ? (sorted === "descending" ? " ▾" : " ▴") : "";
    const next = sorted === "ascending" ? `-${key}` : sorted ? "" : key;
    return el("th", { scope: "col", class: kind || null, "aria-sort": sorted }, el("button", { type: "button", class: "plain", title: "sort", click: () => sort(next) }, name(label), mark));
  });
}

/** Sorts numbers or texts by a key; what has no value stands last. */
function sortBy(items, key, down) {
  const keys = new Map(items.map((item) => [item, key(item)]));
  const none = (value) => value === null || value === undefined;
  const places = new Map(items.map((item, at) => [item, at]));
  return items.sort((one, other) => {
    const [a, b] = [keys.get(one), keys.get(other)];
    if (none(a) || none(b)) return none(a) - none(b) || places.get(one) - places.get(other);
    if (a === b) return places.get(one) - places.get(other);
    return a < b === !down ? -1 : 1;
  });
}

/** A run's name without the time and the number that its id ends with. */
const shortened = (id) => id.replace(/-\d{8}T\d{6}Z-[0-9a-f]{6}$/, "");

/** Short names of runs, where they still tell them apart. */
function shortNames(ids) {
  const short = ids.map(shortened);
  return new Set(short).size === ids.length ? short : ids;
}

/** A section of the page, with its heading. */
function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
}

/** The head of a page. What sticks or is scrolled to stays below it, however many lines it takes. */
function stickyHead(...children) {
  const head = el("header", { class: "top" }, ...children);
  new ResizeObserver(() => document.documentElement.style.setProperty("--top", `${head.offsetHeight}px`)).observe(head);
  return head;
}

/** Light, dark, or as the system has it; kept where the browser lets a page keep something. */
function themeButton() {
  const names = { auto: "◐ system", light: "☀ light", dark: "☾ dark" };
  const order = Object.keys(names);
  let now = "auto";
  try {
    now = localStorage.getItem("tunecheck-theme") || "auto";
  } catch {
    /* a file of its own may keep nothing */
  }
  const button = el("button", { type: "button", id: "theme", click: () => set(order[(order.indexOf(now) + 1) % 3]) });
  function set(theme) {
    now = order.includes(theme) ? theme : "auto";
    document.documentElement.dataset.theme = now;
    button.textContent = names[now];
    button.setAttribute("aria-label", `Theme: ${names[now].slice(2)}`);
    try {
      localStorage.setItem("tunecheck-theme", now);
    } catch {
      /* then the next page begins as the system has it */
    }
  }
  set(now);
  return button;
}
