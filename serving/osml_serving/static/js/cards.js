// The grid of service cards: latency-critical first, each kept as long as its service is there.
import { byId } from "./dom.js";
import { ServiceCard } from "./service_card.js";

export class Cards {
  constructor() {
    this.cards = new Map();
  }

  show(timeline) {
    const quantum = timeline.now?.platform.core_quantum ?? 1;
    const services = [...timeline.services].sort((a, b) => (a.class === b.class ? 0 : a.class === "lc" ? -1 : 1));
    const names = new Set(services.map((service) => service.name));
    for (const [name, card] of this.cards) {
      if (names.has(name)) continue;
      card.remove();
      this.cards.delete(name);
    }
    const grid = byId("services");
    services.forEach((service, place) => {
      if (!this.cards.has(service.name)) this.cards.set(service.name, new ServiceCard(service));
      const card = this.cards.get(service.name);
      if (grid.children[place] !== card.element) grid.insertBefore(card.element, grid.children[place] ?? null);
      card.show(timeline, service, quantum);
    });
  }

  clear() {
    for (const card of this.cards.values()) card.remove();
    this.cards.clear();
  }
}
