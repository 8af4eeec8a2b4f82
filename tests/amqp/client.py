"""The cases of ../integration/amqp_clients_spec.lua with python3-pika and python3-amqp.

Called with pika or amqp, and HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
"""
import os
import sys
import threading

LIBRARY, HOST, PORT, USER, PASSWORD = *sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:6]
WAIT_S = 30 * float(os.environ.get('TIDE_TEST_PATIENCE', '1'))
HEADERS = {'text': 'a', 'number': 7, 'big': 1 << 40, 'yes': True, 'nothing': None,
           'list': [1, 'x', {'deep': ['er']}], 'table': {'in': {'deep': 1}}}


def case(name, function):
    function()
    print('ok', name, flush=True)


def run_pika():
    import pika
    from pika import exceptions

    def connect(**options):
        credentials = pika.PlainCredentials(USER, options.pop('word', PASSWORD))
        return pika.BlockingConnection(pika.ConnectionParameters(
            HOST, PORT, '/', credentials, **options))

    def properties():
        with connect() as c:
            channel = c.channel()
            given = pika.BasicProperties(
                content_type='text/plain', content_encoding='utf-8', headers=HEADERS,
                delivery_mode=2, priority=3, correlation_id='c', reply_to='r', expiration='60000',
                message_id='m', timestamp=1700000000, type='t', user_id=USER, app_id='a')
            channel.queue_declare('pika.q', durable=True)
            channel.basic_publish('', 'pika.q', b'x' * 300000, given)
            method, got, body = channel.basic_get('pika.q')
            assert vars(got) == vars(given), got
            assert len(body) == 300000
            channel.basic_ack(method.delivery_tag)
            channel.queue_delete('pika.q')

    def confirms():
        with connect() as c:
            channel = c.channel()
            channel.confirm_delivery()
            try:
                channel.basic_publish('', 'pika.nowhere', b'', mandatory=True)
                raise AssertionError('it was routed')
            except exceptions.UnroutableError as error:
                assert error.messages[0].method.reply_code == 312
            queue = channel.queue_declare('', exclusive=True).method.queue
            for _ in range(100):
                channel.basic_publish('', queue, b'x')
            assert channel.queue_declare(queue, passive=True).method.message_count == 100

    def errors():
        with connect() as c:
            for request, code in (
                    (lambda channel: channel.queue_declare('pika.absent', passive=True), 404),
                    (lambda channel: channel.exchange_declare('amq.x'), 403)):
                try:
                    request(c.channel())
                    raise AssertionError('it was not refused')
                except exceptions.ChannelClosedByBroker as error:
                    assert error.reply_code == code
        try:
            connect(word='wrong')
            raise AssertionError('it was let in')
        except exceptions.ProbableAuthenticationError:
            pass

    def pool():
        """Workers in threads of their own acknowledge through the thread of the connection."""
        done = []
        with connect() as c:
            channel = c.channel()
            channel.queue_declare('pika.pool')
            channel.basic_qos(prefetch_count=4)
            for i in range(20):
                channel.basic_publish('', 'pika.pool', str(i).encode())

            def finish(tag, body):
                channel.basic_ack(tag)
                done.append(body)
                if len(done) == 20:
                    channel.stop_consuming()

            def work(tag, body):
                c.add_callback_threadsafe(lambda: finish(tag, body))

            def on_message(_channel, method, _properties, body):
                threading.Thread(target=work, args=(method.delivery_tag, body)).start()

            channel.basic_consume('pika.pool', on_message)
            channel.start_consuming()
            assert sorted(done, key=int) == [str(i).encode() for i in range(20)]
            assert channel.queue_delete('pika.pool').method.message_count == 0

    def rpc():
        with connect() as c:
            channel = c.channel()
            channel.queue_declare('pika.rpc')
            answers = channel.queue_declare('', exclusive=True).method.queue
            channel.basic_publish('', 'pika.rpc', b'2', pika.BasicProperties(reply_to=answers))
            _, question, body = channel.basic_get('pika.rpc', auto_ack=True)
            channel.basic_publish('', question.reply_to, body * 2)
            assert channel.basic_get(answers, auto_ack=True)[2] == b'22'
            channel.queue_delete('pika.rpc')

    def direct():
        with connect() as c, connect() as server:
            channel, other, answers = c.channel(), server.channel(), []
            other.queue_declare('pika.direct', exclusive=True)
            channel.basic_consume('amq.rabbitmq.reply-to', lambda *args: answers.append(args[3]),
                                  auto_ack=True)
            channel.basic_publish('', 'pika.direct', b'2',
                                  pika.BasicProperties(reply_to='amq.rabbitmq.reply-to'))
            question = None
            while not question:
                _, question, body = other.basic_get('pika.direct', auto_ack=True)
            other.basic_publish('', question.reply_to, body * 2)
            while not answers:
                c.process_data_events(WAIT_S)
            assert answers == [b'22']

    def delayed():
        with connect() as c:
            channel, got = c.channel(), []
            channel.exchange_declare('pika.delayed', 'x-delayed-message', durable=True,
                                     arguments={'x-delayed-type': 'direct'})
            queue = channel.queue_declare('', exclusive=True).method.queue
            channel.queue_bind(queue, 'pika.delayed', 'k')
            channel.confirm_delivery()
            for delay in 3600000, 1:
                channel.basic_publish('pika.delayed', 'k', str(delay).encode(),
                                      pika.BasicProperties(headers={'x-delay': delay}))
            channel.basic_consume(queue, lambda *args: got.append(args[2:]), auto_ack=True)
            while not got:
                c.process_data_events(WAIT_S)
            assert [(p.headers['x-delay'], body) for p, body in got] == [(-1, b'1')], got
            channel.exchange_delete('pika.delayed')

    def copies():
        with connect() as c:
            channel = c.channel()
            names = [channel.queue_declare('', exclusive=True).method.queue for _ in range(3)]
            channel.confirm_delivery()
            channel.basic_publish('', names[0], b'x', pika.BasicProperties(
                headers={'CC': names[:2], 'BCC': names[2:]}), mandatory=True)
            for name in names:
                method, got, body = channel.basic_get(name, auto_ack=True)
                assert (method.routing_key, method.message_count, body) == (names[0], 0, b'x')
                assert got.headers == {'CC': names[:2]}, got

    for function in (properties, confirms, errors, pool, rpc, direct, delayed, copies):
        case(function.__name__, function)


def run_amqp():
    import amqp

    def connect(**options):
        c = amqp.Connection('%s:%d' % (HOST, PORT), USER, options.pop('word', PASSWORD), **options)
        c.connect()
        return c

    def properties():
        with connect() as c, c.channel() as channel:
            given = {'content_type': 'text/plain', 'application_headers': HEADERS,
                     'delivery_mode': 2, 'correlation_id': 'c', 'reply_to': 'r', 'message_id': 'm'}
            queue = channel.queue_declare(exclusive=True).queue
            channel.basic_publish(amqp.Message('x' * 300000, **given), routing_key=queue)
            got = channel.basic_get(queue)
            assert {name: got.properties[name] for name in given} == given, got.properties
            channel.basic_ack(got.delivery_tag)

    def confirms():
        with connect(confirm_publish=True) as c, c.channel() as channel:
            queue = channel.queue_declare(exclusive=True).queue
            for _ in range(10):
                channel.basic_publish_confirm(amqp.Message('x'), routing_key=queue)
            assert channel.queue_purge(queue) == 10

    def errors():
        with connect() as c:
            try:
                c.channel().queue_declare('amqp.absent', passive=True)
                raise AssertionError('it was not refused')
            except amqp.exceptions.NotFound:
                pass
        try:
            connect(word='wrong')
            raise AssertionError('it was let in')
        except amqp.exceptions.AccessRefused:
            pass

    def consume():
        got = []
        with connect() as c, c.channel() as channel:
            def on_message(message):
                got.append(message.body)
                channel.basic_ack(message.delivery_tag)

            queue = channel.queue_declare(exclusive=True).queue
            channel.exchange_declare('amqp.x', 'topic', durable=False)
            channel.queue_bind(queue, 'amqp.x', 'a.#')
            channel.basic_qos(0, 1, False)
            tag = channel.basic_consume(queue, callback=on_message)
            for i in range(3):
                channel.basic_publish(amqp.Message(str(i)), 'amqp.x', 'a.b')
            while len(got) < 3:
                c.drain_events(timeout=WAIT_S)
            channel.basic_cancel(tag)
            channel.exchange_delete('amqp.x')
        assert got == ['0', '1', '2']

    def heartbeats():
        with connect(heartbeat=2) as c:
            assert c.heartbeat == 2
            c.send_heartbeat()

    def transaction():
        with connect() as c, c.channel() as channel, c.channel() as other:
            queue = channel.queue_declare(exclusive=True).queue
            channel.tx_select()
            channel.basic_publish(amqp.Message('x'), routing_key=queue)
            assert other.basic_get(queue) is None
            channel.tx_commit()
            assert other.basic_get(queue).body == 'x'

    for function in (properties, confirms, errors, consume, heartbeats, transaction):
        case(function.__name__, function)


if __name__ == '__main__':
    {'pika': run_pika, 'amqp': run_amqp}[LIBRARY]()
