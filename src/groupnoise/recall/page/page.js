"use strict";
/* The recall page. State lives in `state`; every change of it ends in refresh() or a render.
   The search box is in search.js. */

const state = { clicks: [], models: null, lists: [], answers: {}, opened: null, order: 0 };
const $ = (id) => document.getElementById(id);

/* ---------- small tools ---------- */

function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "part") node.style.setProperty("--part", `${Math.round(100 * value)}%`);
    else if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const nameOf = (item) => item.title || String(item.item);
const categoriesOf = (item) => item.category.replaceAll("|", " · ");
const percent = (share) => `${Math.round(100 * share)} %`;
const sameItem = (a, b) => String(a) === String(b);

class ServiceError extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function ask(path, body) {
  const headers = {};
  const token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = { headers };
  if (body) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new ServiceError(0, "The service does not answer.");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok && answer) return answer;
  throw new ServiceError(response.status, answer?.error?.message ?? `The service answered ${response.status}.`);
}

/* ---------- errors ---------- */

function showError(error) {
  if (!(error instanceof ServiceError)) console.error(error); // a fault of the page or of a card
  if (error.status === 401) {
    $("token-form").hidden = false;
    $("token").focus();
    return;
  }
  const sentence = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  $("banner").replaceChildren(
    make("span", {}, sentence),
    make("button", { type: "button", onclick: start }, "Try again"),
  );
  $("banner").hidden = false;
}

/* ---------- clicks ---------- */

function addClick(item) {
  state.clicks.push(item);
  refresh();
}

function removeClick(index) {
  state.clicks.splice(index, 1);
  refresh();
  const buttons = $("clicks").querySelectorAll(".remove");
  (buttons[Math.min(index, buttons.length - 1)] ?? $("search")).focus();
}

function renderClicks() {
  // The answer lists known clicks in order: walk both lists together, as an item may come twice.
  const weighed = [...(state.answers.main?.clicks ?? [])];
  $("clear").hidden = state.clicks.length === 0;
  $("clicks").replaceChildren(...state.clicks.map((click, index) => {
    const known = weighed.length && sameItem(weighed[0].item, click.item) ? weighed.shift() : null;
    const isNoise = Boolean(known?.is_noise);
    return make("li", { className: `click${isNoise ? " is-noise" : ""}`, "data-item": String(click.item) },
      make("span", {},
        make("span", { className: "title" }, nameOf(click)),
        click.category ? make("span", { className: "category" }, categoriesOf(click)) : null),
      make("button", {
        type: "button", className: "quiet remove", onclick: () => removeClick(index),
        "aria-label": `Remove ${nameOf(click)}`,
      }, "×"),
      known ? weightOf(known) : null);
  }));
  const unknown = state.answers.main?.unknown ?? [];
  $("clicks-note").textContent = state.clicks.length === 0
    ? "Pick what a visitor clicked, oldest first. Until then you see what is popular."
    : unknown.length ? `Not known to the model: ${unknown.join(", ")}.` : "";
}

function weightOf(click) {
  if (click.weight === null) {
    const looksBack = (state.answers.main?.clicks ?? []).some((other) => other.weight !== null);
    return looksBack ? make("span", { className: "weight" }, "older than the model looks at") : null;
  }
  const word = click.is_noise === null ? "share of the list"
    : click.is_noise ? "counts as noise" : "weight in the group";
  return make("span", { className: "weight" },
    make("span", { className: "word" }, word),
    make("span", { className: "bar", "aria-hidden": "true" }, make("i", { part: click.weight })),
    make("span", {}, click.weight.toFixed(2)));
}

function highlightMatch(item) {
  for (const node of $("clicks").children) {
    node.classList.toggle("is-matched", item !== null && sameItem(node.dataset.item, item));
  }
}

/* ---------- results ---------- */

function renderLists() {
  const names = Object.keys(state.answers);
  const inMain = new Set((state.answers.main?.items ?? []).map((item) => String(item.item)));
  const inBoth = new Set((state.answers.compare?.items ?? []).map((item) => String(item.item))
    .filter((item) => inMain.has(item)));
  $("lists").replaceChildren(...names.map((name) => {
    const answer = state.answers[name];
    const items = answer.items.flatMap((item, index) => {
      const isOnlyHere = names.length > 1 && !inBoth.has(String(item.item));
      const rank = 1 + index - answer.items.findIndex((other) => sameItem(other.click, item.click));
      const row = resultRow(name, answer, item, { index, rank, isOnlyHere });
      const leads = rank === 1 && item.click !== undefined && item.click !== null;
      return leads ? [make("li", { className: "led-by" }, `for ${nameOfClick(item.click)}`), row] : [row];
    });
    const card = state.models[name].card;
    return make("section", { className: "panel list", id: `list-${name}`, "aria-label": modelName(name) },
      make("div", { className: "heading" }, make("h2", {}, modelName(name))),
      make("p", { className: "about" }, answer.source === "popularity"
        ? "No known click yet: the most popular items."
        : card.summary ?? ""),
      items.length
        ? make("ol", {}, ...items)
        : make("p", { className: "empty" }, "Nothing passes these filters."));
  }));
}

/* The first answer with a reason opens by itself, once, so that reasons are seen to exist. */
function firstReason() {
  const first = state.answers.main.items[0];
  return first?.matched ? `main:${first.item}` : null;
}

function resultRow(name, answer, item, { index, rank, isOnlyHere }) {
  const key = `${name}:${item.item}`;
  const isOpen = state.opened === key;
  const matched = item.matched?.item ?? null;
  const row = make("li", { className: "item" });
  const button = make("button", {
    type: "button", "aria-expanded": String(isOpen),
    onclick: () => { state.opened = isOpen ? "" : key; renderLists(); focusRow(name, index); },
    onmouseenter: () => highlightMatch(matched),
    onmouseleave: () => highlightMatch(null),
    onfocus: () => highlightMatch(matched),
    onblur: () => highlightMatch(null),
  },
    make("span", { className: "rank" }, String(rank)),
    make("span", {},
      make("span", { className: "title" }, nameOf(item)),
      item.category ? make("span", { className: "category" }, categoriesOf(item)) : null,
      isOnlyHere ? make("span", { className: "badge" }, "only here") : null),
    make("span", { className: "score", title: "score" }, formatScore(item.score)));
  row.append(button);
  if (isOpen) row.append(whyPanel(answer, item));
  return row;
}

function nameOfClick(id) {
  return nameOf(state.clicks.find((click) => sameItem(click.item, id)) ?? { item: id });
}

function focusRow(name, index) {
  const rows = document.querySelectorAll(`#list-${name} .item > button`);
  rows[index]?.focus();
}

const formatScore = (score) => Math.abs(score) >= 100 ? score.toFixed(0) : score.toFixed(2);

function whyPanel(answer, item) {
  const panel = make("div", { className: "why" });
  const match = item.matched;
  const clicks = answer.clicks ?? [];
  const cause = match && clicks.find((click) => sameItem(click.item, match.item));
  if (cause) {
    panel.append(make("p", {}, "Matched by ", make("strong", {}, nameOf(cause)),
      `, which brings ${percent(match.responsibility)} of the score.`));
    panel.append(...shareRows(clicks, item.shares ?? []));
  } else {
    panel.append(make("p", {}, "No click speaks for it: it is shown because it is popular."));
  }
  panel.append(make("button", {
    type: "button", className: "add",
    onclick: () => addClick({ item: item.item, title: item.title, category: item.category }),
  }, "Click this item too"));
  return panel;
}

function shareRows(clicks, shares) {
  if (clicks.length < 2) return [];
  return clicks.map((click, index) => make("div", { className: `share${click.is_noise ? " is-noise" : ""}` },
    make("span", { className: "name", title: nameOf(click) }, nameOf(click)),
    make("span", { className: "bar", "aria-hidden": "true" }, make("i", { part: shares[index] ?? 0 })),
    make("span", { className: "number" }, percent(shares[index] ?? 0))));
}

/* ---------- model cards ---------- */

const cardName = (name) => state.models[name].card.name ?? (name === "main" ? "Model" : "Second model");

/* Two models of one name are told apart by their versions. */
function modelName(name) {
  const other = name === "main" ? "compare" : "main";
  const isAlone = !state.models[other] || cardName(other) !== cardName(name);
  return isAlone ? cardName(name) : `${cardName(name)} ${state.models[name].version}`;
}

function renderCards() {
  const names = ["main", "compare"].filter((name) => state.models[name]);
  $("cards").replaceChildren(...names.map((name) => modelCard(modelName(name), state.models[name])));
}

function modelCard(title, model) {
  const { name, summary, example, metrics, ...facts } = model.card;
  const rows = [
    ...Object.entries(facts),
    ...Object.entries(metrics ?? {}),
    ["items", model.n_items.toLocaleString("en")],
    ["scores by", model.clicks_used],
    ["search", model.index ? `${model.index.kind}, recall ${model.index.recall} at ${model.index.at}` : "exact"],
    ["version", model.version],
    ["exported", model.created?.slice(0, 16).replace("T", " ")],
  ];
  return make("article", { className: "panel card" },
    make("h3", {}, title),
    summary ? make("p", {}, summary) : null,
    make("dl", {}, ...rows.filter(([, value]) => value !== undefined && value !== null).flatMap(
      ([term, value]) => [make("dt", {}, term.replaceAll("_", " ")), make("dd", {}, readable(value))])));
}

function readable(value) {
  if (value === null) return "none";
  if (typeof value === "number" && !Number.isInteger(value)) return value.toPrecision(3);
  if (Array.isArray(value)) return value.map(readable).join(", ");
  if (typeof value === "object") return Object.entries(value).map(([k, v]) => `${k} ${readable(v)}`).join(", ");
  return String(value);
}

/* ---------- asking ---------- */

function requestFor(model) {
  const request = {
    histories: [state.clicks.map((click) => click.item)],
    top: Number($("top").value), scope: $("scope").value || null,
    exclude_seen: $("exclude").checked, model, explain: true,
  };
  if ($("category").value) request.categories = [$("category").value];
  const capped = $("cap-of").value; // which a second model need not have
  if ($("cap").value && state.models[model].attributes[capped]) {
    request.max_per = { [capped]: Number($("cap").value) };
  }
  if (state.models[model].dimension) request.diversity = Number($("diversity").value);
  if ($("interests").value) request.interests = Number($("interests").value);
  if ($("min-score").value) request.min_score = Number($("min-score").value);
  if ($("filter").value.trim()) request.filter = filterIn($("filter").value);
  if ($("list").value) request.allow_lists = [$("list").value];
  if ($("deny").value) request.deny_lists = [$("deny").value];
  return request;
}

function filterIn(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ServiceError(422, `A filter is written as JSON, such as ${$("filter").placeholder}`);
  }
}

async function refresh() {
  const order = ++state.order;
  renderClicks();
  rememberClicks();
  $("lists").setAttribute("aria-busy", "true");
  const names = ["main", "compare"].filter((name) => state.models[name]);
  try {
    const requests = names.map(requestFor);
    const answers = await Promise.all(requests.map((request) => ask("v1/recall", request)));
    if (order !== state.order) return; // a later change has overtaken this answer
    names.forEach((name, index) => { state.answers[name] = answers[index].results[0]; });
    state.opened ??= firstReason();
    $("banner").hidden = true;
    renderClicks();
    renderLists();
    const count = state.answers.main.items.length;
    const clicked = state.clicks.length === 1 ? "1 click" : `${state.clicks.length} clicks`;
    $("status").textContent = `${count} ${count === 1 ? "item" : "items"} recalled from ${clicked}.`;
  } catch (error) {
    if (order === state.order) showError(error);
  } finally {
    if (order === state.order) $("lists").removeAttribute("aria-busy");
  }
}

/* The picked items stay in the address, so that a view can be kept or sent. */
function rememberClicks() {
  const ids = state.clicks.map((click) => encodeURIComponent(click.item)).join(",");
  history.replaceState(null, "", ids ? `#items=${ids}` : location.pathname + location.search);
}

/* Each id is escaped by itself, so that one with a comma in it stays whole. */
function rememberedIds() {
  const ids = /^#items=([^&]+)/.exec(location.hash)?.[1];
  return ids === undefined ? null : ids.split(",").map(unescaped);
}

function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // written by hand: a % that escapes nothing
  }
}

function exampleIds() {
  const { example } = state.models.main.card;
  return Array.isArray(example) ? example.filter((id) => ["string", "number"].includes(typeof id)) : [];
}

async function pickIds(ids) {
  const found = await Promise.all(ids.map((id) => ask(`v1/items?limit=1&q=${encodeURIComponent(id)}`)));
  state.clicks = ids.map((id, index) => {
    const item = found[index].items[0];
    return item && sameItem(item.item, id) ? item : { item: id, title: null, category: null };
  });
  await refresh();
}

/* ---------- start ---------- */

function fillOptions() {
  const { categories } = state.models.main;
  const hasCategories = categories.length > 0;
  $("category-label").hidden = !hasCategories;
  $("category").replaceChildren(make("option", { value: "" }, "any"),
    ...categories.map((name) => make("option", { value: name }, name)));
  const named = Object.entries(state.models.main.attributes);
  $("filter-label").hidden = $("cap-label").hidden = named.length === 0;
  $("cap-of-label").hidden = named.length < 2;
  $("cap-of").replaceChildren(...named.map(([name]) => make("option", { value: name }, name)));
  if (hasCategories) $("cap-of").value = "category";
  nameCap();
  if (named.length) $("filter").placeholder = JSON.stringify({ [named[0][0]]: named[0][1].slice(0, 1) });
  for (const [id, first] of [["list", "any item"], ["deny", "no list"]]) {
    $(`${id}-label`).hidden = state.lists.length === 0;
    $(id).replaceChildren(make("option", { value: "" }, first),
      ...state.lists.map(({ name }) => make("option", { value: name }, name)));
  }
  $("scope").options[0].textContent = state.models.main.clicks_used;
  $("example").hidden = exampleIds().length === 0;
}

function nameCap() {
  $("cap-name").textContent = `Per ${$("cap-of").value}`;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

async function start() {
  $("banner").hidden = true;
  try {
    state.models = await ask("v1/model");
    state.lists = (await ask("v1/lists")).lists;
    $("token-form").hidden = true;
    fillOptions();
    renderCards();
    await pickIds(rememberedIds() ?? exampleIds());
  } catch (error) {
    showError(error);
  }
}

function wire() {
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  setTheme(localStorage.getItem("theme") ?? (preferred.matches ? "dark" : "light"));
  preferred.addEventListener("change", (event) => {
    if (!localStorage.getItem("theme")) setTheme(event.matches ? "dark" : "light");
  });
  $("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    setTheme(next);
  });
  wireSearch();
  $("cap-of").addEventListener("change", nameCap);
  for (const id of ["scope", "top", "category", "cap-of", "cap", "exclude", "diversity", "interests", "min-score",
    "filter", "list", "deny"]) $(id).addEventListener("change", refresh);
  $("clear").addEventListener("click", () => { state.clicks = []; refresh(); $("search").focus(); });
  $("example").addEventListener("click", () => pickIds(exampleIds()).catch(showError));
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", $("token").value);
    start();
  });
}

wire();
start();
