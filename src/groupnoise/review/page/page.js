"use strict";

const at = (id) => document.getElementById(id);
const store = window.sessionStorage; // per tab: two tabs are two people
// randomUUID exists on loopback and under TLS only; this desk may be served otherwise.
const drawn = store.getItem("tab") ||
  crypto.getRandomValues(new Uint32Array(1))[0].toString(16).padStart(8, "0");
store.setItem("tab", drawn);
const RETRY_MS = 2000;
const LOOK = "The desk could not be reached: look whether your last step was taken.";
// Two tabs of one person stay two: each has its own row.
const who = () => (store.getItem("name") || "person") + "-" + drawn.slice(0, 4);
const nextRow = () => "/v1/next?who=" + encodeURIComponent(who());
let current = null;
let busy = false;
let later = 0;

async function ask(path, body) {
  const headers = {};
  const token = store.getItem("token");
  if (token) headers.Authorization = "Bearer " + token;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method: body ? "POST" : "GET", headers, body: body ? JSON.stringify(body) : undefined,
  });
  if (answer.status === 401) {
    const given = window.prompt("Token of this desk");
    if (given) { store.setItem("token", given.trim()); return ask(path, body); }
  }
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    const error = new Error((said.error && said.error.message) || "status " + answer.status);
    error.status = answer.status;
    throw error;
  }
  return answer;
}

function trouble(sentence) {
  at("trouble").hidden = !sentence;
  at("trouble").textContent = sentence || "";
}

function tell(progress) {
  at("progress").textContent = progress.answered + " of " + progress.total + " answered, " +
    progress.skipped + " skipped, " + progress.found_wrong + " corrected; about " +
    progress.expected_wrong + " of the rest may still be wrong" +
    (progress.learning ? "; learning" : progress.learned ? "; learned from " + progress.learned : "");
  if (progress.failure) trouble(progress.failure);
  at("learn").disabled = progress.learning || !progress.answered;
  at("bar").value = progress.total ? progress.answered / progress.total : 1;
  const waits = !current && progress.answered < progress.total;
  if (progress.learning || waits) soon();
}

// One look at a time, however many answers are given meanwhile.
function soon() {
  clearTimeout(later);
  later = setTimeout(watch, RETRY_MS);
}

async function watch() {
  if (busy) { soon(); return; }
  try {
    // Who has no row looks for one: another person may have left theirs.
    if (current) tell(await (await ask("/v1/progress")).json());
    else await refresh(nextRow());
  } catch {
    soon();
  }
}

// Pictures are asked for like all else, with the token; a tag alone could not send it.
async function load(image, address) {
  if (address.startsWith("data:")) { image.src = address; return; }
  try {
    const reader = new FileReader();
    reader.onload = () => { image.src = reader.result; };
    reader.readAsDataURL(await (await ask(address)).blob());
  } catch (error) {
    image.alt = error.message;
  }
}

// A doubtful row is not shown as a sure one: 100 % would be certain, and 0 % impossible.
function percent(weight) {
  const rounded = Math.round(100 * weight);
  if (rounded === 100 && weight < 1) return "> 99 %";
  return (rounded === 0 && weight > 0 ? "< 1" : rounded) + " %";
}

function picture(address, description) {
  const image = document.createElement("img");
  image.alt = description;
  load(image, address);
  return image;
}

function part(className, text) {
  const span = document.createElement("span");
  span.className = className;
  span.textContent = text;
  return span;
}

function show(next, progress) {
  current = next;
  at("note").value = (next && next.note) || "";
  tell(progress);
  for (const id of ["cells", "named", "others", "pictures"]) at(id).replaceChildren();
  at("skip").disabled = !next;
  at("more").hidden = !next;
  at("ask").textContent = next ? next.ask : "";
  if (!next) {
    at("cells").textContent = progress.answered >= progress.total
      ? "All rows are answered." : "Nothing is left for you: the other rows are with other people.";
    at("why").textContent = "";
    return;
  }
  for (const address of next.pictures || []) at("pictures").append(picture(address, "picture"));
  for (const [name, cell] of Object.entries(next.cells)) {
    const line = document.createElement("div");
    line.append(part("name", name), part("text", cell));
    at("cells").append(line);
  }
  at("why").textContent = next.why || "";
  next.labels.forEach((each, position) => {
    const button = document.createElement("button");
    if (position < 9) {
      const key = document.createElement("kbd");
      key.textContent = position + 1;
      button.append(key, " ");
    }
    button.append(each.label);
    if (each.weight !== null) {
      button.append(part("weight", percent(each.weight)));
    }
    if (each.picture) button.append(picture(each.picture, each.label));
    if (each.text) button.append(part("told", each.text));
    button.addEventListener("click", () => answer(each.label));
    at(each.named ? "named" : "others").append(button);
  });
  at("more").hidden = !at("others").children.length;
}

async function refresh(path, body) {
  const said = await (await ask(path, body)).json();
  show(said.next, said.progress);
}

// An answer that is sent twice is kept once, so that a lost connection costs a person nothing.
// What must not happen twice names what to do instead when the desk is back; the person is then
// told to look, and that stays until the next step.
async function guarded(work, again = work, afterwards = "") {
  if (busy) return;
  busy = true;
  try {
    await work();
    trouble(afterwards);
  } catch (error) {
    if (!error.status) {
      const left = again === work ? afterwards : LOOK;
      trouble(left ||
        "The desk cannot be reached: what you did last is sent again until it is back.");
      setTimeout(() => { busy = false; guarded(again, again, left); }, RETRY_MS);
      return;
    }
    trouble(error.message);
    if (error.status === 409) await refresh(nextRow());
  }
  busy = false;
}

const answer = (label) => {
  if (!current) return;
  const given = { row: current.row, who: who(), label, note: at("note").value };
  guarded(async () => {
    await ask("/v1/answer", given);
    await refresh(nextRow());
  });
};
const undo = () => guarded(
  () => refresh("/v1/undo", { who: who() }), () => refresh(nextRow()));
const learn = () => guarded(async () => {
  const said = await (await ask("/v1/learn", { who: who() })).json();
  tell(said.progress);
});
// Changes nothing, so that it need not wait for what is under way.
const save = async () => {
  try {
    const file = await (await ask("/v1/export")).blob();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = "labels.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) {
    trouble(error.status ? error.message : "The desk cannot be reached: export again later.");
  }
};

at("skip").addEventListener("click", () => answer(null));
at("undo").addEventListener("click", undo);
at("learn").addEventListener("click", learn);
at("export").addEventListener("click", save);
at("name").value = store.getItem("name") || "";
at("name").addEventListener("change", () => {
  const was = encodeURIComponent(who());
  store.setItem("name", at("name").value.trim());
  guarded(() => refresh(nextRow() + "&was=" + was)); // the row goes with the name
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target instanceof HTMLInputElement) {
    if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    return;
  }
  const key = event.key.toLowerCase();
  if (key >= "1" && key <= "9" && key.length === 1) {
    const chosen = current && current.labels[Number(key) - 1];
    // A label that nobody named is never chosen unseen: the first press shows it.
    if (chosen && !chosen.named && !at("more").open) at("more").open = true;
    else if (chosen) answer(chosen.label);
  } else if (key === "s") answer(null);
  else if (key === "u") undo();
  else if (key === "l" && !at("learn").disabled) learn();
  else if (key === "e") save();
  else if (key === "n") { event.preventDefault(); at("note").focus(); }
});
guarded(() => refresh(nextRow()));
