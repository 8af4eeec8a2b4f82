// The cases of ../../integration/stomp_clients_spec.lua with npm's @stomp/stompjs, the client
// of browsers. It wants a WebSocket: this one is a TCP socket, or, with a URL, a real one.
//
// Called with HOST PORT USER PASSWORD [URL]. Prints a line "ok <case>" for each case.
import assert from 'node:assert/strict';
import net from 'node:net';
import { Client } from '@stomp/stompjs';
import { WebSocket } from 'ws';

const [host, port, user, password, url] = process.argv.slice(2);

class RealSocket extends WebSocket {
  constructor() {
    super(url, ['v12.stomp', 'v11.stomp', 'v10.stomp']);
    this.beats = 0;
    this.on('message', (data) => { if (String(data) === '\n') this.beats++; });
  }
}

class Socket {
  constructor() {
    this.url = `tcp://${host}:${port}`;
    this.readyState = 0;
    this.beats = 0;
    this.socket = net.connect(Number(port), host, () => { this.readyState = 1; this.onopen(); });
    this.socket.on('data', (data) => {
      if (String(data) === '\n') this.beats++;
      this.onmessage({ data: new Uint8Array(data).buffer });
    });
    this.socket.on('close', () => { this.readyState = 3; this.onclose({ code: 1000, wasClean: true }); });
    this.socket.on('error', (error) => this.onerror(error));
  }
  send(data) { this.socket.write(typeof data === 'string' ? data : Buffer.from(data)); }
  close() { this.readyState = 2; this.socket.end(); }
  terminate() { this.socket.destroy(); }
}

// Resolved by CONNECTED, rejected by ERROR. Later errors are given to `client.failed`.
function connect(options = {}) {
  return new Promise((resolve, reject) => {
    const client = new Client({
      webSocketFactory: () => client.tcp = url ? new RealSocket() : new Socket(), reconnectDelay: 0, heartbeatIncoming: 0,
      heartbeatOutgoing: 0, connectHeaders: { login: user, passcode: password, host: '/' }, ...options,
      onConnect: () => resolve(client),
      onStompError: (frame) => { reject(new Error(frame.headers.message)); client.failed?.(frame); },
    });
    client.activate();
  });
}

let count = 0;
// What `ask` sends carries a receipt: resolved when it comes.
function confirmed(client, ask) {
  const receipt = 'r' + ++count;
  return new Promise((resolve) => { client.watchForReceipt(receipt, resolve); ask({ receipt }); });
}

const send = (c, destination, body, headers = {}) => confirmed(c, (receipt) => c.publish(
  body instanceof Uint8Array ? { destination, binaryBody: body, headers: { ...headers, ...receipt } }
    : { destination, body, headers: { ...headers, ...receipt } }));

// Gives a function that waits for the next message.
function subscribe(c, destination, headers = {}) {
  const messages = [], waiting = [];
  c.subscribe(destination, (m) => waiting.length ? waiting.shift()(m) : messages.push(m), headers);
  return () => messages.length ? Promise.resolve(messages.shift()) : new Promise((resolve) => waiting.push(resolve));
}

async function run(name, test) {
  await test();
  console.log('ok ' + name);
}

// What is sent now comes first: nothing was left.
async function expectEmpty(destination) {
  const c = await connect();
  await send(c, destination, 'the last');
  assert.equal((await subscribe(c, destination)()).body, 'the last');
  await c.deactivate();
}

for (const version of ['1.0', '1.1', '1.2'])
  await run(version, async () => {
    const c = await connect({ stompVersions: { versions: [version], supportedVersions: () => version,
      protocolVersions: () => [] } });
    assert.equal(c.connectedVersion, version);
    await send(c, '/queue/stompjs.auto', 'héllo', { tenant: 'acme' });
    const got = await subscribe(c, '/queue/stompjs.auto')();
    assert.equal(got.body, 'héllo');
    assert.equal(got.headers.tenant, 'acme');
    await c.deactivate();
  });

await run('individual', async () => {
  const c = await connect(), q = '/queue/stompjs.ack';
  await send(c, q, 'one');
  await send(c, q, 'two');
  const receive = subscribe(c, q, { ack: 'client-individual', 'prefetch-count': '10' });
  const one = await receive(), two = await receive();
  one.nack();
  const again = await receive();
  assert.equal(again.body, 'one');
  assert.equal(again.headers.redelivered, 'true');
  two.ack();
  await confirmed(c, (receipt) => again.ack(receipt));
  await c.deactivate();
  await expectEmpty(q);
});

await run('cumulative', async () => {
  const c = await connect(), q = '/queue/stompjs.cumulative';
  for (const body of ['one', 'two', 'three']) await send(c, q, body);
  const receive = subscribe(c, q, { ack: 'client' });
  await receive();
  await receive();
  const last = await receive();
  await confirmed(c, (receipt) => last.ack(receipt));
  await c.deactivate();
  await expectEmpty(q);
});

await run('transaction', async () => {
  const c = await connect(), q = '/queue/stompjs.tx', receive = subscribe(c, q);
  const aborted = c.begin();
  send(c, q, 'no', { transaction: aborted.id });
  aborted.abort();
  const committed = c.begin();
  const sent = send(c, q, 'yes', { transaction: committed.id });
  committed.commit();
  await sent;
  assert.equal((await receive()).body, 'yes');
  await c.deactivate();
});

await run('durable', async () => {
  const headers = { id: 'reader', durable: 'true', 'auto-delete': 'false', ack: 'client' };
  let c = await connect();
  await confirmed(c, (receipt) => c.subscribe('/topic/stompjs.news.*', () => {}, { ...headers, ...receipt }));
  await c.deactivate();
  c = await connect();
  await send(c, '/topic/stompjs.news.local', 'while away');
  const got = await subscribe(c, '/topic/stompjs.news.*', headers)();
  assert.equal(got.body, 'while away');
  got.ack();
  await confirmed(c, (receipt) => c.unsubscribe('reader', { durable: 'true', ...receipt }));
  await c.deactivate();
});

await run('reply', async () => {
  const server = await connect(), client = await connect();
  const requests = subscribe(server, '/queue/stompjs.rpc');
  const answer = new Promise((resolve) => client.onUnhandledMessage = resolve);
  await send(client, '/queue/stompjs.rpc', 'ping', { 'reply-to': '/temp-queue/answers' });
  await send(server, (await requests()).headers['reply-to'], 'pong');
  assert.equal((await answer).body, 'pong');
  await server.deactivate();
  await client.deactivate();
});

await run('bodies', async () => {
  const c = await connect(), q = '/queue/stompjs.bytes', receive = subscribe(c, q);
  const bytes = Uint8Array.from({ length: 256 }, (_, i) => i);
  const large = new Uint8Array(1 << 20).map((_, i) => i);
  for (const body of [bytes, new Uint8Array(0), new Uint8Array(1), large]) {
    await send(c, q, body);
    assert.deepEqual(Buffer.from((await receive()).binaryBody), Buffer.from(body));
  }
  await c.deactivate();
});

await run('escapes', async () => {
  const c = await connect(), q = '/queue/stompjs.escapes';
  await send(c, q, 'x', { odd: 'e:f\ng\\h' });
  assert.equal((await subscribe(c, q)()).headers.odd, 'e:f\ng\\h');
  await c.deactivate();
});

await run('error', async () => {
  const c = await connect();
  const failed = new Promise((resolve) => c.failed = resolve);
  c.subscribe('/amq/queue/stompjs.missing', () => {});
  assert.match((await failed).body, /stompjs\.missing/);
  await c.deactivate();
});

await run('login', async () => {
  await assert.rejects(connect({ connectHeaders: { login: user, passcode: 'wrong', host: '/' } }), /Bad CONNECT/);
});

await run('heartbeats', async () => {
  const c = await connect({ heartbeatIncoming: 1000, heartbeatOutgoing: 1000 });
  await new Promise((resolve) => { const t = setInterval(() => { if (c.tcp.beats >= 2) { clearInterval(t); resolve(); } }, 20); });
  await send(c, '/queue/stompjs.alive', 'x');
  await c.deactivate();
});
