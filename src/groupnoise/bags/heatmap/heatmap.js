// Choosing the class, sorting and filtering: every card carries what it is sorted and filtered by.
"use strict";
const byId = (id) => document.getElementById(id);
const list = byId("bags");
const cards = [...list.querySelectorAll(".bag")];

function score(card) {
  const chosen = byId("class").value;
  return JSON.parse(card.dataset.scores)[Number(chosen === "own" ? card.dataset.own : chosen)];
}

const orders = {
  name: (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true }),
  highest: (a, b) => score(b) - score(a),
  lowest: (a, b) => score(a) - score(b),
  wrong: (a, b) => Number(b.dataset.wrong) - Number(a.dataset.wrong) || score(b) - score(a),
};

function matches({ dataset }, words) {
  const given = byId("given");
  return (
    (!given || !given.value || dataset.given.split(";").includes(given.value)) &&
    (!byId("mistakes") || !byId("mistakes").checked || dataset.wrong === "1") &&
    words.every((word) => dataset.name.toLowerCase().includes(word))
  );
}

function apply() {
  document.body.dataset.class = byId("class").value;
  document.body.dataset.value = byId("value").value;
  list.style.setProperty("--strength", byId("strength").value / 100);
  list.style.setProperty("--card", `${byId("size").value}rem`);
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const card of cards) card.hidden = !matches(card, words);
  for (const card of [...cards].sort(orders[byId("order").value])) list.append(card);
  for (const part of document.querySelectorAll(".class-gallery")) {
    part.hidden = !["own", part.dataset.class].includes(byId("class").value);
  }
  const shown = cards.filter((card) => !card.hidden).length;
  byId("count").textContent = `${shown} of ${cards.length} ${cards.length === 1 ? "bag" : "bags"} shown`;
}

byId("filters").addEventListener("input", apply);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
// The fields are cleared only after the event, so the page follows a moment later.
byId("filters").addEventListener("reset", () => setTimeout(apply));
apply();
