// Requests to the server, with the token of this tab where one is wanted.
const KEY = "osml-token";
const TIMEOUT_MS = 65000; // a server may wait for others, for a minute at most (--peer-timeout-s)
export const LIST_MS = 20000; // for what stands beside the list of nodes

export const lastAnswer = { at: performance.now() }; // of any question; an error is one, too

export class WantsToken extends Error {}

// What a request can carry. Anything else would look like a server that is away.
export const isToken = (text) => /^[\x21-\x7e]+$/.test(text);

export const rememberToken = (token) => sessionStorage.setItem(KEY, token);

export async function request(path, options = {}) {
  const token = sessionStorage.getItem(KEY);
  if (token && !isToken(token)) throw new WantsToken(path);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { ...options, headers, cache: "no-store" });
  lastAnswer.at = performance.now();
  if (response.status === 401 || response.status === 403) throw new WantsToken(path);
  return response;
}

export async function getJson(path, timeoutMs = TIMEOUT_MS) {
  const response = await request(path, { signal: AbortSignal.timeout(timeoutMs) });
  if (!response.ok) throw new Error((await said(response)) ?? `${path}: ${response.status}`);
  return response.json();
}

// As `ask`, one question at a time: while one is open, it is everybody's.
export function oneAtATime(ask) {
  let open = null;
  return () => (open ??= ask().finally(() => { open = null; }));
}

// The server's own words on an error; null where somebody else answered.
async function said(response) {
  try {
    const { error } = await response.json();
    return error.hint ? `${error.message}; ${error.hint}` : error.message;
  } catch {
    return null;
  }
}
