// Chooses a node, follows it, and shows it.
import { getJson, rememberToken, WantsToken } from "./api.js";
import { BlamePanel } from "./blame_panel.js";
import { Connection } from "./connection.js";
import { DayPanel } from "./day_panel.js";
import { byId, make } from "./dom.js";
import { EventStream } from "./event_stream.js";
import { Timeline } from "./timeline.js";
import { View } from "./view.js";

const POLL_MS = 2000;
const view = new View();
const day = new DayPanel();
const blame = new BlamePanel();
const connection = new Connection();
const select = byId("node");
let stream = null;
let names = [];

byId("origin").textContent = location.origin;

function follow(node) {
  stream?.stop();
  const timeline = new Timeline();
  connection.observedAt = null;
  day.follow(node);
  blame.follow(node);
  location.replace(`#${encodeURIComponent(node)}`);
  stream = new EventStream(`v1/events?node=${encodeURIComponent(node)}`, {
    open: async () => {
      connection.set(true);
      await catchUp(node, timeline);
    },
    lost: () => connection.set(false),
    unauthorised: login,
    event: (name, data) => {
      if (name !== "observation") return;
      timeline.push(data.point, data.now);
      connection.observed();
      view.show(timeline);
    },
  });
}

// Fills in what happened before the stream was opened. A server that has just started knows nothing: that is fine.
async function catchUp(node, timeline) {
  try {
    const [history, list] = await Promise.all([getJson(`v1/nodes/${encodeURIComponent(node)}`), getJson("v1/nodes")]);
    timeline.merge(history);
    if (timeline.last) connection.observed(Math.max(0, list.server_time - timeline.last.at));
  } catch (error) {
    if (error instanceof WantsToken) login();
  }
  view.show(timeline);
}

function offer(nodes) {
  const reported = nodes.map((line) => line.node);
  byId("empty").hidden = reported.length > 0 || names.length > 0;
  const all = [...new Set([...names, ...reported])].sort(); // a restarted server has forgotten the others for a moment
  if (!all.length || all.join() === names.join()) return;
  names = all;
  const wanted = stream ? select.value : decodeURIComponent(location.hash.slice(1));
  select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  select.disabled = false;
  select.value = names.includes(wanted) ? wanted : names[0];
  if (!stream) follow(select.value);
}

async function poll() {
  try {
    const list = await getJson("v1/nodes");
    offer(list.nodes);
    blame.offer(list.blame);
    byId("login").hidden = true;
    if (!stream) connection.set(true);
  } catch (error) {
    if (error instanceof WantsToken) login();
    else if (!stream) connection.set(false);
  }
}

function login() {
  stream?.stop();
  stream = null;
  names = [];
  byId("login").hidden = false;
  byId("main").hidden = true;
}

function enter() {
  rememberToken(byId("token").value.trim());
  byId("token").value = "";
  poll();
}

byId("enter").addEventListener("click", enter);
byId("token").addEventListener("keydown", (event) => event.key === "Enter" && enter());
select.addEventListener("change", () => follow(select.value));
setInterval(poll, POLL_MS);
poll();
