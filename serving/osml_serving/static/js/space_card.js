// One service's scheduling space: the map, a sentence, and the same as a table for who can't see or point.
import { colourOf } from "./colours.js";
import { make, makeSvg, setText } from "./dom.js";
import { cellWords, forecastWords } from "./forecast_words.js";
import { clock, milliseconds, NONE } from "./format.js";
import { drawMap } from "./space_map.js";

const HEADINGS = ["Step", "Time", "Given", "Latency before", "Target", "Predicted", "Why"];

export class SpaceCard {
  constructor(name) {
    this.shown = "";
    this.swatch = make("span", { class: "swatch" });
    this.badge = make("span", { class: "badge" });
    this.map = makeSvg("svg", { class: "map", role: "img" });
    this.words = make("p", { class: "quiet words" });
    this.rows = make("tbody");
    const headings = HEADINGS.map((heading) => make("th", { scope: "col" }, heading));
    this.table = make("table", {}, make("caption", {}, `Steps of ${name}, oldest first`), make("thead", {}, make("tr", {}, ...headings)), this.rows);
    this.element = make(
      "article",
      { class: "space", "data-space": name },
      make("h3", {}, this.swatch, name, this.badge),
      this.map,
      this.words,
      make("details", {}, make("summary", {}, "As a table"), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Steps of ${name}` }, this.table)),
    );
  }

  show(space, version) {
    if (version === this.shown) return;
    this.shown = version;
    this.element.style.setProperty("--own", colourOf(space.name));
    const partitioned = space.ways !== null;
    setText(this.badge, space.forecast ? space.forecast.model : "no prediction");
    const has = space.cell ? `has ${cellWords(space.cell, partitioned)}` : "has nothing of its own yet";
    setText(this.words, space.forecast ? forecastWords(space.forecast) : "Nothing is predicted here: only what was measured is shown.");
    this.map.setAttribute("aria-label", `${space.name} ${has}. ${this.words.textContent}`);
    this.element.classList.toggle("strange", space.forecast?.familiar === false);
    drawMap(this.map, space);
    this.rows.replaceChildren(...space.steps.map((step, index) => row(step, index, partitioned)));
  }
}

function row(step, index, partitioned) {
  const cells = [
    String(index + 1),
    clock(step.at),
    cellWords(step.cell, partitioned),
    milliseconds(step.latency_ms),
    milliseconds(step.target_ms),
    step.forecast ? forecastWords(step.forecast) : NONE,
    step.reasons.join(" ") || NONE,
  ];
  return make("tr", {}, ...cells.map((words) => make("td", {}, words)));
}
