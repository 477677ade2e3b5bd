// The page of Hustings: who leads, why, since when, who is next, and what is wrong.
//
// The rules that must hold:
// - Texts from the cluster become text nodes, never markup.
// - The state comes from the event stream only. What is shown without a connection is marked as old.
// - A message changes data and the title at once, and the document in the next frame, a few rows at a time.
// - A page that is hidden holds no connection for long.

import {
  byId, clock, element, lease, name, nobody, problem, refresh, renew, setClock, setText, since, state, strip, vacantSince,
} from "./lease.js";

const ROWS_PER_FRAME = 60;
const SILENCE_LIMIT_MS = 15000; // three heartbeats
const RECONNECT_MS = 2000;
const HIDDEN_MS = 60000;
const UNLED = new Set(["unheld", "no-candidate", "reserved", "hold", "granted"]);

const views = new Map(); // "namespace/name" to the newest view
const rows = new Map(); // "namespace/name" to its row
const order = []; // the rows as they are shown
const dirty = new Set(); // the rows to render
let frame = 0;
let counted = false; // the whole state was read once
let selected = null;
let detailDirty = false;
let filter = "all";
let words = [];

// --- the list -----------------------------------------------------------------------------------------------------

function makeRow(key) {
  const cell = (label) => element("td", { role: "cell", "data-label": label });
  const row = { key, link: element("a", {}), cells: {} };
  row.cells.lease = element("th", { role: "rowheader", scope: "row" }, row.link);
  row.cells.leader = cell("Leader");
  row.cells.since = cell("For");
  row.cells.next = cell("Next");
  row.cells.wrong = cell("Problem or note");
  row.node = element("tr", { role: "row" }, ...Object.values(row.cells));
  const [namespace, title] = key.split("/");
  row.link.href = `#/${encodeURIComponent(namespace)}/${encodeURIComponent(title)}`;
  row.link.append(name(title), " ", element("small", {}, name(namespace)));
  return row;
}

function isWrong(view) {
  return view.severity === "critical" || view.severity === "warning";
}

function showRow(key) {
  const view = views.get(key);
  let row = rows.get(key);
  if (!view) {
    if (row) {
      order.splice(order.indexOf(row), 1);
      row.node.remove();
      rows.delete(key);
    }
    return;
  }
  if (!row) rows.set(key, (row = makeRow(key)));
  const changedHands = row.view && row.view.holder !== view.holder;
  row.view = view;
  row.text = [key, view.holder ?? "", ...view.candidates.map((candidate) => candidate.name)].join("\n").toLowerCase();
  row.node.className = view.severity;
  const { leader, since: sinceCell, next, wrong } = row.cells;
  leader.replaceChildren(view.holder ? name(view.holder) : element("span", { class: "none" }, nobody(view)));
  const hasBadge = view.state !== "held" && (view.holder || state(view) !== nobody(view));
  if (hasBadge) leader.append(" ", element("span", { class: "badge" }, state(view)));
  leader.classList.toggle("changed", Boolean(changedHands));
  const began = view.holder ? view.since : vacantSince(view);
  sinceCell.replaceChildren(...(began ? [since(began, "rough")] : ["–"]));
  next.replaceChildren(view.next ? name(view.next.name) : element("span", { class: "none" }, nobody(view)));
  if (view.next && !view.next.live) next.append(" ", element("span", { class: "badge" }, "unproven"));
  const worst = view.problems[0];
  const acts = view.acts.map((act) => element("span", { class: "badge" }, act.act === "pause" ? "elections paused" : act.act));
  wrong.replaceChildren(...(worst ? [name(worst.text)] : []), ...acts);
  place(row);
  row.node.hidden = !matches(row);
}

// Problems come first. A note is no problem, and must not make rows jump.
function place(row) {
  const position = `${{ critical: 0, warning: 1 }[row.view.severity] ?? 2} ${row.key}`;
  if (row.position === position) return;
  const hadFocus = row.node.contains(document.activeElement);
  if (row.position !== undefined) order.splice(order.indexOf(row), 1);
  row.position = position;
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order[middle].position < position) low = middle + 1;
    else high = middle;
  }
  byId("rows").insertBefore(row.node, order[low]?.node ?? null);
  order.splice(low, 0, row);
  if (hadFocus) row.link.focus();
}

function matches(row) {
  if (filter === "wrong" && !isWrong(row.view)) return false;
  if (filter === "unled" && !UNLED.has(row.view.state)) return false;
  return words.every((word) => row.text.includes(word));
}

function showCounts() {
  const all = [...views.values()];
  const wrong = all.filter(isWrong).length;
  setText(byId("count-all"), String(all.length));
  setText(byId("count-wrong"), String(wrong));
  setText(byId("count-unled"), String(all.filter((view) => UNLED.has(view.state)).length));
  const shown = order.some((row) => !row.node.hidden);
  const reason = all.length > 0 ? "No Lease matches." : "There is no Lease with a candidate yet.";
  setText(byId("empty"), counted ? reason : "Waiting for the controller.");
  byId("empty").hidden = shown;
}

// --- one Lease ----------------------------------------------------------------------------------------------------

function showDetail() {
  detailDirty = false;
  document.body.classList.toggle("detailed", selected !== null);
  byId("detail").hidden = selected === null;
  document.querySelector("a[aria-current]")?.removeAttribute("aria-current");
  if (selected === null) return;
  rows.get(selected)?.link.setAttribute("aria-current", "true");
  const view = views.get(selected);
  const missing = counted ? "This Lease does not exist, and has no candidate." : "Waiting for the controller.";
  const parts = view ? lease(view) : [element("p", { class: "why" }, missing)];
  renew(byId("detail-body"), element("div", { id: "detail-body" }, ...parts));
}

// --- frames -------------------------------------------------------------------------------------------------------

function schedule() {
  if (frame === 0) frame = requestAnimationFrame(render);
}

function render() {
  frame = 0;
  let budget = ROWS_PER_FRAME;
  for (const key of dirty) {
    if (budget-- === 0) break;
    dirty.delete(key);
    showRow(key);
    if (key === selected) detailDirty = true;
  }
  if (detailDirty) showDetail();
  showCounts();
  if (dirty.size > 0) schedule();
}

function applyFilter() {
  filter = document.querySelector("input[name=filter]:checked").value;
  words = byId("search").value.toLowerCase().split(/\s+/);
  for (const row of order) row.node.hidden = !matches(row);
  showCounts();
}

setInterval(() => {
  for (const node of document.querySelectorAll("[data-since]")) {
    if (node.closest("[hidden]")) continue;
    refresh(node);
  }
}, 1000);

// The strip ends at the present.
setInterval(() => {
  const view = views.get(selected);
  if (view) document.querySelector(".strip")?.replaceWith(strip(view.timeline));
}, 5000);

// --- the stream ---------------------------------------------------------------------------------------------------

let source = null; // none while a hidden page rests
let watchdog = 0;
let lost = false; // whether the page says that it is disconnected
let heard = null; // when the last event came
let hiddenAt = 0; // when the page was last hidden; 0 if it was never visible
let seen = null; // the Leases of the state that is being read, if one is

function connect() {
  source?.close();
  source = new EventSource("events");
  source.addEventListener("change", (event) => {
    apply(JSON.parse(event.data));
    settle();
  });
  source.addEventListener("heartbeat", (event) => {
    alive(event.data);
    settle();
  });
  source.addEventListener("error", () => {
    // The browser retries after a broken connection, but not after an answer such as 503.
    disconnected(source.readyState === EventSource.CLOSED);
  });
  // A browser at its limit of connections reports no error: the new one waits.
  watch(SILENCE_LIMIT_MS, () => disconnected(true));
}

function watch(time, then) {
  clearTimeout(watchdog);
  watchdog = setTimeout(then, time);
}

function alive(serverTime) {
  setClock(serverTime);
  watch(SILENCE_LIMIT_MS, () => disconnected(true));
  heard = new Date();
  if (lost) announce("Connected again.");
  lost = false;
  byId("stale").hidden = true;
  byId("connection").dataset.state = "live";
  setText(byId("connection"), "Connected");
  document.body.classList.remove("stale");
}

function disconnected(again) {
  stale();
  document.title = "(?) Hustings";
  watch(again ? RECONNECT_MS : SILENCE_LIMIT_MS, connect);
}

function stale() {
  lost = true;
  byId("connection").dataset.state = "disconnected";
  setText(byId("connection"), counted ? "Disconnected" : "Not connected");
  setText(byId("stale"), counted
    ? `Disconnected. This is the last known state, of ${clock.format(heard)}. Trying again.`
    : "Not connected. The controller does not answer, or too many of its pages are open. Trying again.");
  byId("stale").hidden = false;
  document.body.classList.add("stale");
}

// After each event. A hidden page gets no frames, but people read its title.
function settle() {
  const wrong = [...views.values()].filter(isWrong).length;
  document.title = wrong > 0 ? `(${wrong}) Hustings` : "Hustings";
  if (document.hidden && seen === null && Date.now() - hiddenAt > HIDDEN_MS) rest();
}

// A browser opens only six connections to a host, for all its tabs. So a page that is hidden for long gives its own up.
// Once a minute it reads the state, which keeps its title true.
function rest() {
  source.close();
  source = null;
  watch(HIDDEN_MS, connect);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) hiddenAt = Date.now();
  if (document.hidden || source !== null) return;
  stale();
  connect();
});

function apply(change) {
  alive(change.now);
  if (change.reset) seen = new Set();
  if (change.controller) showController(change.controller);
  for (const key of change.removed) {
    views.delete(key);
    dirty.add(key);
  }
  for (const view of change.leases) {
    const key = `${view.namespace}/${view.name}`;
    const before = views.get(key);
    if (key === selected && before && news(before) !== news(view)) announce(news(view));
    views.set(key, view);
    seen?.add(key);
    dirty.add(key);
  }
  if (!change.more) {
    counted = true;
    if (seen) {
      for (const key of views.keys()) {
        if (!seen.has(key)) {
          views.delete(key);
          dirty.add(key);
        }
      }
      seen = null;
      detailDirty = true;
    }
  }
  schedule();
}

function news(view) {
  if (!view.holder && view.state === "unread") return `It is unknown who leads ${view.name}`;
  return `${view.holder ?? "Nobody"} leads ${view.name}`;
}

// A screen reader reads only changes, and the same text may have to be read twice.
function announce(text) {
  setText(byId("announcer"), "");
  setTimeout(() => setText(byId("announcer"), text), 100);
}

function showController({ identity, leads, leader, version, problems }) {
  const node = byId("controller");
  node.replaceChildren("Controller ", name(identity), leads ? " elects" : " stands by");
  if (!leads) node.append("; ", ...(leader ? [name(leader), " elects"] : ["which one elects is unknown"]));
  node.append(`, version ${version}`);
  byId("checks").replaceChildren(...problems.map(problem));
}

// --- keyboard and address -----------------------------------------------------------------------------------------

function select() {
  const parts = location.hash.match(/^#\/([^/]+)\/([^/]+)$/);
  const former = selected;
  try {
    selected = parts ? `${decodeURIComponent(parts[1])}/${decodeURIComponent(parts[2])}` : null;
  } catch {
    selected = null; // not a valid encoding
  }
  showDetail();
  if (selected !== null) {
    const [namespace, title] = selected.split("/");
    byId("detail-title").replaceChildren(name(title), " ", element("small", {}, name(namespace)));
    byId("detail-title").focus();
  } else if (former !== null) {
    (rows.get(former)?.link ?? byId("search")).focus();
  }
}

function close() {
  if (selected !== null) location.hash = "";
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inSearch = event.target === byId("search");
  if (event.key === "Escape") {
    if (inSearch && byId("search").value) {
      byId("search").value = "";
      applyFilter();
    } else {
      close();
    }
  } else if (event.key === "/" && !inSearch) {
    event.preventDefault();
    byId("search").focus();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.type !== "radio") {
    const shown = order.filter((row) => !row.node.hidden);
    const index = shown.findIndex((row) => row.link === document.activeElement);
    if (index < 0 && !inSearch) return;
    const next = shown[event.key === "ArrowDown" ? index + 1 : index - 1];
    if (next) {
      event.preventDefault();
      next.link.focus();
    }
  }
});

// A click anywhere in a row opens it, unless it selects text.
byId("rows").addEventListener("click", (event) => {
  const link = event.target.closest("tr")?.querySelector("a");
  if (!link || event.target.closest("a") || !getSelection().isCollapsed) return;
  const { ctrlKey, metaKey, shiftKey } = event;
  link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey }));
});

byId("search").addEventListener("input", applyFilter);
byId("filter").addEventListener("change", applyFilter);
byId("close").addEventListener("click", (event) => {
  event.preventDefault();
  close();
});
window.addEventListener("hashchange", select);
if (location.hash) select();
connect();
