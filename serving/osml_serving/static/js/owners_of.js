// Kernel CPU lists and way masks, and who is behind each CPU and way.
const LIMIT = 8192;

export function parseCpus(text) {
  const cpus = [];
  for (const part of (text || "").split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
    if (!match) continue;
    const last = Number(match[2] ?? match[1]);
    for (let cpu = Number(match[1]); cpu <= last && cpus.length < LIMIT; cpu += 1) cpus.push(cpu);
  }
  return cpus;
}

// Bits of a hexadecimal mask, lowest first. Masks may have more than 32 bits.
export function parseMask(text) {
  const bits = [];
  const mask = BigInt(`0x${/^[0-9a-f]{1,16}$/.test(text || "") ? text : "0"}`);
  for (let bit = 0; bit < 64; bit += 1) if ((mask >> BigInt(bit)) & 1n) bits.push(bit);
  return bits;
}

// Map from an id (CPU or way) to the names of the services that may use it.
export function ownersById(assignments, ids) {
  const owners = new Map();
  for (const assignment of assignments) {
    for (const id of ids(assignment)) {
      if (!owners.has(id)) owners.set(id, []);
      owners.get(id).push(assignment.service);
    }
  }
  return owners;
}
