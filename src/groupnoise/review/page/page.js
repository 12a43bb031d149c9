"use strict";

const at = (id) => document.getElementById(id);
const store = window.sessionStorage; // per tab: two tabs are two people
// randomUUID exists on loopback and under TLS only; this desk may be served otherwise.
const drawn = crypto.getRandomValues(new Uint32Array(1))[0].toString(16);
const who = store.getItem("who") || "person-" + drawn;
store.setItem("who", who);
let current = null;
let busy = false;

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

function show(next, progress) {
  current = next;
  at("note").value = "";
  at("progress").textContent = progress.answered + " of " + progress.total + " answered, " +
    progress.skipped + " skipped; about " + progress.expected_wrong + " labels may still be wrong" +
    (progress.learning ? "; learning" : progress.learned ? "; learned from " + progress.learned : "");
  if (progress.failure) trouble(progress.failure);
  at("learn").disabled = progress.learning || !progress.answered;
  at("bar").value = progress.total ? progress.answered / progress.total : 1;
  for (const id of ["cells", "named", "others"]) at(id).replaceChildren();
  at("skip").disabled = !next;
  at("more").hidden = !next;
  if (!next) {
    at("cells").textContent = progress.answered >= progress.total
      ? "All rows are answered." : "Nothing is left for you: the other rows are with other people.";
    at("why").textContent = "";
    return;
  }
  for (const [name, cell] of Object.entries(next.cells)) {
    const line = document.createElement("div");
    const head = document.createElement("span");
    const text = document.createElement("span");
    head.className = "name"; head.textContent = name;
    text.className = "text"; text.textContent = cell;
    line.append(head, text);
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
    const weight = document.createElement("span");
    weight.className = "weight";
    weight.textContent = Math.round(100 * each.weight) + " %";
    button.append(weight);
    button.addEventListener("click", () => answer(each.label));
    at(each.named ? "named" : "others").append(button);
  });
  at("more").hidden = !at("others").children.length;
}

async function refresh(path, body) {
  const said = await (await ask(path, body)).json();
  show(said.next, said.progress);
}

async function guarded(work) {
  if (busy) return;
  busy = true;
  try {
    await work();
    trouble("");
  } catch (error) {
    trouble(error.status ? error.message
      : "The desk cannot be reached, and the last answer may not be saved: give it again.");
    if (error.status === 409) await refresh("/v1/next?who=" + encodeURIComponent(who));
  } finally {
    busy = false;
  }
}

const answer = (label) => guarded(async () => {
  if (!current) return;
  await ask("/v1/answer", { row: current.row, who, label, note: at("note").value });
  await refresh("/v1/next?who=" + encodeURIComponent(who));
});
const undo = () => guarded(() => refresh("/v1/undo", { who }));

at("skip").addEventListener("click", () => answer(null));
at("undo").addEventListener("click", undo);
at("learn").addEventListener("click", () => guarded(async () => {
  await ask("/v1/learn", { who });
  at("learn").disabled = true;
}));
at("export").addEventListener("click", () => guarded(async () => {
  const file = await (await ask("/v1/export")).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "labels.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target === at("note")) {
    if (event.key === "Escape" || event.key === "Enter") at("note").blur();
    return;
  }
  const key = event.key.toLowerCase();
  if (key >= "1" && key <= "9" && key.length === 1) {
    const chosen = current && current.labels[Number(key) - 1];
    if (chosen) answer(chosen.label);
  } else if (key === "s") answer(null);
  else if (key === "u") undo();
  else if (key === "n") { event.preventDefault(); at("note").focus(); }
});
guarded(() => refresh("/v1/next?who=" + encodeURIComponent(who)));
