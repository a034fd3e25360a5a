// One service: what was measured against what was promised, and what it has.
import { Chart, timeAxis, timeSeries, valueAxis } from "./chart.js";
import { colourOf, token } from "./colours.js";
import { make, setText } from "./dom.js";
import { count, milliseconds, NONE, percent, plural } from "./format.js";
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
    this.share = make("p", { class: "share" });
    const chart = make("div", { class: "chart" });
    this.element = make(
      "article",
      { class: "card", "data-service": this.name },
      make("h3", {}, this.swatch, this.name, this.badge),
      make("p", { class: "reading" }, this.reading, this.detail),
      chart,
      this.share,
    );
    this.chart = new Chart(chart, 150, () => (this.lc ? this.latencyOptions() : this.speedOptions()));
  }

  show(timeline, service, quantum) {
    this.swatch.style.setProperty("--own", colourOf(this.name));
    if (this.lc) this.showLatency(timeline, service);
    else this.showSpeed(timeline, service);
    const cpus = make("b", {}, count(service.cores * quantum));
    const ways = make("b", {}, count(service.ways));
    this.share.replaceChildren(
      make("span", {}, cpus, service.cores * quantum === 1 ? " CPU" : " CPUs"),
      make("span", {}, ways, service.ways === 1 ? " way" : " ways"),
      service.requests_per_s === null ? "" : make("span", {}, make("b", {}, count(service.requests_per_s)), " requests/s"),
    );
  }

  showLatency(timeline, service) {
    const { latency_ms: latency, target_ms: target } = service;
    setText(this.reading, milliseconds(latency));
    const slack = latency === null || target === null ? "" : ` · slack ${percent((target - latency) / target)}`;
    setText(this.detail, `${service.percentile} · target ${milliseconds(target)}${slack}`);
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
        { ...line, label: "violated", stroke: token("bad"), width: 3, points: { show: true, size: 4, fill: token("bad") } },
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

export const shareText = (service, quantum) => `${plural(service.cores * quantum, "CPU")}, ${plural(service.ways, "way")}`;
