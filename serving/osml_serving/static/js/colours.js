// A colour per service, by order of first appearance, and hatching for what several share.
const COLOURS = 8;
const order = new Map();

export function colourOf(service) {
  if (!order.has(service)) order.set(service, order.size);
  return token(`s${order.get(service) % COLOURS}`);
}

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// CSS background of a cell that these services own together.
export function cellFill(services) {
  const colours = services.map(colourOf);
  if (colours.length === 1) return colours[0];
  const stripes = colours.map((colour, index) => `${colour} ${index * 6}px, ${colour} ${index * 6 + 6}px`);
  return `repeating-linear-gradient(45deg, ${stripes.join(", ")})`;
}

// The same hatching for a canvas: diagonal stripes that join at the edges of the tile.
export function hatch(services) {
  const colours = services.map(colourOf);
  const size = 8 * colours.length;
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.lineWidth = 8 / Math.SQRT2;
  for (let stripe = -colours.length; stripe <= 2 * colours.length; stripe += 1) {
    pen.strokeStyle = colours[((stripe % colours.length) + colours.length) % colours.length];
    pen.beginPath();
    pen.moveTo(stripe * 8 - size, 2 * size); // from below the tile to above it: no blunt ends inside
    pen.lineTo(stripe * 8 + 2 * size, -size);
    pen.stroke();
  }
  return pen.createPattern(tile, "repeat");
}
