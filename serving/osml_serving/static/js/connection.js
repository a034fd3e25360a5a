// Shows the state of the connection: connecting, live, stale or lost.
import { byId, setText } from "./dom.js";

export class Connection {
  constructor() {
    this.open = null; // null: not tried yet
    this.observedAt = null; // performance.now() of the newest observation
    this.patience = 0; // seconds after it from which on the next one is missing
    setInterval(() => this.show(), 500);
  }

  observed(patience, ageSeconds = 0) {
    this.patience = patience;
    this.observedAt = performance.now() - ageSeconds * 1000;
    this.show();
  }

  set(open) {
    this.open = open;
    this.show();
  }

  show() {
    const [state, text] = this.judge();
    byId("connection").dataset.state = state;
    setText(byId("connection"), text);
  }

  judge() {
    if (this.open === null) return ["connecting", "connecting"];
    if (!this.open) return ["lost", "server unreachable, retrying"];
    if (this.observedAt === null) return ["waiting", "waiting for an observation"];
    const silent = Math.floor((performance.now() - this.observedAt) / 1000);
    return silent >= this.patience ? ["stale", `no observation for ${duration(silent)}`] : ["live", "live"];
  }
}

const duration = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`);
