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
const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)}%`;

/** A number in few digits. */
function figure(number) {
  if (typeof number !== "number") return number === null || number === undefined ? "–" : String(number);
  if (Number.isInteger(number) && Math.abs(number) < 1e15) return whole(number);
  const size = Math.abs(number);
  if (size >= 1e9 || (size < 1e-3 && size > 0)) return number.toPrecision(3);
  return size >= 100 ? number.toLocaleString("en-US", { maximumFractionDigits: 1 }) : number.toFixed(3);
}

function milliseconds(number) {
  if (number >= 60000) return `${(number / 60000).toFixed(1)} min`;
  return number >= 1000 ? `${(number / 1000).toFixed(number >= 10000 ? 0 : 1)} s` : `${Math.round(number)} ms`;
}

/** A section of the page, with its heading. */
function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
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
