"""A service on Node.js: it renders a page of products as HTML, short or long, from data in memory."""

from __future__ import annotations

from pathlib import Path

from osml.lab.trials.live.services.service import LOOPBACK, Service
from osml.lab.trials.live.services.talk import ask_http

SCRIPT = """\
const http = require('http');
const products = Array.from({length: 2000}, (_, i) => ({
  id: i, name: `product ${(i * 7919) % 2000}`, price: (i * 104729) % 9973, tags: [`t${i % 7}`, `t${i % 11}`],
}));
const escape = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
function page(tag, count) {
  const chosen = products.filter(p => p.tags.includes(tag)).sort((a, b) => a.price - b.price).slice(0, count);
  const rows = chosen.map(p => `<tr><td>${p.id}</td><td>${escape(p.name)}</td><td>${p.price.toFixed(2)}</td></tr>`);
  return `<html><body><h1>${escape(tag)}</h1><table>${rows.join('')}</table></body></html>`;
}
const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://localhost');
  if (url.pathname !== '/page') { response.writeHead(404).end(); return; }
  const count = Math.min(Math.max(Number(url.searchParams.get('count')) || 10, 1), 500);
  const body = page(url.searchParams.get('tag') || 't0', count);
  response.writeHead(200, {'Content-Type': 'text/html', 'Content-Length': Buffer.byteLength(body)});
  response.end(body);
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), 'ADDRESS');
""".replace("ADDRESS", LOOPBACK)

REQUESTS = tuple(f"/page?tag=t{tag}&count={count}" for tag in range(7) for count in (10, 10, 10, 250))


def _command(directory: Path, port: int) -> list[str]:
    script = directory / "server.js"
    script.write_text(SCRIPT)
    script.chmod(0o644)
    return ["node", str(script), str(port)]


def _fill(port: int) -> None:
    for path in REQUESTS[:8]:  # also warms its compiler
        ask_http(port, path, b"</table>")


SERVICE = Service("node", "node", "nodejs", "http", _command, _fill, requests=REQUESTS)
