// What is known about one service's scheduling space, out of the timeline: where it was and what was measured there, the
// steps that led to where it is, and what a model predicts. Cells are CPUs and ways; nothing is filled in between.
const INTERVALS = 120;
export const LAST_STEPS = 8;

export function spaceOf(timeline, name) {
  const platform = timeline.now?.platform;
  const quantum = platform?.core_quantum ?? 1;
  const points = timeline.points.slice(-INTERVALS);
  const cellOf = (cell) => (cell ? { cores: cell.cores * quantum, ways: cell.ways } : null);
  const readings = [];
  for (const point of points) {
    const service = point.services.find((each) => each.name === name);
    if (service) readings.push({ point, service, held: cellOf(service.held), cell: cellOf(service) });
  }
  const last = readings.at(-1);
  const space = {
    name,
    quantum,
    cell: last?.cell ?? null,
    visited: visited(readings),
    steps: steps(readings),
    forecast: last?.point.forecasts?.find((forecast) => forecast.service === name) ?? null,
  };
  return { ...space, ...extent(space, platform) };
}

// How much of the node the map shows: all that is known, with room around it, at most the whole.
function extent({ quantum, visited: tried, steps: taken, forecast }, platform) {
  const points = [...tried, ...taken.map((step) => step.cell), ...(forecast ? [forecast.oaa, forecast.rcliff_upper] : [])];
  const [allCores, allWays] = [(platform?.cores ?? 1) * quantum, platform?.ways ?? null];
  const reach = (resource, step) => Math.max(4, Math.ceil((Math.max(0, ...points.map((point) => point[resource])) * 1.15) / step) * step);
  const whole = !points.length || quantum < 1; // a node of slices is small
  return {
    cores: whole ? allCores : Math.min(allCores, reach("cores", 4)),
    ways: whole || allWays === null ? allWays : Math.min(allWays, reach("ways", 2)),
    allCores,
    allWays,
  };
}

const keyOf = (cell) => `${cell.cores} ${cell.ways}`;

// Every cell that the service had while something was measured, with the newest measurement.
function visited(readings) {
  const cells = new Map();
  for (const { point, service, held } of readings) {
    if (!held) continue;
    const known = cells.get(keyOf(held));
    const ratio = service.latency_ms === null || !service.target_ms ? null : service.latency_ms / service.target_ms;
    const reading = ratio === null && known ? known : { ...held, ratio, latency_ms: service.latency_ms, target_ms: service.target_ms, at: point.at };
    cells.set(keyOf(held), { ...reading, times: (known?.times ?? 0) + 1 });
  }
  return [...cells.values()];
}

// Changes of the cell, oldest first, the newest ones with their reasons; the first one is where the path begins.
function steps(readings) {
  const changes = [];
  for (const { point, service, cell } of readings) {
    if (changes.length && keyOf(changes.at(-1).cell) === keyOf(cell)) continue;
    const forecast = point.forecasts?.find((each) => each.service === service.name) ?? null;
    const reasons = point.reasons.filter((reason) => reason.service === service.name).map((reason) => reason.text);
    changes.push({ seq: point.seq, at: point.at, cell, forecast, reasons, latency_ms: service.latency_ms, target_ms: service.target_ms });
  }
  return changes;
}
