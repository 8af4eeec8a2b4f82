// The broker's API. Every function gives a promise; what fails throws an ApiError.
//
//   const page = await api.get(at('/', 'queues'), { sort: 'ready', max: 50 }, { signal });
//   await api.put(at(vhost, 'queues', name), { options: {} });
//
// `status` fires events: 'away' (the broker does not answer), 'back', 'login' (credentials are needed).

export class ApiError extends Error {
  constructor(code, text, httpStatus = 0) {
    super(text);
    this.name = 'ApiError';
    this.code = code;
    this.status = httpStatus;
  }
}

export const status = new EventTarget();

const KEY = 'tidemq.login';
const ANSWER_MS = 20000; // a broker that lets a question wait for longer stands still
let isAway = false;

// The credentials live as long as the tab, and in no other tab.
let authorization = sessionStorage.getItem(KEY);

function basic(user, password) {
  const raw = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...raw))}`;
}

export function setLogin(user, password) {
  authorization = basic(user, password);
  sessionStorage.setItem(KEY, authorization);
}

export function forgetLogin() {
  authorization = null;
  sessionStorage.removeItem(KEY);
}

export function hasLogin() {
  return authorization !== null;
}

function setAway(away) {
  if (away === isAway) return;
  isAway = away;
  status.dispatchEvent(new Event(away ? 'away' : 'back'));
}

// The path of something in a vhost, each part encoded: at('/', 'queues', 'a b') -> /api/vhosts/%2F/queues/a%20b
export function at(vhost, ...parts) {
  return ['/api/vhosts', ...[vhost, ...parts].map((part) => encodeURIComponent(part))].join('/');
}

// A path with a query; members that are empty are left out.
export function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, v]) => v !== undefined && v !== null && v !== '');
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

async function readError(response) {
  let error = null;
  try {
    error = (await response.json()).error;
  } catch {
    // It came from something between us and the broker, or is broken off.
  }
  return new ApiError(error?.code ?? 'http', error?.text ?? `the answer is ${response.status} ${response.statusText}, `
    + 'without a reason; it may come from a proxy before the broker', response.status);
}

async function send(path, options) {
  const headers = { 'X-Requested-With': 'tidemq', ...options.headers };
  if (authorization) headers.Authorization = authorization;
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', credentials: 'same-origin', ...options, headers });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    setAway(true);
    throw new ApiError('away', 'the broker does not answer');
  }
  setAway(false);
  if (response.ok) return response;
  const error = await readError(response);
  // A login that has been made meanwhile is not the one that was refused.
  if (error.status === 401 && headers.Authorization === (authorization ?? undefined)) status.dispatchEvent(new Event('login'));
  throw error;
}

function withDeadline(signal) {
  return AbortSignal.any([AbortSignal.timeout(ANSWER_MS), ...(signal ? [signal] : [])]);
}

async function request(method, path, body, options = {}) {
  const headers = body === undefined ? {} : { 'Content-Type': 'application/json' };
  const response = await send(path, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body),
    signal: method === 'GET' ? withDeadline(options.signal) : options.signal,
  });
  try {
    const text = await response.text();
    return text ? JSON.parse(text) : null;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('http', 'the answer broke off, or is not one of the broker; it may come from a proxy before it');
  }
}

export const api = {
  get: (path, query, options) => request('GET', withQuery(path, query), undefined, options),
  post: (path, body = {}, options) => request('POST', path, body, options),
  put: (path, body = {}, options) => request('PUT', path, body, options),
  delete: (path, query, options) => request('DELETE', withQuery(path, query), options?.body, options),
};

// One block of a stream of events: its name, and its data as JSON; null for a comment.
function parseEvent(block) {
  let name = 'message';
  const data = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).trim());
  }
  return data.length ? { name, data: JSON.parse(data.join('\n')) } : null;
}

async function readEvents(path, signal, onEvent) {
  const response = await send(path, { signal, headers: { Accept: 'text/event-stream' } });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest = (rest + value).replaceAll('\r\n', '\n');
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parseEvent(block);
      if (event) onEvent(event.name, event.data);
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}

// Resolves when the page can be seen, or `signal` is aborted.
function seen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (!document.hidden || signal.aborted) resolve();
    };
    document.addEventListener('visibilitychange', look, { signal });
    signal.addEventListener('abort', look, { once: true });
    look();
  });
}

// Run with a signal that is aborted when `signal` is, or the page is hidden.
async function whileSeen(signal, run) {
  const local = new AbortController();
  const look = () => {
    if (document.hidden || signal.aborted) local.abort();
  };
  document.addEventListener('visibilitychange', look, { signal: local.signal });
  signal.addEventListener('abort', look, { once: true, signal: local.signal });
  try {
    await run(local.signal);
    return false;
  } catch (error) {
    if (local.signal.aborted) return true;
    throw error;
  } finally {
    local.abort();
  }
}

// Follow server-sent events until `signal` is aborted. It is no EventSource, which sends no Authorization. A page that
// cannot be seen follows nothing. A stream that ends is opened again after 1 s, then 2 s, … 10 s; one that is refused
// is not: its error is thrown.
export async function follow(path, signal, onEvent) {
  let wait = 1000;
  for (;;) {
    await seen(signal);
    if (signal.aborted) return;
    try {
      const wasHidden = await whileSeen(signal, (local) => readEvents(path, local, (name, data) => {
        wait = 1000;
        onEvent(name, data);
      }));
      if (wasHidden) continue;
    } catch (error) {
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error;
      // A stream that broke off: the connection has gone, and a new one will tell.
      if (!(error instanceof ApiError)) setAway(true);
    }
    await pause(wait, signal);
    wait = Math.min(wait * 2, 10000);
  }
}

// What /health/ready says, ready or not: { ready, reasons, warnings }.
export async function loadHealth() {
  const response = await fetch('/health/ready', { cache: 'no-store', signal: withDeadline() });
  return response.json();
}
