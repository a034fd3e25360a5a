// Says in words whether what the page shows is still true.
import { byId, setText } from "./dom.js";

const STALE_S = 5;

export class Connection {
  constructor() {
    this.open = null; // null: not tried yet
    this.heardAt = null; // performance.now() of the newest observation
    setInterval(() => this.show(), 500);
  }

  heard(ageSeconds = 0) {
    this.heardAt = performance.now() - ageSeconds * 1000;
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
    if (!this.open) return ["lost", "server gone, trying again"];
    if (this.heardAt === null) return ["waiting", "waiting for an observation"];
    const silent = Math.floor((performance.now() - this.heardAt) / 1000);
    return silent >= STALE_S ? ["stale", `no observation for ${duration(silent)}`] : ["live", "live"];
  }
}

const duration = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`);
