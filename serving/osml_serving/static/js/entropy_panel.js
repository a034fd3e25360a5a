// E_S, E_LC and E_BE: large for now, as lines over time.
import { Chart, timeAxis, timeSeries, valueAxis } from "./chart.js";
import { token } from "./colours.js";
import { byId, make, setText } from "./dom.js";
import { entropy } from "./format.js";

const FIGURES = [
  ["e_s", "E", "S", "the whole node", "text", 2.5],
  ["e_lc", "E", "LC", "latency-critical", "s0", 1.5],
  ["e_be", "E", "BE", "best effort", "s1", 1.5],
];

export class EntropyPanel {
  constructor() {
    this.values = FIGURES.map(([key, letter, index, meaning]) => {
      const value = make("span", { class: "value", id: key });
      const name = make("span", { class: `name line-${key}` }, letter, make("sub", {}, index), ` ${meaning}`);
      byId("figures").append(make("div", { class: key === "e_s" ? "figure first" : "figure" }, value, name));
      return value;
    });
    this.met = make("span", { class: "value", id: "met" });
    byId("figures").append(make("div", { class: "figure" }, this.met, make("span", { class: "name" }, "targets met")));
    this.chart = new Chart(byId("entropy-chart"), 200, () => ({
      scales: { y: { range: (_, _low, high) => [0, Math.min(1, Math.max(0.1, (high ?? 0) * 1.1))] } },
      axes: [timeAxis(), valueAxis((value) => value.toFixed(2))],
      series: [timeSeries(), ...FIGURES.map(([, letter, index, , colour, width]) => series(`${letter}_${index}`, colour, width))],
    }));
  }

  show(timeline) {
    const last = timeline.last;
    FIGURES.forEach(([key], position) => setText(this.values[position], entropy(last[key])));
    const judged = last.services.filter((service) => service.met !== null);
    const met = judged.filter((service) => service.met).length;
    setText(this.met, `${met}/${last.services.filter((service) => service.class === "lc").length}`);
    const label = `System entropy over time, now ${entropy(last.e_s)}`;
    this.chart.show(timeline.columns(...FIGURES.map(([key]) => (point) => point[key])), label);
  }
}

const series = (label, colour, width) => ({
  label,
  stroke: token(colour),
  width,
  points: { show: false },
  value: (_, value) => entropy(value),
});
