// All panels of one node. Draws at most four times a second, however fast observations come.
import { AllocationChart } from "./allocation_chart.js";
import { Cards } from "./cards.js";
import { DecisionsPanel } from "./decisions_panel.js";
import { byId, setText } from "./dom.js";
import { EntropyPanel } from "./entropy_panel.js";
import { plural } from "./format.js";
import { OwnersPanel } from "./owners_panel.js";
import { SpacePanel } from "./space_panel.js";
import { parseCpus } from "./owners_of.js";

const PERIOD_MS = 250;

export class View {
  constructor() {
    this.entropy = new EntropyPanel();
    this.cards = new Cards();
    this.space = new SpacePanel();
    this.owners = new OwnersPanel();
    this.cores = new AllocationChart("cores-chart", "cores", "CPUs");
    this.ways = new AllocationChart("ways-chart", "ways", "ways");
    this.decisions = new DecisionsPanel();
    this.timeline = null;
    this.timer = null;
    this.decisions.box.addEventListener("change", () => this.refresh());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint());
  }

  show(timeline) {
    if (this.timeline !== timeline) this.clear();
    this.timeline = timeline;
    this.timer ??= setTimeout(() => this.refresh(), this.drawn ? PERIOD_MS : 0);
  }

  clear() {
    this.cards.clear();
    this.space.clear();
  }

  repaint() {
    this.owners.shown = "";
    this.space.repaint();
    this.refresh();
  }

  refresh() {
    this.timer = null;
    const { last, now } = this.timeline ?? {};
    byId("main").hidden = !last;
    if (!last) return;
    this.drawn = true;
    const platform = now?.platform;
    setText(byId("policy"), last.policy);
    setText(byId("sequence"), `#${last.seq}`);
    setText(byId("platform"), platform ? describe(platform) : "–");
    this.entropy.show(this.timeline);
    this.cards.show(this.timeline);
    this.space.show(this.timeline);
    this.owners.show(this.timeline);
    const quantum = platform?.core_quantum ?? 1;
    this.cores.show(this.timeline, quantum, (platform?.cores ?? 1) * quantum);
    byId("ways-chart").parentElement.hidden = !platform?.ways;
    if (platform?.ways) this.ways.show(this.timeline, 1, platform.ways * domainsOf(platform, last.regions));
    this.decisions.show(this.timeline);
    this.notice(now);
  }

  notice(now) {
    const outcome = this.timeline.last.outcome;
    const lines = [];
    if (now?.missing?.dry_run !== undefined) lines.push("The agent is in dry-run mode: it applies no decision.");
    if (now?.infeasible) lines.push(`This node cannot satisfy ${now.infeasible.services.join(", ")}: ${now.infeasible.message}`);
    if (outcome && ["refused", "rolled_back", "failed"].includes(outcome.status)) {
      lines.push(`Decision #${outcome.seq} was not applied (${outcome.status.replace("_", " ")}): ${outcome.message}`);
    }
    byId("notice").hidden = !lines.length;
    setText(byId("notice"), lines.join(" · "));
  }
}

// Each cache domain has its own ways, where regions name one.
const domainsOf = (platform, regions) => (regions.some((region) => region.domain !== undefined) ? platform.domains.length : 1);

function describe(platform) {
  const cpus = plural(parseCpus(platform.cpus).length, "CPU");
  return platform.ways === null ? `${platform.id}, ${cpus}` : `${platform.id}, ${cpus}, ${plural(platform.ways, "way")}`;
}
