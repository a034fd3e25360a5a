// Cores or ways over time, stacked: what each service has for itself, then what is shared, up to what the node has.
import { Chart, timeAxis, timeSeries, uPlot, valueAxis } from "./chart.js";
import { colourOf, hatch, token } from "./colours.js";
import { byId } from "./dom.js";
import { count } from "./format.js";

const keyOf = (region) => region.owners.join(" + ");

export class AllocationChart {
  constructor(id, resource, unit) {
    this.resource = resource;
    this.unit = unit;
    this.keys = [];
    this.total = 1;
    this.own = [];
    this.chart = new Chart(byId(id), 220, () => this.options());
  }

  show(timeline, scale, total) {
    const keys = regionKeys(timeline.points, this.resource);
    const amount = (point, key) => amountOf(point, key, this.resource) * scale;
    const own = timeline.columns(...keys.map((key) => (point) => amount(point, key)));
    const stacked = [own[0], ...stack(own.slice(1))];
    this.own = own;
    const changed = keys.join("|") !== this.keys.join("|") || total !== this.total;
    this.keys = keys;
    this.total = total;
    const now = keys.map((key) => `${key} ${count(own[keys.indexOf(key) + 1].at(-1) ?? 0)}`);
    if (changed) this.chart.plot?.destroy();
    if (changed) this.chart.plot = null;
    this.chart.show([stacked[0], ...stacked.slice(1).reverse()], `${this.unit} of ${total}: ${now.join(", ")}`);
  }

  // Drawn from the highest sum down, each over the last, so that every fill may reach to zero.
  options() {
    const painted = [...this.keys].reverse();
    return {
      scales: { y: { range: [0, this.total] } },
      axes: [timeAxis(), valueAxis(count, 36)],
      series: [timeSeries(), ...painted.map((key, index) => this.series(key, this.keys.length - index))],
    };
  }

  series(key, column) {
    const owners = key.split(" + ");
    return {
      label: owners.length > 1 ? `shared: ${key}` : key,
      stroke: token("panel"),
      width: 1,
      fill: owners.length > 1 ? hatch(owners) : colourOf(key),
      paths: uPlot.paths.stepped({ align: 1 }),
      points: { show: false },
      value: (_, _sum, _series, index) => (index === null ? "" : count(this.own[column][index])),
    };
  }
}

// Regions that ever had something, single owners first, in order of appearance.
function regionKeys(points, resource) {
  const seen = new Map();
  for (const point of points) {
    for (const region of point.regions) if (region[resource] > 0) seen.set(keyOf(region), region.owners.length > 1);
  }
  return [...seen.keys()].sort((a, b) => Number(seen.get(a)) - Number(seen.get(b)));
}

function amountOf(point, key, resource) {
  return point.regions.filter((region) => keyOf(region) === key).reduce((sum, region) => sum + region[resource], 0);
}

function stack(columns) {
  let below = null;
  return columns.map((column) => {
    const sums = column.map((value, index) => (value === null ? null : value + (below?.[index] ?? 0)));
    below = sums;
    return sums;
  });
}
