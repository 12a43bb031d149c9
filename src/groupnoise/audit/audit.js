// Filters of the page: every card and row carries what it is filtered by.
"use strict";
const kind = document.getElementById("kind");
const label = document.getElementById("label");
const least = document.getElementById("least");
const words = document.getElementById("words");
const cards = [...document.querySelectorAll(".case")];
const rows = [...document.querySelectorAll("tbody tr")];

function matches({ dataset }, terms) {
  return (
    (!kind.value || dataset.kind === kind.value) &&
    (!label.value || dataset.label === undefined || dataset.label === label.value) &&
    Number(dataset.score) >= Number(least.value) &&
    terms.every((word) => dataset.words.toLowerCase().includes(word))
  );
}

function apply() {
  const terms = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of [...cards, ...rows]) entry.hidden = !matches(entry, terms);
  document.getElementById("least-shown").textContent = Number(least.value).toFixed(2);
  const shown = cards.filter((card) => !card.hidden).length;
  document.getElementById("count").textContent = `${shown} of ${cards.length} cases shown`;
  for (const list of document.querySelectorAll("details")) {
    const count = list.querySelectorAll("tbody tr:not([hidden])").length;
    list.hidden = Boolean(kind.value) && list.dataset.list !== kind.value;
    list.querySelector(".shown").textContent = `(${count})`;
  }
}

for (const link of document.querySelectorAll(".summary a")) {
  link.addEventListener("click", () => {
    kind.value = link.dataset.kind;
    apply();
  });
}
document.getElementById("filters").addEventListener("input", apply);
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
// The fields are cleared only after the event, so the filters follow a moment later.
document.getElementById("filters").addEventListener("reset", () => setTimeout(apply));
apply();
