// The intervals that the page shows, oldest first. Outlives the server: what it forgot at a restart stays here.
export const LIMIT = 600;
const GAP_S = 5; // so long without an observation, and so many intervals: the line breaks, and the page says stale
const GAP_INTERVALS = 2.5;

// Seconds after a point from which on the next one is missing. A server of an older version tells no interval.
export const patienceOf = (point) => Math.max(GAP_S, GAP_INTERVALS * (point.interval_s ?? 1));

const keyOf = (point) => `${point.seq} ${point.time_s}`;

// Adds a point. `at` is a server's clock, which can step back or be another server's: that time is then told anew.
function add(points, point) {
  while (points.length && points.at(-1).at >= point.at) points.pop();
  points.push(point);
}

export class Timeline {
  constructor() {
    this.points = [];
    this.now = null;
  }

  get last() {
    return this.points.at(-1) ?? null;
  }

  // Takes over the server's history. What is older is kept, and what came by the stream meanwhile.
  merge(history) {
    if (!history.points.length) return;
    const [first, last] = [history.points[0].at, history.points.at(-1).at];
    const older = this.points.filter((point) => point.at < first);
    const known = new Set(history.points.map(keyOf));
    const newer = this.points.filter((point) => point.at > last && !known.has(keyOf(point)));
    const points = [];
    for (const point of [...older, ...history.points, ...newer]) add(points, point);
    this.points = points.slice(-LIMIT);
    if (!newer.length) this.now = history.now;
  }

  push(point, now) {
    if (this.last && point.at <= this.last.at && point.seq === this.last.seq) return;
    add(this.points, point);
    if (this.points.length > LIMIT) this.points.shift();
    this.now = now;
  }

  // Columns for a chart: times, then one column per reader; null where there is a gap.
  columns(...readers) {
    const table = [[], ...readers.map(() => [])];
    let before = null;
    for (const point of this.points) {
      if (before && point.at - before.at > patienceOf(before)) {
        table[0].push(before.at + 0.001);
        for (const column of table.slice(1)) column.push(null);
      }
      if (point.at !== before?.at) {
        table[0].push(point.at);
        readers.forEach((read, index) => table[index + 1].push(read(point) ?? null));
      }
      before = point;
    }
    return table;
  }

  // Newest state of every service of the newest interval.
  get services() {
    return this.last?.services ?? [];
  }
}

export const serviceIn = (point, name) => point.services.find((service) => service.name === name) ?? null;
