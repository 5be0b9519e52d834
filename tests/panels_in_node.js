// Runs the scripts of a report (its file is the argument) with a small stand-in of the browser; prints what panels draw.

const fs = require("fs");
const vm = require("vm");

class Element {
  constructor() {
    this.children = [];
  }
  append(...children) {
    this.children.push(...children);
  }
  setAttribute() {}
  addEventListener() {}
  get text() {
    return this.children.map((child) => child.text ?? String(child)).join("");
  }
}

const create = () => new Element();
const page = vm.createContext({
  console: { error() {} },
  document: { createElement: create, createElementNS: create, documentElement: { dataset: {} }, getElementById: () => null },
  addEventListener() {},
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  localStorage: { getItem: () => null },
});

const scripts = [...fs.readFileSync(process.argv[2], "utf8").matchAll(/<script>([^]*?)<\/script>/g)].map(([, script]) => script);
scripts[0] = scripts[0].replace(/\}\)\(\);\n$/, "globalThis.tested = { panelSections, panelRows };\n})();\n");
for (const script of scripts) {
  try {
    vm.runInContext(script, page);
  } catch {
    // A browser goes on with the next script, too.
  }
}

const panels = JSON.parse(process.argv[3]);
const texts = (nodes) => nodes.map((node) => node.text);
console.log(JSON.stringify([texts(page.tested.panelSections({ panels }, () => null)), texts(page.tested.panelRows({ panels }))]));
