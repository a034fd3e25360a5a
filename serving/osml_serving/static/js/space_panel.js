// The scheduling space of every latency-critical service, side by side, with one legend.
import { byId, make, makeSvg } from "./dom.js";
import { BANDS } from "./space_map.js";
import { SpaceCard } from "./space_card.js";
import { spaceOf } from "./space_of.js";

export class SpacePanel {
  constructor() {
    this.cards = new Map();
    byId("space-legend").replaceChildren(
      ...BANDS.map(([style, , words]) => key(`key ${style}`, words)),
      key("key danger", "predicted below the cliff"),
      key("key margin", "within the margin of the prediction"),
    );
  }

  show(timeline) {
    const services = timeline.services.filter((service) => service.class === "lc");
    const names = services.map((service) => service.name);
    for (const [name, card] of this.cards) {
      if (names.includes(name)) continue;
      card.element.remove();
      this.cards.delete(name);
    }
    byId("spaces").parentElement.hidden = !names.length;
    const version = `${timeline.points[0]?.at} ${timeline.last.at} ${timeline.points.length}`;
    for (const name of names) {
      if (!this.cards.has(name)) {
        this.cards.set(name, new SpaceCard(name));
        byId("spaces").append(this.cards.get(name).element);
      }
      this.cards.get(name).show(spaceOf(timeline, name), version);
    }
  }

  // Colours are the scheme's: what is painted by attribute is painted anew.
  repaint() {
    for (const card of this.cards.values()) card.shown = "";
  }

  clear() {
    for (const card of this.cards.values()) card.element.remove();
    this.cards.clear();
  }
}

function key(style, words) {
  const sample = makeSvg("svg", { class: "sample", viewBox: "0 0 16 12", "aria-hidden": "true" });
  if (style === "key danger" || style === "key margin") {
    sample.append(makeSvg("rect", { width: 16, height: 12, fill: `url(#hatch-${style === "key danger" ? "cliff" : "margin"})` }));
  } else {
    sample.append(makeSvg("rect", { class: `visited ${style.slice(4)}`, width: 16, height: 12 }));
  }
  return make("span", {}, sample, words);
}
