// The cases of ../../integration/stomp_clients_spec.lua with npm's stompit.
//
// Called with HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
import assert from 'node:assert/strict';
import stompit from 'stompit';

const [host, port, user, password] = process.argv.slice(2);

function connect(headers = {}) {
  const connectHeaders = { host: '/', login: user, passcode: password, 'heart-beat': '0,0', ...headers };
  return new Promise((resolve, reject) => stompit.connect({ host, port: Number(port), connectHeaders },
    (error, client) => {
      if (error) return reject(error);
      client.on('error', () => {}); // whoever waits is told, too
      resolve(client);
    }));
}

// Resolved by the receipt: in a transaction that is after its commit.
function send(to, headers, body) {
  return new Promise((resolve, reject) => {
    const frame = to.send({ 'content-length': Buffer.byteLength(body), ...headers }, { onReceipt: resolve, onError: reject });
    frame.end(body);
  });
}

// Gives a function that waits for the next message.
function subscribe(client, destination, headers = {}) {
  const messages = [], waiting = [];
  const subscription = client.subscribe({ destination, ack: 'auto', ...headers }, (error, message) => {
    if (error) return waiting.forEach((w) => w.reject(error));
    const parts = [];
    message.on('data', (part) => parts.push(part));
    message.on('end', () => {
      const got = { message, body: Buffer.concat(parts), headers: message.headers };
      if (waiting.length) waiting.shift().resolve(got);
      else messages.push(got);
    });
  });
  const receive = () => messages.length ? Promise.resolve(messages.shift())
    : new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  receive.end = () => subscription.unsubscribe();
  return receive;
}

const disconnect = (client) => new Promise((resolve, reject) =>
  client.disconnect((error) => error ? reject(error) : resolve()));

async function run(name, test) {
  await test();
  console.log('ok ' + name);
}

// What is sent now comes first: nothing was left.
async function expectEmpty(destination) {
  const c = await connect();
  await send(c, { destination }, 'the last');
  assert.equal(String((await subscribe(c, destination)()).body), 'the last');
  await disconnect(c);
}

for (const version of ['1.0', '1.1', '1.2'])
  await run(version, async () => {
    const c = await connect({ 'accept-version': version });
    const destination = '/queue/stompit.auto';
    await send(c, { destination, tenant: 'acme' }, 'hello');
    const got = await subscribe(c, destination)();
    assert.equal(String(got.body), 'hello');
    assert.equal(got.headers.tenant, 'acme');
    await disconnect(c);
  });

await run('individual', async () => {
  const c = await connect(), destination = '/queue/stompit.ack';
  await send(c, { destination }, 'one');
  await send(c, { destination }, 'two');
  const receive = subscribe(c, destination, { ack: 'client-individual', 'prefetch-count': '10' });
  const one = await receive(), two = await receive();
  c.nack(one.message);
  const again = await receive();
  assert.equal(String(again.body), 'one');
  assert.equal(again.headers.redelivered, 'true');
  c.ack(two.message);
  c.ack(again.message);
  await disconnect(c);
  await expectEmpty(destination);
});

await run('cumulative', async () => {
  const c = await connect(), destination = '/queue/stompit.cumulative';
  for (const body of ['one', 'two', 'three']) await send(c, { destination }, body);
  const receive = subscribe(c, destination, { ack: 'client' });
  await receive();
  await receive();
  c.ack((await receive()).message);
  await disconnect(c);
  await expectEmpty(destination);
});

await run('transaction', async () => {
  const c = await connect(), destination = '/queue/stompit.tx';
  const receive = subscribe(c, destination);
  const aborted = c.begin();
  send(aborted, { destination }, 'no');
  aborted.abort();
  const committed = c.begin();
  const sent = send(committed, { destination }, 'yes');
  committed.commit();
  await sent;
  assert.equal(String((await receive()).body), 'yes');
  await disconnect(c);
});

await run('durable', async () => {
  const headers = { id: 'reader', durable: 'true', 'auto-delete': 'false', ack: 'client' };
  let c = await connect({ 'client-id': 'stompit' });
  subscribe(c, '/topic/stompit.news.*', headers);
  await send(c, { destination: '/topic/other' }, 'so that the subscription is there');
  await disconnect(c);
  c = await connect({ 'client-id': 'stompit' });
  await send(c, { destination: '/topic/stompit.news.local' }, 'while away');
  const receive = subscribe(c, '/topic/stompit.news.*', headers), got = await receive();
  assert.equal(String(got.body), 'while away');
  c.ack(got.message);
  await disconnect(c);
});

await run('reply', async () => {
  const server = await connect(), client = await connect();
  const requests = subscribe(server, '/queue/stompit.rpc');
  // The library gives a message to a subscription alone: this one is that of the queue.
  const replies = subscribe(client, '/temp-queue/answers');
  await send(client, { destination: '/queue/stompit.rpc', 'reply-to': '/temp-queue/answers' }, 'ping');
  await send(server, { destination: (await requests()).headers['reply-to'] }, 'pong');
  assert.equal(String((await replies()).body), 'pong');
  await disconnect(server);
  await disconnect(client);
});

await run('bodies', async () => {
  const c = await connect(), destination = '/queue/stompit.bytes', receive = subscribe(c, destination);
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  for (const body of [bytes, Buffer.alloc(0), Buffer.alloc(1), Buffer.concat(Array(4096).fill(bytes))]) {
    await send(c, { destination }, body);
    assert.ok((await receive()).body.equals(body));
  }
  await disconnect(c);
});

await run('escapes', async () => {
  const c = await connect(), destination = '/queue/stompit.escapes';
  await send(c, { destination, 'a:b\\d': 'e:f\ng\\h' }, 'x');
  assert.equal((await subscribe(c, destination)()).headers['a:b\\d'], 'e:f\ng\\h');
  await disconnect(c);
});

// In recent versions of Node the library loses what an ERROR says: it is thrown where nobody
// can catch it, and who waits is told that the connection has ended.
function refused(doing) {
  return new Promise((resolve) => {
    process.once('uncaughtException', (error) => resolve(error.message));
    doing().catch((error) => { if (!/ended unexpectedly/.test(error.message)) resolve(error.message); });
  });
}

await run('error', async () => {
  const c = await connect();
  assert.match(await refused(subscribe(c, '/amq/queue/stompit.missing')), /not_found/);
});

await run('login', async () => {
  assert.match(await refused(() => connect({ passcode: 'wrong' })), /Bad CONNECT/);
});

await run('heartbeats', async () => {
  const c = await connect({ 'heart-beat': '1000,1000' });
  assert.deepEqual(c.getOptions?.().heartbeat ?? [1000, 1000], [1000, 1000]);
  let beats = 0;
  const socket = c.getTransportSocket();
  await new Promise((resolve) => socket.on('data', (data) => { if (String(data) === '\n' && ++beats === 2) resolve(); }));
  await send(c, { destination: '/queue/stompit.alive' }, 'x');
  await disconnect(c);
});
