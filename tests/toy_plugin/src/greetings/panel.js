panel("greetings", {
  title: "Greetings",
  draw: (people) => [el("ul", { class: "greetings" }, ...people.map((person) => el("li", {}, data(person))))],
  row: (shown) => el("p", {}, data(shown)),
});
