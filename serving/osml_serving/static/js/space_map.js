// The map itself, an SVG: CPUs upward, ways to the right, one rectangle for every cell that was visited.
import { makeSvg } from "./dom.js";
import { clock, milliseconds, percent } from "./format.js";
import { cellWords } from "./forecast_words.js";
import { LAST_STEPS } from "./space_of.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [360, 270, 34, 34, 8, 8];
const TICKS = 5;
// Upper ends of latency over target; the classes are coloured in space.css.
export const BANDS = [
  ["v0", 0.5, "below 50 % of the target"],
  ["v1", 0.8, "50 to 80 %"],
  ["v2", 1, "80 to 100 %"],
  ["v3", 1.5, "up to half above the target"],
  ["v4", Infinity, "more"],
];

export const bandOf = (ratio) => (ratio === null ? "unmeasured" : BANDS.find(([, upper]) => ratio <= upper)[0]);

export function drawMap(svg, space) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const scale = scales(space);
  svg.replaceChildren(
    ...axes(space, scale),
    ...danger(space.forecast, scale),
    ...space.visited.map((cell) => visitedCell(cell, space, scale)),
    ...markers(space.forecast, scale),
    ...path(space, scale),
  );
}

// Cell (1 CPU, 1 way) is at the lower left; a cell's middle is its value, its edges half a step around it.
function scales({ cores, ways, quantum }) {
  const columns = ways ?? 1;
  const [width, height] = [(WIDTH - LEFT - RIGHT) / columns, (HEIGHT - TOP - BOTTOM) / cores];
  return {
    columns,
    width,
    height: height * quantum,
    x: (value) => LEFT + (ways === null ? 0.5 : value - 0.5) * width,
    y: (value) => HEIGHT - BOTTOM - (value - quantum / 2) * height,
  };
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const round = (value) => value.toFixed(1);

function box(cell, scale, attributes, ...children) {
  const [x, y] = [scale.x(cell.ways) - scale.width / 2, scale.y(cell.cores) - scale.height / 2];
  return makeSvg("rect", { x: round(x), y: round(y), width: round(scale.width), height: round(scale.height), ...attributes }, ...children);
}

function axes({ cores, ways, allCores, allWays }, scale) {
  const [right, floor] = [WIDTH - RIGHT, HEIGHT - BOTTOM];
  const lines = [makeSvg("rect", { class: "ground", x: LEFT, y: TOP, width: right - LEFT, height: floor - TOP })];
  const stepOf = (total) => [1, 2, 5, 10, 20, 50, 100].find((step) => total / step <= TICKS) ?? total;
  for (let core = stepOf(cores); core <= cores; core += stepOf(cores)) {
    lines.push(makeSvg("line", { class: "grid", x1: LEFT, x2: right, y1: round(scale.y(core)), y2: round(scale.y(core)) }));
    lines.push(text(LEFT - 5, scale.y(core) + 4, String(core), "end"));
  }
  for (let way = stepOf(ways ?? 0) || 1; way <= (ways ?? 0); way += stepOf(ways)) {
    lines.push(makeSvg("line", { class: "grid", y1: TOP, y2: floor, x1: round(scale.x(way)), x2: round(scale.x(way)) }));
    lines.push(text(scale.x(way), floor + 14, String(way), "middle"));
  }
  lines.push(text((LEFT + right) / 2, HEIGHT - 5, ways === null ? "the cache can't be partitioned" : `cache ways${part(ways, allWays)}`, "middle"));
  lines.push(makeSvg("text", { class: "label", transform: `translate(10 ${(TOP + floor) / 2}) rotate(-90)`, "text-anchor": "middle" }, `CPUs${part(cores, allCores)}`));
  return lines;
}

const part = (shown, all) => (shown < all ? ` (${shown} of ${all} shown)` : "");
const text = (x, y, words, anchor, style = "label") => makeSvg("text", { class: style, x: round(x), y: round(y), "text-anchor": anchor }, words);

// What is no more than the cliff in CPUs and in ways is below it: hatched densely below the prediction, lightly below the
// bound that the cliff keeps with the stated certainty. Fewer of one and more of the other: the model says nothing.
function danger(forecast, scale) {
  if (!forecast) return [];
  const area = (point, style, fill) => {
    const x = clamp(scale.x(point.ways) + (scale.columns === 1 ? scale.width / 2 : 0), LEFT, WIDTH - RIGHT);
    const y = clamp(scale.y(point.cores), TOP, HEIGHT - BOTTOM);
    return makeSvg("rect", { class: style, fill, x: LEFT, y: round(y), width: round(x - LEFT), height: round(HEIGHT - BOTTOM - y) });
  };
  return [area(forecast.rcliff_upper, "margin", "url(#hatch-margin)"), area(forecast.rcliff, "cliff", "url(#hatch-cliff)")];
}

function visitedCell(cell, space, scale) {
  const words = cell.ratio === null ? "not measured" : `${milliseconds(cell.latency_ms)} = ${percent(cell.ratio)} of the target, ${clock(cell.at)}`;
  const title = makeSvg("title", {}, `${cellWords(cell, space.ways !== null)}: ${words}`);
  return box(cell, scale, { class: `visited ${bandOf(cell.ratio)}` }, title);
}

function path({ cell, steps }, scale) {
  if (!cell) return [];
  const at = (step) => [scale.x(step.cell.ways), scale.y(step.cell.cores)];
  const last = steps.slice(-LAST_STEPS);
  const line = last.map((step) => at(step).map(round).join(",")).join(" ");
  const dots = last.map((step, index) => {
    const [x, y] = at(step);
    const style = index === last.length - 1 ? "step now" : "step";
    return makeSvg("g", { class: style }, makeSvg("circle", { cx: round(x), cy: round(y), r: 7 }), text(x, y + 3.2, String(index + 1), "middle", "number"));
  });
  return [makeSvg("polyline", { class: "path", points: line }), box(cell, scale, { class: "current" }), ...dots];
}

function markers(forecast, scale) {
  if (!forecast) return [];
  const place = (point) => [clamp(scale.x(point.ways), LEFT, WIDTH - RIGHT), clamp(scale.y(point.cores), TOP, HEIGHT - BOTTOM)];
  const [ox, oy] = place(forecast.oaa);
  const [cx, cy] = place(forecast.rcliff);
  return [
    makeSvg("path", { class: "oaa", d: `M${round(ox)} ${round(oy - 10)} l10 10 l-10 10 l-10 -10 z` }),
    text(ox + (ox > WIDTH - 60 ? -12 : 12), oy - 8, "OAA", ox > WIDTH - 60 ? "end" : "start", "mark"),
    makeSvg("path", { class: "rcliff", d: `M${round(cx - 5)} ${round(cy - 5)} l10 10 m0 -10 l-10 10` }),
    text(cx - 8, cy + 12, "RCliff", cx < 80 ? "start" : "end", "mark"),
  ];
}
