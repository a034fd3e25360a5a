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
    for (const service of services) {
      if (!this.cards.has(service.name)) {
        const card = new ServiceCard(service);
        this.cards.set(service.name, card);
        byId("services").append(card.element);
      }
      this.cards.get(service.name).show(timeline, service, quantum);
    }
  }

  clear() {
    for (const card of this.cards.values()) card.remove();
    this.cards.clear();
  }
}
