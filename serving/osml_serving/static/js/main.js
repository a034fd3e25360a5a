// Chooses a node, follows it, and shows it.
import { getJson, lastAnswer, WantsToken } from "./api.js";
import { BlamePanel } from "./blame_panel.js";
import { Connection } from "./connection.js";
import { DayPanel } from "./day_panel.js";
import { byId, make, setText } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { Login } from "./login.js";
import { patienceOf, Timeline } from "./timeline.js";
import { View } from "./view.js";

const POLL_MS = 2000;
const view = new View();
const day = new DayPanel();
const blame = new BlamePanel();
const connection = new Connection();
const panel = new Login(async () => { await asking; return poll(); });
const select = byId("node");
let stream = null;
let timeline = null; // of the node that is followed
let followed = null;
let absent = null; // the node that the address names, where it is not here
let names = [];
let asking = null; // the question that is open

byId("origin").textContent = location.origin;

function follow(node) {
  stream?.stop();
  const own = new Timeline();
  timeline = own;
  followed = node;
  connection.observedAt = null;
  day.follow(node);
  blame.follow(node);
  stream = new EventStream(`v1/events?node=${encodeURIComponent(node)}`, {
    open: async () => {
      connection.set(true);
      await catchUp(node, own);
    },
    lost: () => connection.set(false),
    unauthorised: login,
    event: (name, data) => {
      if (name !== "observation" || own !== timeline) return;
      own.push(data.point, data.now);
      connection.observed(patienceOf(data.point));
      view.show(own);
    },
  });
}

// Fills in what happened before the stream was opened. A server that has just started knows nothing: that is fine.
// An answer may come after another node was chosen: then it is nobody's any more.
async function catchUp(node, own) {
  try {
    const asked = [getJson(`v1/nodes/${encodeURIComponent(node)}`), getJson("v1/nodes")];
    const [history, list] = await Promise.all(asked);
    if (own !== timeline) return;
    own.merge(history);
    if (own.last) connection.observed(patienceOf(own.last), Math.max(0, list.server_time - own.last.at));
  } catch (error) {
    if (own !== timeline) return;
    if (error instanceof WantsToken) login();
  }
  view.show(own);
}

function offer(nodes) {
  const reported = nodes.map((line) => line.node);
  byId("empty").hidden = reported.length > 0 || names.length > 0;
  const all = [...new Set([...names, ...reported])].sort(); // a restarted server has forgotten the others for a moment
  if (!all.length || all.join() === names.join()) return;
  names = all;
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  select.disabled = false;
  if (stream && !names.includes(absent)) select.value = followed;
  else choose();
}

// Follows the node that the address names. Where it is not here: the one that is shown, or the first, and says so.
function choose() {
  const wanted = inAddress();
  const here = names.includes(wanted);
  absent = wanted && !here ? wanted : null;
  const node = here ? wanted : names.includes(followed) ? followed : names[0];
  setText(byId("absent"), absent === null ? "" : `Node ${absent} is not here. This is ${node}.`);
  byId("absent").hidden = absent === null;
  if (absent === null) history.replaceState(null, "", `#${encodeURIComponent(node)}`);
  select.value = node;
  if (!stream || node !== followed) follow(node);
}

function inAddress() {
  const text = location.hash.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // no name of a node
  }
}

// Asks the server, one question at a time. False where it wants another token.
function poll() {
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

// A server that hangs refuses no connection: only the time since its last answer tells. A stream has heartbeats.
function tick() {
  if (!stream && performance.now() - lastAnswer.at > 2 * POLL_MS) connection.set(false);
  poll();
}

async function ask() {
  try {
    const list = await getJson("v1/nodes");
    offer(list.nodes);
    blame.offer(list.blame);
    panel.hide();
    if (!stream) connection.set(true);
  } catch (error) {
    if (error instanceof WantsToken) {
      login();
      return false;
    }
    if (!stream) connection.set(false);
  }
  return true;
}

function login() {
  stream?.stop();
  stream = null;
  timeline = null;
  names = [];
  panel.show();
  byId("main").hidden = true;
}

select.addEventListener("change", () => { location.hash = encodeURIComponent(select.value); });
window.addEventListener("hashchange", () => names.length && choose());
setInterval(tick, POLL_MS);
poll();
