<?php
// The cases of ../integration/stomp_clients_spec.lua with PHP's extension stomp, which
// speaks 1.0.
//
// Called with HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
declare(strict_types=1);

[, $host, $port, $user, $password] = $argv;
// For the answer to CONNECT, which a refused login gets late; otherwise 2 seconds.
$wait_s = (int) (30 * (float) (getenv('TIDE_TEST_PATIENCE') ?: 1));
ini_set('stomp.default_read_timeout_sec', (string) $wait_s);

function connected(string $id = ''): Stomp
{
    global $host, $port, $user, $password, $wait_s;
    $headers = $id === '' ? ['host' => '/'] : ['host' => '/', 'client-id' => $id];
    $c = new Stomp("tcp://$host:$port", $user, $password, $headers);
    $c->setReadTimeout($wait_s);
    return $c;
}

function expect(mixed $got, mixed $wanted): void
{
    if ($got !== $wanted) {
        throw new Exception(var_export($got, true) . ' instead of ' . var_export($wanted, true));
    }
}

function receive(Stomp $c): StompFrame
{
    $frame = $c->readFrame();
    if (!$frame) {
        throw new Exception('nothing came: ' . $c->error());
    }
    return $frame;
}

/** The extension waits for the receipt itself. */
function confirmed(Stomp $c, string $destination, string $body, array $headers = []): void
{
    expect($c->send($destination, $body, $headers + ['receipt' => 'sent']), true);
}

function run(string $name, callable $function): void
{
    $function();
    echo "ok $name\n";
}

/** What is sent now comes first: nothing was left. */
function expect_empty(string $destination): void
{
    $c = connected();
    confirmed($c, $destination, 'the last');
    $c->subscribe($destination, ['ack' => 'auto']);
    expect(receive($c)->body, 'the last');
}

run('1.0', function () {
    $c = connected();
    confirmed($c, '/queue/php.auto', 'hello', ['tenant' => 'acme']);
    $c->subscribe('/queue/php.auto', ['ack' => 'auto']);
    $got = receive($c);
    expect($got->body, 'hello');
    expect($got->headers['tenant'], 'acme');
});

run('individual', function () {
    $c = connected();
    confirmed($c, '/queue/php.ack', 'one');
    confirmed($c, '/queue/php.ack', 'two');
    $c->subscribe('/queue/php.ack', ['ack' => 'client-individual', 'prefetch-count' => '10']);
    $one = receive($c);
    $two = receive($c);
    expect($one->body, 'one');
    expect($c->ack($two, ['receipt' => 'acked']), true);
    unset($c);
    $c = connected();
    $c->subscribe('/queue/php.ack', ['ack' => 'client-individual']);
    $again = receive($c);
    expect($again->body, 'one');
    expect($again->headers['redelivered'], 'true');
    expect($c->ack($again, ['receipt' => 'acked']), true);
    unset($c);
    expect_empty('/queue/php.ack');
});

run('transaction', function () {
    $c = connected();
    expect($c->begin('t1', ['receipt' => 'begun']), true);
    expect($c->send('/queue/php.tx', 'no', ['transaction' => 't1']), true);
    expect($c->abort('t1', ['receipt' => 'aborted']), true);
    expect($c->begin('t2', ['receipt' => 'begun']), true);
    expect($c->send('/queue/php.tx', 'yes', ['transaction' => 't2']), true);
    expect($c->commit('t2', ['receipt' => 'done']), true);
    $c->subscribe('/queue/php.tx', ['ack' => 'auto']);
    expect(receive($c)->body, 'yes');
});

run('durable', function () {
    $options = ['id' => 'reader', 'durable' => 'true', 'auto-delete' => 'false', 'ack' => 'client'];
    $c = connected('php');
    expect($c->subscribe('/topic/php.news.*', $options + ['receipt' => 'subscribed']), true);
    unset($c);
    $c = connected('php');
    confirmed($c, '/topic/php.news.local', 'while away');
    $c->subscribe('/topic/php.news.*', $options);
    $got = receive($c);
    expect($got->body, 'while away');
    expect($c->ack($got, ['receipt' => 'acked']), true);
    $c->unsubscribe('/topic/php.news.*', ['id' => 'reader', 'durable' => 'true', 'receipt' => 'gone']);
});

run('reply', function () {
    $server = connected();
    $client = connected();
    $server->subscribe('/queue/php.rpc', ['ack' => 'auto']);
    $client->send('/queue/php.rpc', 'ping', ['reply-to' => '/temp-queue/answers']);
    $server->send(receive($server)->headers['reply-to'], 'pong');
    expect(receive($client)->body, 'pong');
});

run('bodies', function () {
    $c = connected();
    $bytes = implode('', array_map('chr', range(0, 255)));
    $c->subscribe('/queue/php.bytes', ['ack' => 'auto']);
    foreach ([$bytes, "\0", str_repeat($bytes, 4096)] as $body) {
        $c->send('/queue/php.bytes', $body);
        expect(receive($c)->body, $body);
    }
});

run('error', function () {
    $c = connected();
    try {
        $c->subscribe('/amq/queue/php.missing', ['receipt' => 'subscribed']);
    } catch (StompException $e) {
        expect(str_contains($e->getDetails(), 'php.missing'), true);
        return;
    }
    expect(str_contains((string)$c->error(), 'php.missing'), true);
});

run('login', function () {
    global $host, $port, $user;
    try {
        new Stomp("tcp://$host:$port", $user, 'wrong', ['host' => '/']);
    } catch (StompException $e) {
        expect($e->getMessage(), 'Bad CONNECT');
        return;
    }
    throw new Exception('a wrong password was taken');
});
