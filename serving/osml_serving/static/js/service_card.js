// One service: what was measured against what was promised, and what it has.
import { Chart, timeAxis, timeSeries, valueAxis } from "./chart.js";
import { colourOf, token } from "./colours.js";
import { make, setText } from "./dom.js";
import { count, milliseconds, NONE, percent } from "./format.js";
import { serviceIn } from "./timeline.js";

const LOG_FROM = 6; // a latency of this many targets makes the chart logarithmic, or the target line could not be seen

export class ServiceCard {
  constructor(service) {
    this.name = service.name;
    this.lc = service.class === "lc";
    this.logarithmic = false;
    this.swatch = make("span", { class: "swatch" });
    this.badge = make("span", { class: "badge" });
    this.reading = make("strong");
    this.detail = make("span", { class: "quiet" });
    this.goal = make("span", { class: "goal" });
    this.share = make("p", { class: "share" });
    const chart = make("div", { class: "chart" });
    this.element = make(
      "article",
      { class: "card", "data-service": this.name },
      make("h3", {}, this.swatch, this.name, this.badge),
      make("p", { class: "reading" }, this.reading, this.detail, this.lc ? this.goal : null),
      chart,
      this.share,
    );
    this.chart = new Chart(chart, 150, () => (this.lc ? this.latencyOptions() : this.speedOptions()));
  }

  show(timeline, service, quantum) {
    this.swatch.style.setProperty("--own", colourOf(this.name));
    if (this.lc) this.showLatency(timeline, service);
    else this.showSpeed(timeline, service);
    const own = ownPart(timeline.last, this.name);
    this.share.replaceChildren(
      amount(own.cores * quantum, (service.cores - own.cores) * quantum, "CPU"),
      service.ways ? amount(own.ways, service.ways - own.ways, "way") : "",
      service.requests_per_s === null ? "" : make("span", {}, make("b", {}, String(Math.round(service.requests_per_s))), " requests/s"),
    );
  }

  showLatency(timeline, service) {
    const { latency_ms: latency, target_ms: target } = service;
    setText(this.reading, milliseconds(latency));
    const slack = latency === null || target === null ? "" : `, slack ${percent((target - latency) / target)}`;
    setText(this.detail, service.percentile + slack);
    setText(this.goal, `target ${milliseconds(target)}`);
    this.judge(service.met);
    const read = (point) => serviceIn(point, this.name);
    const columns = timeline.columns(
      (point) => read(point)?.latency_ms,
      (point) => (read(point)?.met === false ? read(point).latency_ms : null),
      (point) => read(point)?.target_ms,
    );
    this.rescale(columns, target);
    this.chart.show(columns, `${this.name}: ${service.percentile} ${milliseconds(latency)}, target ${milliseconds(target)}`);
  }

  judge(met) {
    const [text, style] = met === null ? ["? not measured", ""] : met ? ["✓ met", "good"] : ["✕ violated", "bad"];
    setText(this.badge, text);
    this.badge.className = `badge ${style}`;
    this.element.classList.toggle("violated", met === false);
  }

  rescale(columns, target) {
    const highest = Math.max(0, ...columns[1].filter((value) => value !== null));
    const logarithmic = target !== null && highest > target * LOG_FROM;
    if (logarithmic === this.logarithmic) return;
    this.logarithmic = logarithmic;
    this.chart.data = columns;
    this.chart.build();
  }

  latencyOptions() {
    const range = this.logarithmic
      ? (_, low, high) => [Math.max(1e-3, (low || 0.1) * 0.7), (high || 1) * 1.4]
      : (_, _low, high) => [0, (high || 1) * 1.15];
    const line = { width: 1.75, points: { show: false }, value: (_, value) => milliseconds(value) };
    return {
      scales: { y: { distr: this.logarithmic ? 3 : 1, range } },
      axes: [timeAxis(), valueAxis((value) => `${count(value)} ms`, 58)],
      series: [
        timeSeries(),
        { ...line, label: "latency", stroke: colourOf(this.name) },
        { ...line, label: "violated", quiet: true, stroke: token("bad"), width: 3, points: { show: true, size: 4, fill: token("bad") } },
        { ...line, label: "target", stroke: token("target"), dash: [6, 4] },
      ],
    };
  }

  showSpeed(timeline, service) {
    setText(this.reading, service.speed === null ? NONE : percent(service.speed));
    const parts = ["of its speed alone"];
    if (service.ipc !== null) parts.push(`IPC ${count(service.ipc)}`);
    if (service.work_rate !== null) parts.push(`${count(service.work_rate)} work/s`);
    setText(this.detail, parts.join(" · "));
    setText(this.badge, "best effort");
    const columns = timeline.columns((point) => serviceIn(point, this.name)?.speed);
    this.chart.show(columns, `${this.name}: ${percent(service.speed)} of its speed alone`);
  }

  speedOptions() {
    return {
      scales: { y: { range: [0, 1.02] } },
      axes: [timeAxis(), valueAxis(percent, 58)],
      series: [
        timeSeries(),
        {
          label: "speed",
          stroke: colourOf(this.name),
          fill: `${colourOf(this.name)}30`,
          width: 1.75,
          points: { show: false },
          value: (_, value) => percent(value),
        },
      ],
    };
  }

  remove() {
    this.chart.remove();
    this.element.remove();
  }
}

// What the service has for itself; the rest of its reach it shares.
function ownPart(point, name) {
  const regions = point.regions.filter((region) => region.owners.length === 1 && region.owners[0] === name);
  const sum = (resource) => regions.reduce((total, region) => total + region[resource], 0);
  return { cores: sum("cores"), ways: sum("ways") };
}

function amount(own, shared, unit) {
  const total = make("b", {}, count(own || shared));
  if (!shared) return make("span", {}, total, own === 1 ? ` ${unit}` : ` ${unit}s`);
  if (!own) return make("span", {}, total, ` shared ${unit}s`);
  return make("span", {}, total, " + ", make("b", {}, count(shared)), ` shared ${unit}s`);
}
