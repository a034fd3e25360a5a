// The table of all nodes: search, filter, sort.
import { getJson, lastAnswer, LIST_MS, oneAtATime, WantsToken } from "./api.js";
import { eventItems } from "./event_items.js";
import { byId, make, setText } from "./dom.js";
import { chosen, COLUMNS, counts, judged, STATES } from "./fleet_lines.js";
import { count, entropy, plural } from "./format.js";
import { Login } from "./login.js";
import { pollRollout } from "./rollout_panel.js";

const POLL_MS = 5000;
const MOST_EVENTS = 50;
const MOST_ROWS = 200; // a browser draws these at once; the rest is found by search and sort
const view = { search: "", filter: "all", key: "state", direction: 1 };
const panel = new Login(async () => { await asking; return poll(); });
let lines = [];
let asking = null; // the question that is open

function age(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
}

function row(line) {
  const link = make("a", { href: `./#${encodeURIComponent(line.node)}` }, line.node);
  return make("tr", {},
    make("td", {}, link),
    make("td", {}, make("span", { class: "mark", "data-state": line.state }, STATES[line.state])),
    make("td", { class: "number" }, count(line.violations)),
    make("td", { class: "number" }, entropy(line.e_s)),
    make("td", { class: "number" }, age(line.age)),
    make("td", { class: "number" }, count(line.services)),
    make("td", {}, line.canary ? `${line.policy} (canary ${line.canary})` : line.policy));
}

function show() {
  const kept = chosen(lines, view);
  document.querySelector("#nodes tbody").replaceChildren(...kept.slice(0, MOST_ROWS).map(row));
  const cut = kept.length > MOST_ROWS ? `; the first ${MOST_ROWS} are shown` : "";
  setText(byId("shown"), `${kept.length} of ${plural(lines.length, "node")}${cut}`);
  const found = counts(lines);
  for (const option of byId("filter").options) {
    setText(option, option.value === "all" ? `all (${lines.length})` : `${STATES[option.value]} (${found[option.value]})`);
  }
  for (const [index, column] of COLUMNS.entries()) {
    const head = byId("heads").children[index];
    if (column.key === view.key) head.setAttribute("aria-sort", view.direction > 0 ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
}

function sortBy(column) {
  view.direction = view.key === column.key ? -view.direction : column.first;
  view.key = column.key;
  show();
}

function say(state, text) {
  byId("state").dataset.state = state;
  setText(byId("state"), text);
}

// Asks the server, one question at a time. False where it wants another token.
function poll() {
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

// A server that hangs refuses no connection: only the time since its last answer tells.
function tick() {
  const silentMs = performance.now() - lastAnswer.at;
  if (silentMs > 2 * POLL_MS && byId("state").dataset.state !== "lost") {
    say("stale", `no answer for ${Math.round(silentMs / 1000)} s`);
  }
  poll();
}

async function ask() {
  let answer;
  try {
    answer = await getJson("v1/nodes");
    lines = judged(answer);
    panel.hide();
    byId("main").hidden = false;
  } catch (error) {
    if (error instanceof WantsToken) {
      panel.show();
      byId("main").hidden = true;
      return false;
    }
    say("lost", "server unreachable, retrying");
    return true;
  }
  if (answer.silent) say("stale", `${plural(answer.silent, "server")} silent, nodes may be missing`);
  else say("live", "live");
  show();
  pollRollout(); // neither keeps the next list waiting
  pollEvents();
  return true;
}

const pollEvents = oneAtATime(async () => {
  const answer = await getJson(`v1/fleet/events?limit=${MOST_EVENTS}`, LIST_MS).catch(() => null);
  if (!answer) return; // what is shown stays
  const { events } = answer;
  byId("events-panel").hidden = events.length === 0;
  byId("events").replaceChildren(...eventItems(events, true));
});

byId("heads").append(...COLUMNS.map((column) => {
  const button = make("button", { type: "button" }, column.title);
  button.addEventListener("click", () => sortBy(column));
  return make("th", { scope: "col", class: column.number ? "number" : null }, button);
}));
byId("filter").append(...["all", ...Object.keys(STATES)].map((state) => make("option", { value: state }, state)));
byId("search").addEventListener("input", (event) => { view.search = event.target.value; show(); });
byId("filter").addEventListener("change", (event) => { view.filter = event.target.value; show(); });
setInterval(tick, POLL_MS);
poll();
