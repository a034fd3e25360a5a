// Which nodes are shown, and in which order. Pure: lines of /v1/nodes in, lines out.
const SILENT_S = 30;
const SILENT_INTERVALS = 5;
const LONGEST_SILENCE_S = 18000;

// Seconds after an observation from which on its node is silent: as `silent_after_s` of the server.
export const silentAfter = (intervalS) => Math.min(Math.max(SILENT_S, SILENT_INTERVALS * intervalS), LONGEST_SILENCE_S);

export const STATES = { // state -> what the page says
  missed: "✕ above target",
  infeasible: "✕ infeasible",
  silent: "◔ silent",
  unmeasured: "◌ not measured",
  met: "✓ met",
};

export const COLUMNS = [ // key, title, number: right-aligned, first: direction of the first click
  { key: "node", title: "Node", first: 1 },
  { key: "state", title: "State", first: 1 },
  { key: "violations", title: "Missed", number: true, first: -1 },
  { key: "e_s", title: "E_S", number: true, first: -1 },
  { key: "age", title: "Last seen", number: true, first: -1 },
  { key: "services", title: "Services", number: true, first: -1 },
  { key: "policy", title: "Policy", first: 1 },
];

const RANK = Object.keys(STATES);

export function stateOf(line) {
  if (line.age > silentAfter(line.interval_s)) return "silent";
  if (line.infeasible) return "infeasible";
  if (line.violations > 0) return "missed";
  return line.unmeasured > 0 ? "unmeasured" : "met";
}

// Adds age and state to the lines of the server.
export function judged(list) {
  return list.nodes.map((line) => {
    const aged = { ...line, age: Math.max(0, list.server_time - line.at) };
    return { ...aged, state: stateOf(aged) };
  });
}

export function counts(lines) {
  const found = Object.fromEntries(RANK.map((state) => [state, 0]));
  for (const line of lines) found[line.state] += 1;
  return found;
}

export function chosen(lines, { search, filter, key, direction }) {
  const wanted = search.trim().toLowerCase();
  const kept = lines.filter(
    (line) =>
      (filter === "all" || line.state === filter) &&
      (!wanted || [line.node, line.policy, line.group, line.canary].some((text) => text?.toLowerCase().includes(wanted))),
  );
  const value = key === "state" ? (line) => RANK.indexOf(line.state) : (line) => line[key];
  return kept.sort((a, b) => compare(value(a), value(b), direction) || compare(a.node, b.node, 1));
}

// What was not measured is last, whichever way.
function compare(a, b, direction) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -direction : direction;
}
