// One uPlot chart that follows its container's width and the colour scheme.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { token } from "./colours.js";
import { make } from "./dom.js";
import { clock } from "./format.js";

export { uPlot };
const FONT = "11px system-ui, sans-serif";
const charts = new Set();

export class Chart {
  // `describe()` gives uPlot options without size; it is asked again when the colours change.
  constructor(container, height, describe) {
    this.container = container;
    this.height = height;
    this.describe = describe;
    this.data = null;
    this.plot = null;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(container);
    charts.add(this);
  }

  show(data, label) {
    this.data = data;
    this.container.setAttribute("role", "img");
    this.container.setAttribute("aria-label", label);
    if (this.plot) this.plot.setData(data);
    else this.build();
  }

  build() {
    this.plot?.destroy();
    this.plot = null;
    const width = Math.floor(this.container.clientWidth);
    if (!this.data || width < 40) return;
    const hooks = { setCursor: [(plot) => this.read(plot)] };
    const { scales, ...options } = this.describe();
    const all = { width, height: this.height, ...base(), hooks, ...options, scales: { x: { range: shownTimes }, ...scales } };
    this.plot = new uPlot(all, this.data, this.container);
    this.readout = make("div", { class: "readout", "aria-hidden": "true" });
    this.plot.over.append(this.readout);
  }

  // Values under the pointer, in a corner of the chart; all charts show the same moment.
  read(plot) {
    const index = plot.cursor.idx;
    const time = index === null || index === undefined ? null : plot.data[0][index];
    this.readout.hidden = time === null || time === undefined;
    if (this.readout.hidden) return;
    const rows = plot.series.slice(1).map((series, position) => {
      const value = plot.data[position + 1][index];
      return value === null || series.quiet ? null : make("div", {}, `${series.label} ${series.value(plot, value, position + 1, index)}`);
    });
    this.readout.replaceChildren(make("div", {}, clock(time)), ...rows.filter(Boolean));
    this.readout.classList.toggle("left", plot.cursor.left > plot.over.clientWidth / 2);
  }

  resize() {
    const width = Math.floor(this.container.clientWidth);
    if (!this.plot) this.build();
    else if (width >= 40 && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  remove() {
    this.observer.disconnect();
    this.plot?.destroy();
    charts.delete(this);
  }
}

// One moment alone is shown with half a minute on both sides; uPlot would show years.
const shownTimes = (_, first, last) => (first === last ? [first - 30, last + 30] : [first, last]);

function base() {
  return {
    cursor: { y: false, sync: { key: "osml" }, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    padding: [8, 26, 0, 0],
  };
}

export function timeAxis() {
  return {
    stroke: token("quiet"),
    font: FONT,
    space: 70,
    size: 28,
    grid: { stroke: token("grid"), width: 1 },
    ticks: { show: false },
    values: (_, splits) => splits.map(clock),
  };
}

export function valueAxis(values, size = 46) {
  return {
    stroke: token("quiet"),
    font: FONT,
    size,
    space: 28,
    grid: { stroke: token("grid"), width: 1 },
    ticks: { show: false },
    values: (_, splits) => splits.map((value) => (value === null ? null : values(value))),
  };
}

export const timeSeries = () => ({});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.build()));
