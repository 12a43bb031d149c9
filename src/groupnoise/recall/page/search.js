"use strict";
/* The search box of the recall page: a combobox driven by arrows, Enter and Escape. */

const search = { items: [], selected: -1, timer: 0, order: 0 };

function closeSearch() {
  search.order += 1; // answers still on their way come too late
  $("suggestions").hidden = true;
  $("search").setAttribute("aria-expanded", "false");
  $("search").removeAttribute("aria-activedescendant");
}

async function runSearch() {
  const query = $("search").value.trim();
  const order = ++search.order;
  try {
    const { items } = await ask(`v1/items?limit=8&q=${encodeURIComponent(query)}`);
    if (order !== search.order) return;
    search.items = items;
    search.selected = items.length ? 0 : -1;
    renderSuggestions(query);
  } catch (error) {
    showError(error);
  }
}

function renderSuggestions(query) {
  const rows = search.items.map((item, index) => make("li", {
    id: `option-${index}`, role: "option", "aria-selected": String(index === search.selected),
    onmousedown: (event) => { event.preventDefault(); pick(index); },
  },
    make("span", { className: "title" }, nameOf(item)),
    item.category ? make("span", { className: "category" }, categoriesOf(item)) : null));
  if (!rows.length) rows.push(make("li", { className: "nothing" }, `No title holds “${query}”.`));
  $("suggestions").replaceChildren(...rows);
  $("suggestions").hidden = false;
  $("search").setAttribute("aria-expanded", "true");
  if (search.selected >= 0) {
    $("search").setAttribute("aria-activedescendant", `option-${search.selected}`);
    rows[search.selected].scrollIntoView({ block: "nearest" });
  }
}

function pick(index) {
  const item = search.items[index];
  if (!item) return;
  $("search").value = "";
  closeSearch();
  addClick(item);
}

function onSearchKey(event) {
  const isOpen = !$("suggestions").hidden;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (!isOpen) { runSearch(); return; }
    if (!search.items.length) return;
    const step = event.key === "ArrowDown" ? 1 : -1;
    search.selected = (search.selected + step + search.items.length) % search.items.length;
    renderSuggestions($("search").value);
  } else if (event.key === "Enter" && isOpen) {
    event.preventDefault();
    pick(search.selected);
  } else if (event.key === "Escape" && isOpen) {
    event.preventDefault();
    closeSearch();
  }
}

function wireSearch() {
  $("search").addEventListener("input", () => {
    clearTimeout(search.timer);
    search.timer = setTimeout(runSearch, 120);
  });
  $("search").addEventListener("focus", runSearch);
  $("search").addEventListener("blur", closeSearch);
  $("search").addEventListener("keydown", onSearchKey);
}
