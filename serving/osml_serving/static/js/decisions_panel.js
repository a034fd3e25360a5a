// The last decisions with their reasons. Quiet intervals that say the same are one row.
import { byId, make } from "./dom.js";
import { forecastWords } from "./forecast_words.js";
import { clock, entropy } from "./format.js";

const ROWS = 60;
const OUTCOMES = { applied: "✓ applied", unchanged: "= unchanged", dry_run: "dry run" };

export class DecisionsPanel {
  constructor() {
    this.box = byId("changes-only");
    this.body = document.querySelector("#decisions tbody");
    this.newest = null;
  }

  show(timeline) {
    const outcomes = outcomesOf(timeline.points);
    const rows = [];
    for (const point of [...timeline.points].reverse()) {
      if (this.box.checked && !point.reasons.some((reason) => reason.change)) continue;
      const before = rows.at(-1);
      const plain = (each) => !isBad(outcomes.get(each));
      if (before && plain(before.point) && plain(point) && same(before.point, point)) before.first = point;
      else rows.push({ point, first: point, newest: !rows.length });
      if (rows.length > ROWS) break;
    }
    this.body.replaceChildren(...rows.slice(0, ROWS).map((row) => line(row, outcomes.get(row.point))));
  }
}

// The outcome of each point's decision, by point. The numbers begin anew with each agent: an outcome is of the newest
// decision before it that has its number, and the first point of a new agent may tell one of the former agent.
export function outcomesOf(points) {
  const outcomes = new Map();
  const bySeq = new Map();
  let before = null;
  for (const point of points) {
    const decided = bySeq.get(point.outcome?.seq);
    if (decided) outcomes.set(decided, point.outcome);
    if (before && point.seq < before.seq) bySeq.clear();
    bySeq.set(point.seq, point);
    before = point;
  }
  return outcomes;
}

const isBad = (outcome) => outcome !== undefined && !(outcome.status in OUTCOMES);
// The sense of the reasons: the numbers and names of a quiet interval change all the time.
const words = (point) => point.reasons.map((reason) => reason.text.replace(/\([^)]*\)|[\d.]+/g, "")).join("\n");
const quiet = (point) => !point.reasons.some((reason) => reason.change);
const same = (a, b) => quiet(a) && quiet(b) && words(a) === words(b) && a.policy === b.policy;

function line({ point, first, newest }, outcome) {
  const sequence = first.seq === point.seq ? `#${point.seq}` : `#${first.seq} – ${point.seq}`;
  const items = [...point.reasons.map((reason) => make("li", {}, arrow(reason), reason.text)), ...predictions(point, newest)];
  const reasons = items.length
    ? make("ul", {}, ...items)
    : make("span", { class: "quiet" }, "no reason given");
  return make(
    "tr",
    {},
    make("td", {}, clock(point.at)),
    make("td", {}, sequence),
    make("td", { class: "number" }, entropy(point.e_s)),
    make("td", {}, outcomeText(outcome)),
    make("td", {}, reasons),
  );
}

// Forecasts of the services that the decision changes; in the newest decision, of all services.
function predictions(point, newest) {
  const changed = new Set(point.reasons.filter((reason) => reason.change).map((reason) => reason.service));
  const forecasts = (point.forecasts ?? []).filter((forecast) => newest || changed.has(forecast.service));
  return forecasts.map((forecast) => make("li", { class: "quiet" }, `${forecast.service}: ${forecastWords(forecast)}`));
}

const arrow = (reason) => (reason.change > 0 ? "▲ " : reason.change < 0 ? "▼ " : "");

function outcomeText(outcome) {
  if (!outcome) return make("span", { class: "quiet" }, "not reported yet");
  if (!isBad(outcome)) return OUTCOMES[outcome.status];
  return make("span", { class: "outcome-bad" }, `✕ ${outcome.status.replace("_", " ")}: ${outcome.message}`);
}
