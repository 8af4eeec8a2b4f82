"""The cases of ../integration/stomp_clients_spec.lua with python3-stomp.

Called with HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
"""
import os
import queue
import sys

import stomp

HOST, PORT, USER, PASSWORD = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
WAIT_S = 30 * float(os.environ.get("TIDE_TEST_PATIENCE", "1"))


class Inbox(stomp.ConnectionListener):
    def __init__(self):
        self.messages, self.receipts, self.errors = queue.Queue(), queue.Queue(), queue.Queue()
        self.heartbeats = queue.Queue()

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers['receipt-id'])

    def on_error(self, frame):
        self.errors.put(frame)

    def on_heartbeat(self):
        self.heartbeats.put(True)


class Client:
    def __init__(self, make=stomp.Connection12, password=PASSWORD, **options):
        if make is not stomp.Connection10:
            options['vhost'] = '/'
        self.connection = make([(HOST, PORT)], reconnect_attempts_max=1, **options)
        self.inbox = Inbox()
        self.connection.set_listener('', self.inbox)
        self.connection.connect(USER, password, wait=True)

    def receive(self):
        return self.inbox.messages.get(timeout=WAIT_S)

    def send(self, destination, body, **headers):
        """Send, and wait for the receipt."""
        self.connection.send(destination, body, receipt='sent', **headers)
        assert self.inbox.receipts.get(timeout=WAIT_S) == 'sent'

    def subscribe(self, destination, number, ack='auto', **headers):
        self.connection.subscribe(destination, number, ack, {'receipt': 'subscribed', **headers})
        assert self.inbox.receipts.get(timeout=WAIT_S) == 'subscribed'

    def disconnect(self):
        self.connection.disconnect('bye')


def case(name, function, *args):
    function(*args)
    print('ok', name, flush=True)


def send_and_receive(make):
    c = Client(make)
    c.subscribe('/queue/python.auto', 1)
    c.send('/queue/python.auto', 'héllo', tenant='acme', content_type='text/plain')
    got = c.receive()
    assert got.body == 'héllo', got.body
    assert got.headers['tenant'] == 'acme' and got.headers['destination'] == '/queue/python.auto'
    c.disconnect()


def individual():
    c = Client()
    c.send('/queue/python.ack', 'one')
    c.send('/queue/python.ack', 'two')
    c.subscribe('/queue/python.ack', 1, 'client-individual', **{'prefetch-count': '10'})
    one, two = c.receive(), c.receive()
    c.connection.nack(one.headers['ack'])
    again = c.receive()
    assert again.body == 'one' and again.headers['redelivered'] == 'true', again.headers
    c.connection.ack(two.headers['ack'])
    c.connection.ack(again.headers['ack'], receipt='acked')
    assert c.inbox.receipts.get(timeout=WAIT_S) == 'acked'
    c.disconnect()
    expect_empty('/queue/python.ack')


def cumulative():
    c = Client()
    for body in 'one', 'two', 'three':
        c.send('/queue/python.cumulative', body)
    c.subscribe('/queue/python.cumulative', 1, 'client')
    got = [c.receive() for _ in range(3)]
    assert [m.body for m in got] == ['one', 'two', 'three']
    c.connection.ack(got[2].headers['ack'], receipt='acked')
    assert c.inbox.receipts.get(timeout=WAIT_S) == 'acked'
    c.disconnect()
    expect_empty('/queue/python.cumulative')


def expect_empty(destination):
    """What is sent now comes first: nothing was left."""
    c = Client()
    c.send(destination, 'the last')
    c.subscribe(destination, 1)
    assert c.receive().body == 'the last'
    c.disconnect()


def transaction():
    c = Client()
    c.subscribe('/queue/python.tx', 1)
    kept = c.connection.begin()
    c.connection.send('/queue/python.tx', 'no', transaction=kept)
    c.connection.abort(kept)
    done = c.connection.begin()
    c.connection.send('/queue/python.tx', 'yes', transaction=done)
    c.connection.commit(done)
    assert c.receive().body == 'yes'
    c.disconnect()


def durable():
    headers = {'durable': 'true', 'auto-delete': 'false'}
    c = Client()
    c.subscribe('/topic/python.news.#', 'reader', 'client', **headers)
    c.disconnect()
    other = Client()
    other.send('/topic/python.news.local', 'while away')
    other.disconnect()
    c = Client()
    c.subscribe('/topic/python.news.#', 'reader', 'client', **headers)
    got = c.receive()
    assert got.body == 'while away' and got.headers['destination'] == '/topic/python.news.local'
    c.connection.ack(got.headers['ack'])
    c.connection.unsubscribe('reader', headers={'receipt': 'gone', **headers})
    c.disconnect()


def request_and_reply():
    server, client = Client(), Client()
    server.subscribe('/queue/python.rpc', 1)
    client.connection.send('/queue/python.rpc', 'ping', **{'reply-to': '/temp-queue/answers'})
    request = server.receive()
    server.send(request.headers['reply-to'], 'pong')
    assert client.receive().body == 'pong'
    client.disconnect()
    server.disconnect()


def bodies():
    c = Client(auto_decode=False)
    c.subscribe('/queue/python.bytes', 1)
    for body in bytes(range(256)), b'', b'\0', bytes(range(256)) * 4096:
        c.connection.send('/queue/python.bytes', body)
        got = c.receive().body
        assert (got if isinstance(got, bytes) else got.encode()) == body, len(body)
    c.disconnect()


def escapes():
    """Of values: the library sends names as they are."""
    c = Client()
    c.subscribe('/queue/python.escapes', 1)
    c.send('/queue/python.escapes', 'x', odd='a:b\nc\\d')
    assert c.receive().headers['odd'] == 'a:b\nc\\d'
    c.disconnect()


def errors():
    c = Client()
    c.connection.subscribe('/amq/queue/python.missing', 1)
    error = c.inbox.errors.get(timeout=WAIT_S)
    assert 'python.missing' in error.headers['message'] + error.body, error


def login():
    try:
        Client(password='wrong')
    except stomp.exception.ConnectFailedException:
        return
    raise AssertionError('a wrong password was taken')


def heartbeats():
    c = Client(heartbeats=(1000, 1000))
    for _ in range(2):
        c.inbox.heartbeats.get(timeout=WAIT_S)
    c.send('/queue/python.alive', 'x')
    c.disconnect()


case('1.0', send_and_receive, stomp.Connection10)
case('1.1', send_and_receive, stomp.Connection11)
case('1.2', send_and_receive, stomp.Connection12)
case('individual', individual)
case('cumulative', cumulative)
case('transaction', transaction)
case('durable', durable)
case('reply', request_and_reply)
case('bodies', bodies)
case('escapes', escapes)
case('error', errors)
case('login', login)
case('heartbeats', heartbeats)
