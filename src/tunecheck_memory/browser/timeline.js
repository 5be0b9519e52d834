// How the tests of a memory run were interleaved in one conversation: a lane for each, along the conversation's tokens.

const MARKS = ["statement", "question", "judge", "callback", "callback-over", "wait", "end"];
const MARK_NAMES = ["statement", "question", "the judge was asked", "callback begins", "callback is over", "waits", "end"];

const FIGURE_NAMES = {
  score: "score",
  max_score: "of at most",
  std: "±",
  accuracy: "accuracy",
  tokens_per_second: "tokens/s",
  verbosity: "verbosity, tokens",
  memory_span: "remembered over, tokens",
  longest_span: "longest span, tokens",
  tokens: "tokens of a conversation",
  messages: "its messages",
  fillers: "of them filler",
};

const LANE = { height: 18, left: 4, right: 8, top: 26, width: 1000 };

/** The nearest of 1, 2, 5, 10, 20, 50 … that is not larger; at least 1. */
function roundStep(most) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return power * (most >= 5 * power ? 5 : most >= 2 * power ? 2 : 1);
}

function scoreKind(score) {
  if (score === null) return "none";
  return score >= 1 ? "good" : score > 0 ? "warn" : "bad";
}

/** The lines of one conversation, as one drawing; names stand beside it. */
function lanes(session, open) {
  const { height, left, right, top, width } = LANE;
  const tests = session.tests;
  const place = (tokens) => left + ((width - left - right) * tokens) / Math.max(1, session.tokens);
  const whole_height = top + height * (tests.length + 1);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${whole_height}`, width, height: whole_height, class: "lanes", role: "img", "aria-label": `The tests of ${session.name} along its ${whole(session.tokens)} tokens` });
  const step = roundStep(session.tokens / 4);
  for (let tokens = 0; tokens <= session.tokens; tokens += step) {
    const anchor = tokens === 0 ? "start" : tokens > session.tokens - step / 4 ? "end" : "middle";
    drawn.append(svg("line", { x1: place(tokens), x2: place(tokens), y1: 16, y2: whole_height, class: "grid" }));
    drawn.append(svg("text", { x: place(tokens), y: 11, "text-anchor": anchor }, whole(tokens)));
  }
  for (const [tokens, seconds] of session.passed) {
    const line = svg("line", { x1: place(tokens), x2: place(tokens), y1: 16, y2: whole_height, class: "passed" });
    line.append(svg("title", {}, `${timePassed(seconds)} pass with nothing said`));
    drawn.append(line);
  }
  tests.forEach((test, lane) => drawn.append(laneOf(test, top + height * lane + height / 2, place, open)));
  const bottom = top + height * tests.length + height / 2;
  for (const [from, to] of session.filler) {
    const block = svg("rect", { x: place(from), y: bottom - 4, width: Math.max(0.5, place(to) - place(from)), height: 8, class: "filler" });
    block.append(svg("title", {}, `filler: ${whole(to - from)} tokens`));
    drawn.append(block);
  }
  return drawn;
}

function laneOf(test, y, place, open) {
  const group = svg("g", { class: `lane ${scoreKind(test.score)}`, click: () => open(test.row) });
  group.append(svg("line", { x1: place(test.begin), x2: place(test.end), y1: y, y2: y, class: "life" }));
  for (const [kind, tokens, message, at] of test.marks) {
    const mark = markOf(kind, place(tokens), y);
    if (!mark) continue;
    mark.append(svg("title", {}, `${test.id}: ${MARK_NAMES[kind]}, message ${whole(message)}, ${whole(tokens)} tokens, ${at}`));
    group.append(mark);
  }
  return group;
}

function markOf(kind, x, y) {
  const word = MARKS[kind];
  if (word === undefined || word === "wait") return null;
  if (word === "question") return svg("path", { d: `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`, class: word });
  if (word === "statement") return svg("circle", { cx: x, cy: y, r: 3.5, class: word });
  return svg("line", { x1: x, x2: x, y1: y - 6, y2: y + 6, class: word });
}

function sessionNode(session, open) {
  const names = el("ul", { class: "lane-names" });
  for (const test of session.tests) {
    const score = test.score === null ? "–" : figure(test.score);
    names.append(el("li", {}, el("button", { type: "button", class: "link", title: "open this test", click: () => open(test.row) }, data(test.id)), el("small", { class: scoreKind(test.score) }, score)));
  }
  names.append(el("li", {}, el("span", { class: "note" }, "filler")));
  const title = el("h3", {}, data(session.name), el("small", {}, ` ${counted(session.tests.length, "test")}, ${counted(session.messages, "message")}, ${counted(session.tokens, "token")}`));
  return el("article", { class: "card session" }, title, el("div", { class: "timeline" }, names, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Timeline of ${session.name}` }, lanes(session, open))));
}

/** What a memory run came to, all told and by data set. */
function memoryFigures(memory) {
  if (!memory) return [];
  const known = Object.keys(FIGURE_NAMES).filter((name) => memory[name] !== null);
  const pairs = known.map((name) => el("span", { class: "pair" }, FIGURE_NAMES[name], " ", el("b", {}, figure(memory[name]))));
  const heads = ["data set", "tests", "scored", "mean", "std"];
  const lines = Object.entries(memory.datasets).map(([title, each]) => el("tr", {}, el("th", { scope: "row" }, data(title)), ...heads.slice(1).map((name) => el("td", {}, each[name] === null ? "–" : figure(each[name])))));
  const table = el("table", { class: "figures" }, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...lines));
  return [el("p", { class: "sums" }, ...pairs), el("div", { class: "scroll" }, table)];
}

/** One entry of a memory test's own log. */
function entryNode([what, where, said, note]) {
  const head = el("div", { class: "entry-head" }, el("b", {}, data(what)), el("small", {}, where), note ? el("small", {}, data(note)) : null);
  return el("li", { class: said.length ? "entry said" : "entry" }, head, ...said.map(([who, text]) => (who === "reasoning" ? reasoningNode(text) : el("div", { class: `message ${who === "test" ? "user" : "assistant"}` }, el("span", { class: "role" }, who), el("div", {}, data(text, "pre"))))));
}

function logNode(entries) {
  return el("section", { class: "log" }, el("h3", {}, "The test's own log"), el("ol", { class: "entries" }, ...entries.map(entryNode)));
}

/** The figures and the timeline of a memory run. `open(row)` opens a test. */
function timelineNodes({ sessions, figures }, open) {
  const shape = (word, text) => el("span", { class: "pair" }, svg("svg", { viewBox: "0 0 14 14", width: 14, height: 14, class: "lanes key", "aria-hidden": "true" }, svg("g", { class: "lane good" }, markOf(MARKS.indexOf(word), 7, 7))), text);
  const key = el("p", { class: "note" }, "Each line is a test, along the tokens of the conversation: ", shape("statement", "statement"), shape("question", "question"), shape("callback", "callback or judge"), "Dashed lines: time passes with nothing said. The colour is the score: all, some, none of it.");
  return [...memoryFigures(figures), key, ...sessions.map((session) => sessionNode(session, open))];
}

panel("timeline", { title: "Timeline", draw: timelineNodes, row: logNode });
