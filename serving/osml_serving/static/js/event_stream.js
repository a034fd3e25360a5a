// Server-sent events over fetch, because EventSource can't send a token. Reconnects by itself until it is stopped.
import { request, WantsToken } from "./api.js";

const SILENCE_MS = 12000; // the server sends a heartbeat every 5 s
const WAITS_MS = [250, 500, 1000, 2000, 4000];

export class EventStream {
  // `handlers`: open(), lost(), unauthorised() and event(name, data).
  constructor(path, handlers) {
    this.path = path;
    this.handlers = handlers;
    this.stopped = false;
    this.failures = 0;
    this.run();
  }

  stop() {
    this.stopped = true;
    this.controller?.abort();
  }

  async run() {
    while (!this.stopped) {
      try {
        await this.follow();
      } catch (error) {
        if (error instanceof WantsToken) {
          this.handlers.unauthorised();
          return;
        }
      }
      clearTimeout(this.watchdog);
      if (this.stopped) return;
      this.handlers.lost();
      const wait = WAITS_MS[Math.min(this.failures, WAITS_MS.length - 1)];
      this.failures += 1;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async follow() {
    this.controller = new AbortController();
    this.alive();
    const response = await request(this.path, { signal: this.controller.signal });
    if (!response.ok) throw new Error(String(response.status));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.alive();
      const frames = (rest + value).split("\n\n");
      rest = frames.pop();
      frames.forEach((text) => this.dispatch(text));
    }
  }

  dispatch(text) {
    const fields = Object.fromEntries(text.split("\n").map((line) => [line.split(": ", 1)[0], line.slice(line.indexOf(": ") + 2)]));
    if (fields.event === "hello") {
      this.failures = 0;
      this.handlers.open();
    } else if (fields.event) this.handlers.event(fields.event, JSON.parse(fields.data));
  }

  alive() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.controller.abort(), SILENCE_MS);
  }
}
