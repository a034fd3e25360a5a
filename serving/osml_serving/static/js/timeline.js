// The intervals that the page shows, oldest first. Outlives the server: what it forgot at a restart stays here.
export const LIMIT = 600;
const GAP_S = 5; // longer without an observation: the line breaks

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
    const newer = this.points.filter((point) => point.at > last);
    this.points = [...older, ...history.points, ...newer].slice(-LIMIT);
    if (!newer.length) this.now = history.now;
  }

  push(point, now) {
    if (this.last && point.at <= this.last.at && point.seq === this.last.seq) return;
    this.points.push(point);
    if (this.points.length > LIMIT) this.points.shift();
    this.now = now;
  }

  // Columns for a chart: times, then one column per reader; null where there is a gap.
  columns(...readers) {
    const table = [[], ...readers.map(() => [])];
    let before = null;
    for (const point of this.points) {
      if (before !== null && point.at - before > GAP_S) {
        table[0].push(before + 0.001);
        for (const column of table.slice(1)) column.push(null);
      }
      if (point.at !== before) {
        table[0].push(point.at);
        readers.forEach((read, index) => table[index + 1].push(read(point) ?? null));
      }
      before = point.at;
    }
    return table;
  }

  // Newest state of every service of the newest interval.
  get services() {
    return this.last?.services ?? [];
  }
}

export const serviceIn = (point, name) => point.services.find((service) => service.name === name) ?? null;
