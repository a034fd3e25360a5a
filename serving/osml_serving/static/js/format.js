// Numbers as people read them. Missing is a dash, never 0.
export const NONE = "–";

const digits = (value) => (Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);

export function milliseconds(value) {
  if (value === null || value === undefined) return NONE;
  return value >= 10000 ? `${(value / 1000).toFixed(1)} s` : `${Number(value.toFixed(digits(value)))} ms`;
}

export const entropy = (value) => (value === null || value === undefined ? NONE : value.toFixed(3));
export const percent = (value) => (value === null || value === undefined ? NONE : `${Math.round(value * 100)} %`);
export const tenths = (value) => (value === null || value === undefined ? NONE : `${(value * 100).toFixed(1)} %`);
export const count = (value) => (value === null || value === undefined ? NONE : String(Number(value.toFixed(2))));
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
export const dateAndClock = (seconds) => new Date(seconds * 1000).toLocaleString([], { hour12: false });
export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
