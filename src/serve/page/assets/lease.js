// How one Lease is shown, and the building blocks of the page.
//
// The rule that must hold: texts from the cluster become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const SHORTEST_STRIP_MS = 10000;
const MOST_IN_STRIP = 12;
const STATES = {
  held: "led", granted: "granted", foreign: "foreign leader", assisted: "assisted leader", unheld: "no leader", "no-candidate": "no leader",
  reserved: "reserved", hold: "on hold", unread: "unknown",
};

let clockOffset = 0; // the controller's clock less this one

export const byId = (id) => document.getElementById(id);

export const now = () => Date.now() + clockOffset;

export function setClock(serverTime) {
  clockOffset = Date.parse(serverTime) - Date.now();
}

export const state = (view) => STATES[view.state] ?? view.state;

// Who leads or comes next, if the view names none. Unread is unknown, not vacant.
export const nobody = (view) => (view.state === "unread" ? "unknown" : "nobody");

// Since when nobody leads, if that is known. The newest span may be a term whose end nobody has seen.
export function vacantSince(view) {
  const newest = view.timeline[0];
  return view.state !== "unread" && newest?.kind === "gap" ? newest.from : null;
}

export function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Names may mix directions of writing. <bdi> keeps one name from reordering its surroundings.
export const name = (text) => element("bdi", { class: "name" }, text);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Makes one node like another, but replaces only what differs, so that a reader keeps the place and the selection.
export function renew(shown, fresh) {
  if (!shown.cloneNode().isEqualNode(fresh.cloneNode())) {
    shown.replaceWith(fresh);
    return;
  }
  const former = [...shown.childNodes];
  const children = [...fresh.childNodes];
  children.forEach((child, index) => (former[index] ? renew(former[index], child) : shown.append(child)));
  former.slice(children.length).forEach((child) => child.remove());
}

function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 10) return `${min} min ${Math.floor(s % 60)} s`;
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  return h < 48 ? `${h} h ${min % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

// An age that changes at most once in five seconds, so that a long list is at rest.
function age(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 60) return s < 5 ? "just now" : `${Math.floor(s / 5) * 5} s`;
  return s < 600 ? `${Math.floor(s / 60)} min` : duration(ms);
}

export const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

function at(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "unknown";
  const today = new Date(now()).toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

const time = (iso) => element("time", { datetime: iso, title: iso }, at(iso));

// A text that grows older by itself.
export function since(iso, form) {
  const node = element("span", { class: "age", "data-since": iso, "data-form": form });
  refresh(node);
  return node;
}

export function refresh(node) {
  const passed = now() - Date.parse(node.dataset.since);
  setText(node, node.dataset.form === "exact" ? duration(passed) : age(passed));
}

export function problem({ severity, text, since: began, until }) {
  const item = element("li", { class: `problem ${severity}` });
  const word = { critical: "Critical", warning: "Warning", info: "Note" }[severity] ?? "";
  item.append(element("b", {}, word), " ", name(text));
  if (began) item.append(" Since ", time(began), " (", since(began, "exact"), ").");
  if (until) item.append(" Until ", time(until), " at the latest.");
  return item;
}

// Everything about one Lease.
export function lease(view) {
  const problems = view.problems.map(problem);
  return [
    statement(view),
    element("p", { class: "why" }, name(view.why)),
    problems.length > 0 ? element("ul", { class: "problems", "aria-label": "What is wrong" }, ...problems) : "",
    facts(view),
    element("h3", {}, "Timeline"), strip(view.timeline), spans(view.timeline),
    element("h3", {}, "Candidates"), candidates(view),
  ];
}

function statement(view) {
  const node = element("p", { class: `statement ${view.severity}` });
  if (!view.holder) {
    if (view.state === "unread") {
      node.append(element("strong", {}, "Unknown"), ": the controller does not see this Lease");
      return node;
    }
    const began = vacantSince(view);
    node.append(element("strong", {}, "Nobody"), " leads");
    if (began) node.append(", since ", time(began), " (", since(began, "exact"), ")");
    return node;
  }
  node.append(element("strong", {}, name(view.holder)), view.state === "granted" ? " is elected" : " leads");
  if (view.since) node.append(" since ", time(view.since), " (", since(view.since, "exact"), ")");
  return node;
}

function facts(view) {
  const list = element("dl");
  const fact = (term, ...content) => list.append(element("div", {}, element("dt", {}, term), element("dd", {}, ...content)));
  if (view.next) {
    const state = view.next.preferred ? "the holder is asked to hand over to it" : view.next.live ? "live" : "not proved live yet";
    fact("Next in line", name(view.next.name), `, ${state}`);
  } else {
    fact("Next in line", nobody(view));
  }
  if (view.state !== "held") fact("State", state(view));
  if (view.term) fact("Term", String(view.term), view.token ? `, token ${view.token}` : "");
  if (view.strategy) fact("Strategy", name(view.strategy));
  for (const act of view.acts) {
    const content = [name(act.text)];
    if (act.until) content.push(", until ", time(act.until));
    if (act.askedBy) content.push(", asked by ", name(act.askedBy));
    fact({ pause: "Paused", pin: "Pinned", transfer: "Transfer", exclude: "Excluded" }[act.act] ?? act.act, ...content);
  }
  return list;
}

// The colour of each holder of a timeline, in the order in which they led.
function hues(timeline) {
  const holders = new Set(timeline.filter((span) => span.kind === "term").map((span) => span.holder).reverse());
  const numbers = new Map([...holders].map((holder, index) => [holder, index % 6]));
  return (span) => (span.kind === "term" ? `hue${numbers.get(span.holder)}` : "gap");
}

const what = (span) => (span.kind === "term" ? span.holder : span.cause);

// The newest spans to scale. A gap of milliseconds is still visible, so the widths are not exact.
export function strip(timeline) {
  const end = now();
  const recent = timeline[Math.min(timeline.length, MOST_IN_STRIP) - 1];
  const length = Math.max(SHORTEST_STRIP_MS, recent ? end - Date.parse(recent.from) : 0);
  const start = end - length;
  const hue = hues(timeline);
  const svg = document.createElementNS(SVG, "svg");
  const x = (iso) => (iso ? Math.min(1, Math.max(0, (Date.parse(iso) - start) / (end - start))) : 1) * 1000;
  svg.setAttribute("viewBox", "0 0 1000 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Terms and gaps of the last ${duration(length)}; the table below has them in words`);
  for (const span of [...timeline].sort((a) => (a.kind === "term" ? -1 : 1))) {
    const [from, until] = [x(span.from), x(span.until)];
    if (until <= 0) continue;
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", hue(span));
    rect.setAttribute("x", String(Math.min(from, 996)));
    rect.setAttribute("width", String(Math.max(until - from, 4)));
    rect.setAttribute("height", "40");
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${what(span)}, from ${at(span.from)}${span.until ? ` to ${at(span.until)}` : ""}`;
    rect.append(title);
    svg.append(rect);
  }
  const scale = element("p", { class: "scale", "aria-hidden": "true" });
  scale.append(element("span", {}, `${duration(length)} ago`), element("span", {}, "now"));
  return element("div", { class: "strip" }, svg, scale);
}

function table(label, heads, lines) {
  const head = element("tr", { role: "row" }, ...heads.map((text) => element("th", { role: "columnheader", scope: "col" }, text)));
  const body = lines.map(({ kind, cells }) => element("tr", { role: "row", class: kind },
    ...cells.map((cell, index) => element("td", { role: "cell", "data-label": heads[index] }, ...[cell].flat()))));
  return element("table", { role: "table", "aria-label": label, class: label.toLowerCase() },
    element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...body));
}

function spans(timeline) {
  const hue = hues(timeline);
  return table("Timeline", ["What", "From", "Lasted"], timeline.map((span) => ({
    kind: span.kind,
    cells: [
      [
        element("i", { class: `swatch ${hue(span)}` }),
        ...(span.kind === "term" ? [name(span.holder), ` term ${span.number}`] : [`no leader: ${span.cause}`]),
      ],
      [time(span.from)],
      span.until ? [duration(Date.parse(span.until) - Date.parse(span.from))] : [since(span.from, "exact"), " so far"],
    ],
  })));
}

function claims({ binaryVersion, emulationVersion, priority }) {
  const emulates = emulationVersion && emulationVersion !== binaryVersion ? `, emulates ${emulationVersion}` : "";
  return `${binaryVersion || "–"}${emulates}${priority ? `, priority ${priority}` : ""}`;
}

function candidates(view) {
  if (view.candidates.length === 0) {
    const text = view.state === "unread" ? "Unknown until the Lease is read." : "No candidate stands for this Lease.";
    return element("p", { class: "none" }, text);
  }
  return table("Candidates", ["Rank", "Candidate", "Version", "State", "Why"], view.candidates.map((candidate) => ({
    kind: candidate.state.toLowerCase(),
    cells: [
      candidate.rank ? String(candidate.rank) : "–",
      [name(candidate.name), candidate.native ? " (coordination.k8s.io)" : ""],
      [name(claims(candidate))],
      element("span", { class: "badge" }, candidate.state),
      [name(candidate.reason)],
    ],
  })));
}
