// Canaries and shadow policies, as /v1/rollout has them: two tables, hidden where there are none.
import { getJson, LIST_MS, oneAtATime, WantsToken } from "./api.js";
import { byId, make, setText } from "./dom.js";
import { count, dateAndClock, entropy, NONE, tenths } from "./format.js";

const STATES = { waits: "◌ waits", runs: "● runs", returned: "✕ taken back" };
const MARKS = { waits: "unmeasured", runs: "met", returned: "missed" };
const mean = (sum, intervals) => (intervals ? sum / intervals : null);

const both = (canary, show, figure) => `${show(canary.canary[figure])} / ${show(canary.others[figure])}`;
const number = (text) => make("td", { class: "number" }, text);

function canaryRow(canary) {
  const scope = canary.group === null ? "all nodes" : `group ${canary.group}`;
  const since = canary.since === null ? "" : `${dateAndClock(canary.since)}: `;
  const why = canary.why === null ? NONE : `${since}${canary.why}`;
  return make("tr", {},
    make("td", {}, canary.name),
    make("td", {}, `${canary.what}, ${count(canary.percent)} % of ${scope}`),
    make("td", {}, make("span", { class: "mark", "data-state": MARKS[canary.state] }, STATES[canary.state])),
    number(both(canary, count, "nodes")),
    number(both(canary, tenths, "missed")),
    number(both(canary, tenths, "unmeasured")),
    number(both(canary, entropy, "e_s")),
    make("td", { class: "words" }, why));
}

function shadowRow(sums) {
  const decided = sums.same + sums.other;
  return make("tr", {},
    make("td", {}, sums.policy),
    number(count(decided)),
    number(tenths(mean(sums.same, decided))),
    number(count(sums.failed)),
    number(decided ? count(sums.cores / decided) : NONE),
    number(decided ? count(sums.lc_cores / decided) : NONE),
    number(entropy(mean(sums.e_s, sums.predicted))),
    number(entropy(mean(sums.e_s_decided, sums.predicted))));
}

export function showRollout(rollout) {
  byId("canaries-panel").hidden = rollout.canaries.length === 0;
  byId("shadows-panel").hidden = rollout.shadows.length === 0;
  document.querySelector("#canaries tbody").replaceChildren(...rollout.canaries.map(canaryRow));
  document.querySelector("#shadows tbody").replaceChildren(...rollout.shadows.map(shadowRow));
  setText(byId("lost"), rollout.lost ? `${count(rollout.lost)} intervals left out: their process is behind` : "");
}

// A token for some nodes only may not see the rollout: the tables stay hidden then.
export const pollRollout = oneAtATime(async () => {
  try {
    showRollout(await getJson("v1/rollout", LIST_MS));
  } catch (error) {
    if (!(error instanceof WantsToken)) return;
    showRollout({ canaries: [], shadows: [], lost: 0 });
  }
});
