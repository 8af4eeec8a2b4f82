# The cases of ../integration/stomp_clients_spec.lua with ruby-stomp.
#
# Called with HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
require 'stomp'
require 'timeout'

HOST, PORT, USER, PASSWORD = ARGV
WAIT_S = 30 * ENV.fetch('TIDE_TEST_PATIENCE', '1').to_f

def open_connection(version = '1.2', password: PASSWORD, heartbeat: nil)
  headers = { 'accept-version' => version, 'host' => '/' }
  headers['heart-beat'] = heartbeat if heartbeat
  Stomp::Connection.new(hosts: [{ login: USER, passcode: password, host: HOST, port: PORT.to_i }],
                        reliable: false, connect_headers: headers)
end

# The next message or receipt.
def receive(connection)
  Timeout.timeout(WAIT_S) { connection.receive }
end

def expect(what, got, wanted)
  raise "#{what}: #{got.inspect} instead of #{wanted.inspect}" unless got == wanted
end

def send_confirmed(connection, destination, body, headers = {})
  connection.publish(destination, body, headers.merge('receipt' => 'sent'))
  expect 'receipt', receive(connection).headers['receipt-id'], 'sent'
end

def subscribe(connection, destination, id, headers = {})
  connection.subscribe(destination, headers.merge('receipt' => 'subscribed', 'id' => id), id)
  expect 'receipt', receive(connection).headers['receipt-id'], 'subscribed'
end

def run(name)
  yield
  puts "ok #{name}"
  $stdout.flush
end

# What is sent now comes first: nothing was left.
def expect_empty(destination)
  c = open_connection
  send_confirmed c, destination, 'the last'
  subscribe c, destination, 'check'
  expect 'body', receive(c).body, 'the last'
  c.disconnect
end

['1.0', '1.1', '1.2'].each do |version|
  run version do
    c = open_connection(version)
    expect 'version', c.protocol, version
    subscribe c, '/queue/ruby.auto', 'a'
    c.publish('/queue/ruby.auto', 'hello', 'tenant' => 'acme', 'receipt' => 'sent')
    # In any order.
    receipt, got = [receive(c), receive(c)].sort_by { |frame| frame.command == 'RECEIPT' ? 0 : 1 }
    expect 'receipt', receipt.headers['receipt-id'], 'sent'
    expect 'body', got.body, 'hello'
    expect 'header', got.headers['tenant'], 'acme'
    c.disconnect('receipt' => 'bye')
    expect 'receipt', c.disconnect_receipt.headers['receipt-id'], 'bye'
  end
end

run 'individual' do
  c = open_connection
  %w[one two].each { |body| send_confirmed c, '/queue/ruby.ack', body }
  subscribe c, '/queue/ruby.ack', 'a', 'ack' => 'client-individual', 'prefetch-count' => '10'
  one = receive(c)
  two = receive(c)
  c.nack(one.headers['ack'])
  again = receive(c)
  expect 'body', again.body, 'one'
  expect 'redelivered', again.headers['redelivered'], 'true'
  c.ack(two.headers['ack'])
  c.ack(again.headers['ack'], 'receipt' => 'acked')
  expect 'receipt', receive(c).headers['receipt-id'], 'acked'
  c.disconnect
  expect_empty '/queue/ruby.ack'
end

run 'cumulative' do
  c = open_connection
  %w[one two three].each { |body| send_confirmed c, '/queue/ruby.cumulative', body }
  subscribe c, '/queue/ruby.cumulative', 'a', 'ack' => 'client'
  got = 3.times.map { receive(c) }
  expect 'bodies', got.map(&:body), %w[one two three]
  c.ack(got.last.headers['ack'], 'receipt' => 'acked')
  expect 'receipt', receive(c).headers['receipt-id'], 'acked'
  c.disconnect
  expect_empty '/queue/ruby.cumulative'
end

run 'transaction' do
  c = open_connection
  subscribe c, '/queue/ruby.tx', 'a'
  c.begin('t1')
  c.begin('t2')
  c.publish('/queue/ruby.tx', 'no', 'transaction' => 't1')
  c.publish('/queue/ruby.tx', 'yes', 'transaction' => 't2')
  c.abort('t1')
  c.commit('t2')
  expect 'body', receive(c).body, 'yes'
  c.disconnect
end

run 'durable' do
  options = { 'durable' => 'true', 'auto-delete' => 'false', 'ack' => 'client' }
  c = open_connection
  subscribe c, '/topic/ruby.news.*', 'reader', options
  c.disconnect
  c = open_connection
  send_confirmed c, '/topic/ruby.news.local', 'while away'
  subscribe c, '/topic/ruby.news.*', 'reader', options
  got = receive(c)
  expect 'body', got.body, 'while away'
  c.ack(got.headers['ack'])
  c.unsubscribe('/topic/ruby.news.*', { 'durable' => 'true', 'id' => 'reader' }, 'reader')
  c.disconnect
end

run 'reply' do
  server = open_connection
  client = open_connection
  subscribe server, '/queue/ruby.rpc', 'a'
  client.publish('/queue/ruby.rpc', 'ping', 'reply-to' => '/temp-queue/answers')
  request = receive(server)
  server.publish(request.headers['reply-to'], 'pong')
  expect 'body', receive(client).body, 'pong'
  [server, client].each(&:disconnect)
end

run 'bodies' do
  c = open_connection
  subscribe c, '/queue/ruby.bytes', 'a'
  bytes = (0..255).to_a.pack('C*')
  [bytes, '', "\0", bytes * 4096].each do |body|
    c.publish('/queue/ruby.bytes', body)
    expect 'body', receive(c).body.b, body.b
  end
  c.disconnect
end

run 'escapes' do
  c = open_connection
  subscribe c, '/queue/ruby.escapes', 'a'
  c.publish '/queue/ruby.escapes', 'x', "a:b\\d" => "e:f\ng\\h"
  expect 'header', receive(c).headers["a:b\\d"], "e:f\ng\\h"
  c.disconnect
end

run 'error' do
  c = open_connection
  c.subscribe('/amq/queue/ruby.missing', { 'id' => 'a' }, 'a')
  got = receive(c)
  expect 'command', got.command, 'ERROR'
  raise got.inspect unless got.body.include?('ruby.missing')
end

run 'login' do
  got = open_connection(password: 'wrong').connection_frame
  expect 'command', got.command, 'ERROR'
  raise got.inspect unless got.headers['reason'].include?('wrong')
end

run 'heartbeats' do
  c = open_connection('1.2', heartbeat: '1000,1000')
  Timeout.timeout(WAIT_S) { sleep 0.05 while c.hbrecv_count < 2 }
  send_confirmed c, '/queue/ruby.alive', 'x'
  c.disconnect
end
