// Events of nodes as items of a list.
import { make } from "./dom.js";
import { clock } from "./format.js";

const MARKS = { missed: "✕", met: "✓", infeasible: "✕", feasible: "✓", apply: "✕", silent: "◔" };

export function eventItems(events, withNode = false) {
  return events.map((event) => {
    const node = withNode ? [make("a", { href: `./#${encodeURIComponent(event.node)}` }, event.node), " "] : [];
    const text = `${MARKS[event.kind] ?? "•"} ${event.text}`;
    return make("li", { "data-kind": event.kind }, make("time", {}, clock(event.at)), " ", ...node, text);
  });
}
