// The last 24 hours of a node: E_S and missed time in bins of ten minutes, and what happened.
import { getJson } from "./api.js";
import { Chart, timeAxis, timeSeries, uPlot, valueAxis } from "./chart.js";
import { token } from "./colours.js";
import { byId } from "./dom.js";
import { eventItems } from "./event_items.js";
import { entropy, percent } from "./format.js";

const POLL_MS = 30000;
const BIN_S = 600;
const DAY_S = 86400;

export class DayPanel {
  constructor() {
    this.node = null;
    this.chart = new Chart(byId("day-chart"), 140, () => ({
      scales: { x: { range: (_, _first, last) => shownDay(last) }, y: { range: [0, 1] } },
      axes: [timeAxis(), valueAxis((value) => value.toFixed(1))],
      series: [
        timeSeries(),
        {
          label: "time missed", stroke: token("bad"), fill: token("bad"), width: 0, points: { show: false },
          paths: uPlot.paths.bars({ size: [0.8, 20] }), value: (_, value) => percent(value),
        },
        { label: "E_S", stroke: token("text"), width: 2, points: { show: false }, value: (_, value) => entropy(value) },
      ],
    }));
    setInterval(() => this.poll(), POLL_MS);
  }

  follow(node) {
    this.node = node;
    this.show({ bins: [], events: [] }); // not those of the node before
    this.poll();
  }

  async poll() {
    if (!this.node) return;
    try {
      const day = await getJson(`v1/nodes/${encodeURIComponent(this.node)}/day`);
      if (day.node === this.node) this.show(day);
    } catch { /* the connection's own state says that the server is away */ }
  }

  show({ bins, events }) {
    const missed = bins.reduce((sum, bin) => sum + bin.missed_s, 0) / Math.max(1, bins.reduce((sum, bin) => sum + bin.seconds, 0));
    const label = `E_S and missed targets of the last 24 hours; targets were missed in ${percent(missed)} of the time`;
    this.chart.show(columns(bins), label);
    byId("day-events").replaceChildren(...eventItems(events));
    byId("day-none").hidden = events.length > 0;
  }
}

// A day up to the end of the newest bin, or up to now where there is none.
export function shownDay(middle) {
  const end = middle === null || middle === undefined ? Date.now() / 1000 : middle + BIN_S / 2;
  return [end - DAY_S, end];
}

// Ten minutes in which the node was not seen are a gap, not a line across it.
export function columns(bins) {
  const [times, missed, e_s] = [[], [], []];
  const add = (at, bin) => {
    times.push(at + BIN_S / 2);
    missed.push(bin ? bin.missed_s / bin.seconds : null);
    e_s.push(bin ? bin.e_s : null);
  };
  let last = null;
  for (const bin of bins) {
    if (last !== null && bin.at > last + BIN_S) add(last + BIN_S, null);
    add(bin.at, bin);
    last = bin.at;
  }
  return [times, missed, e_s];
}
