// Strips of every cache way and every CPU with its owners; quota bars where CPUs are handed out in slices.
import { cellFill, colourOf } from "./colours.js";
import { byId, make, setText } from "./dom.js";
import { count } from "./format.js";
import { ownersById, parseCpus, parseMask } from "./owners_of.js";

export class OwnersPanel {
  constructor() {
    this.shown = "";
  }

  show(timeline) {
    if (!timeline.now) return;
    const { platform, assignments } = timeline.now;
    const state = JSON.stringify([platform, assignments, timeline.services.map((service) => service.name)]);
    if (state === this.shown) return; // a strip that does not change keeps its place under the pointer
    this.shown = state;
    this.legend(timeline.services);
    const strips = [];
    if (assignments.some((assignment) => assignment.way_mask !== null) && platform.ways !== null) {
      for (const [label, some] of byDomain(platform, assignments)) {
        strips.push(strip(label, range(platform.ways), ownersById(some, (a) => parseMask(a.way_mask)), "way"));
      }
    }
    if (assignments.some((assignment) => assignment.cpus !== null)) {
      strips.push(strip("CPUs", parseCpus(platform.cpus), ownersById(assignments, (a) => parseCpus(a.cpus)), "CPU"));
    }
    if (assignments.some((assignment) => assignment.cpu_quota !== null)) strips.push(quotas(platform, assignments));
    if (!strips.length) strips.push(make("p", { class: "quiet" }, "Nothing is assigned: the services share the whole machine."));
    byId("owners").replaceChildren(...strips);
    setText(byId("owners-note"), platform.ways === null ? "this node's cache can't be partitioned" : "");
  }

  legend(services) {
    byId("legend").replaceChildren(
      ...services.map((service) => make("span", {}, swatch([service.name]), service.name)),
      make("span", {}, swatch(services.slice(0, 2).map((service) => service.name)), "striped: shared"),
      make("span", {}, make("span", { class: "swatch" }), "free"),
    );
  }
}

const range = (length) => Array.from({ length }, (_, index) => index);

// The assignments of each cache domain, where every service has all its CPUs in one; else all of them together.
function byDomain(platform, assignments) {
  const domains = (platform.domains ?? []).map((domain) => ({ id: domain.id, cpus: new Set(parseCpus(domain.cpus)) }));
  const inside = (assignment, domain) => assignment.cpus !== null && parseCpus(assignment.cpus).every((cpu) => domain.cpus.has(cpu));
  const apart = domains.length > 1 && assignments.every((one) => domains.some((domain) => inside(one, domain)));
  if (!apart) return [["Cache ways", assignments]];
  return domains.map((domain) => [`Cache ways of domain ${domain.id}`, assignments.filter((one) => inside(one, domain))]);
}

function swatch(services) {
  const element = make("span", { class: "swatch" });
  if (services.length) element.style.background = cellFill(services);
  return element;
}

function strip(label, ids, owners, unit) {
  const cells = ids.map((id) => {
    const services = owners.get(id) ?? [];
    const title = `${unit} ${id}: ${services.join(" + ") || "free"}`;
    const cell = make("li", { title, "aria-label": title, class: services.length ? "owned" : null }, String(id));
    if (services.length) cell.style.setProperty("--fill", cellFill(services));
    return cell;
  });
  return make("div", { class: "strip" }, make("div", { class: "label" }, label), make("ul", { class: "cells" }, ...cells));
}

function quotas(platform, assignments) {
  const cpus = parseCpus(platform.cpus).length || 1;
  const rows = assignments.map((assignment) => {
    const track = make("div", { class: "track" }, make("div", { class: "fill" }));
    track.style.setProperty("--own", colourOf(assignment.service));
    track.style.setProperty("--share", `${Math.min(100, (100 * (assignment.cpu_quota ?? cpus)) / cpus)}%`);
    const text = assignment.cpu_quota === null ? "no limit" : `${count(assignment.cpu_quota)} CPU`;
    return make("div", { class: "row" }, make("span", {}, assignment.service), track, make("span", {}, text));
  });
  const label = make("div", { class: "label" }, "CPU quota");
  return make("div", { class: "strip" }, label, make("div", { class: "quota" }, ...rows));
}
