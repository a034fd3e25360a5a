// Who slows the services of a node: its twin says when somebody asks, for that takes some seconds.
import { getJson } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { count, entropy, percent } from "./format.js";

const TIMEOUT_MS = 160000; // longer than the server gives a twin, and other questions before it
const LEAST = 0.01; // a cause of less than this share of what a service suffers is no line

export class BlamePanel {
  constructor() {
    this.node = null;
    byId("blame-ask").addEventListener("click", () => this.ask());
  }

  offer(there) {
    byId("blame-panel").hidden = !there;
  }

  follow(node) {
    this.node = node;
    this.clear("");
  }

  clear(text) {
    setText(byId("blame-state"), text);
    byId("blame").replaceChildren();
    byId("blame-ask").disabled = false;
  }

  async ask() {
    const node = this.node;
    this.clear("The twin works on it, some seconds.");
    byId("blame-ask").disabled = true;
    try {
      const found = await getJson(`v1/nodes/${encodeURIComponent(node)}/blame`, TIMEOUT_MS);
      if (node === this.node) this.show(found);
    } catch (error) {
      if (node === this.node) this.clear(error.message);
    }
  }

  show({ intervals, services, reason }) {
    const by = `by the last ${count(intervals)} intervals under the present allocation`;
    this.clear(reason === null ? by : services.length ? `${by}. ${reason}` : reason);
    byId("blame").replaceChildren(...services.map(serviceBlock));
  }
}

function serviceBlock(service) {
  const causes = service.causes.filter((cause) => cause.ms >= LEAST * service.suffers_ms);
  return make("div", { class: "blamed" },
    make("h3", {}, service.name),
    make("p", {}, service.words),
    make("p", { class: "quiet" }, `measured ${count(service.measured_ms)} ms, alone ${count(service.alone_ms)} ms (simulated)`),
    ...(causes.length ? [table(causes)] : []));
}

function table(causes) {
  const head = ["From", "Through", "ms", "E_S", "Sure"].map((text) => make("th", { scope: "col" }, text));
  const rows = causes.map((cause) => make("tr", {},
    make("td", {}, cause.culprit ?? "nobody known"),
    make("td", {}, cause.resource),
    make("td", { class: "number" }, count(cause.ms)),
    make("td", { class: "number" }, entropy(cause.e_s)),
    make("td", { class: "number" }, cause.confidence === null ? "not known" : percent(cause.confidence))));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}
