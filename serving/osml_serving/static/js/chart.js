// One uPlot chart that follows its container's width and the colour scheme.
import uPlot from "../vendor/uplot/uPlot.esm.js";
import { token } from "./colours.js";

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
    this.plot = new uPlot({ width, height: this.height, ...base(), ...this.describe() }, this.data, this.container);
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

function base() {
  return {
    cursor: { sync: { key: "osml" }, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { live: true },
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
    values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false })),
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

export const timeSeries = () => ({
  label: "",
  value: (_, at) => (at === null ? "" : new Date(at * 1000).toLocaleTimeString([], { hour12: false })),
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.build()));
