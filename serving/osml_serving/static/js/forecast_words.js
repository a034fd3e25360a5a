// Predictions in words.
import { count, percent, plural } from "./format.js";

const one = (value) => Math.round(value * 10) / 10;

// "12 CPUs, 8 ways"; without ways where the cache can't be partitioned.
export const cellWords = (cell, ways = true) => (ways ? `${plural(cell.cores, "CPU")}, ${plural(cell.ways, "way")}` : plural(cell.cores, "CPU"));

const pointWords = (point) => cellWords({ cores: one(point.cores), ways: one(point.ways) });

export function forecastWords(forecast) {
  const words = [
    `OAA ${pointWords(forecast.oaa)}`,
    `cliff at ${pointWords(forecast.rcliff)}, with ${percent(forecast.coverage)} certainty not above ${pointWords(forecast.rcliff_upper)}`,
  ];
  if (forecast.action) words.push(`Model-C: ${signed(forecast.action[0], "CPU")}, ${signed(forecast.action[1], "way")}${value(forecast.q)}`);
  if (!forecast.familiar) words.push("outside of what the model was trained on");
  return words.join("; ");
}

const signed = (change, word) => `${change > 0 ? "+" : change < 0 ? "−" : "±"}${Math.abs(change)} ${word}${Math.abs(change) === 1 ? "" : "s"}`;
const value = (q) => (q === null || q === undefined ? "" : ` (Q ${count(q)})`);
