# The cases of ../integration/stomp_clients_spec.lua with Perl's Net::Stomp, which speaks
# 1.0: it has no heart-beats, and no NACK in its transactions.
#
# Called with HOST PORT USER PASSWORD. Prints a line "ok <case>" for each case.
use strict;
use warnings;
use Net::Stomp;

my ($host, $port, $user, $password) = @ARGV;
my $wait_s = 30 * ($ENV{TIDE_TEST_PATIENCE} // 1);
$| = 1;

sub connected {
	my ($version) = @_;
	my $c = Net::Stomp->new({ hostname => $host, port => $port });
	my $got = $c->connect({ login => $user, passcode => $password, host => '/',
		($version ? ('accept-version' => $version) : ()) });
	die 'not connected: ' . $got->as_string unless $got->command eq 'CONNECTED';
	return $c;
}

sub receive {
	my ($c) = @_;
	my $frame = $c->receive_frame({ timeout => $wait_s }) or die 'nothing came';
	return $frame;
}

sub expect {
	my ($got, $wanted) = @_;
	die "'$got' instead of '$wanted'" unless defined $got && $got eq $wanted;
}

sub confirmed {
	my ($c, $destination, $body, %headers) = @_;
	$c->send_with_receipt({ destination => $destination, body => $body, %headers, timeout => $wait_s })
		or die 'no receipt';
}

sub subscribe {
	my ($c, $destination, %headers) = @_;
	$c->subscribe({ destination => $destination, receipt => 'subscribed', %headers });
	expect(receive($c)->headers->{'receipt-id'}, 'subscribed');
}

# What is sent now comes first: nothing was left.
sub expect_empty {
	my ($destination) = @_;
	my $c = connected;
	confirmed($c, $destination, 'the last');
	subscribe($c, $destination, id => 'check', ack => 'auto');
	expect(receive($c)->body, 'the last');
	$c->disconnect;
}

sub case {
	my ($name, $function) = @_;
	$function->();
	print "ok $name\n";
}

for my $version ('1.0', '1.1', '1.2') {
	case $version, sub {
		my $c = connected($version);
		subscribe($c, '/queue/perl.auto', id => 'a', ack => 'auto');
		$c->send({ destination => '/queue/perl.auto', body => 'hello', tenant => 'acme' });
		my $got = receive($c);
		expect($got->body, 'hello');
		expect($got->headers->{tenant}, 'acme');
		$c->disconnect;
	};
}

case individual => sub {
	my $c = connected('1.2');
	confirmed($c, '/queue/perl.ack', $_) for 'one', 'two';
	subscribe($c, '/queue/perl.ack', id => 'a', ack => 'client-individual', 'prefetch-count' => 10);
	my ($one, $two) = (receive($c), receive($c));
	$c->send_frame(Net::Stomp::Frame->new({ command => 'NACK', headers => { id => $one->headers->{ack} } }));
	my $again = receive($c);
	expect($again->body, 'one');
	expect($again->headers->{redelivered}, 'true');
	for my $frame ($two, $again) {
		$c->send_frame(Net::Stomp::Frame->new({ command => 'ACK',
			headers => { id => $frame->headers->{ack}, receipt => 'acked' } }));
		expect(receive($c)->headers->{'receipt-id'}, 'acked');
	}
	$c->disconnect;
	expect_empty('/queue/perl.ack');
};

case cumulative => sub {
	my $c = connected;
	confirmed($c, '/queue/perl.cumulative', $_) for 1 .. 3;
	subscribe($c, '/queue/perl.cumulative', ack => 'client');
	my @got = map { receive($c) } 1 .. 3;
	$c->ack({ frame => $got[2], receipt => 'acked' });
	$c->disconnect;
	expect_empty('/queue/perl.cumulative');
};

case transaction => sub {
	my $c = connected;
	subscribe($c, '/queue/perl.tx', id => 'a', ack => 'auto');
	$c->send_frame(Net::Stomp::Frame->new({ command => 'BEGIN', headers => { transaction => 't' } }));
	$c->send({ destination => '/queue/perl.tx', body => 'no', transaction => 't' });
	$c->send_frame(Net::Stomp::Frame->new({ command => 'ABORT', headers => { transaction => 't' } }));
	# Not send_transactional: it waits for the receipt of the SEND, which COMMIT brings.
	$c->send_frame(Net::Stomp::Frame->new({ command => 'BEGIN', headers => { transaction => 'u' } }));
	$c->send({ destination => '/queue/perl.tx', body => 'yes', transaction => 'u' });
	$c->send_frame(Net::Stomp::Frame->new({ command => 'COMMIT', headers => { transaction => 'u' } }));
	expect(receive($c)->body, 'yes');
	$c->disconnect;
};

case durable => sub {
	my %options = (id => 'reader', durable => 'true', 'auto-delete' => 'false', ack => 'client');
	my $c = connected;
	subscribe($c, '/topic/perl.news.*', %options);
	$c->disconnect;
	$c = connected;
	confirmed($c, '/topic/perl.news.local', 'while away');
	subscribe($c, '/topic/perl.news.*', %options);
	my $got = receive($c);
	expect($got->body, 'while away');
	$c->ack({ frame => $got });
	$c->unsubscribe({ destination => '/topic/perl.news.*', id => 'reader', durable => 'true' });
	$c->disconnect;
};

case reply => sub {
	my ($server, $client) = (connected, connected);
	subscribe($server, '/queue/perl.rpc', id => 'a', ack => 'auto');
	$client->send({ destination => '/queue/perl.rpc', body => 'ping', 'reply-to' => '/temp-queue/answers' });
	$server->send({ destination => receive($server)->headers->{'reply-to'}, body => 'pong' });
	expect(receive($client)->body, 'pong');
	$_->disconnect for $server, $client;
};

case bodies => sub {
	my $c = connected;
	my $bytes = pack('C*', 0 .. 255);
	subscribe($c, '/queue/perl.bytes', id => 'a', ack => 'auto');
	for my $body ($bytes, '', "\0", $bytes x 4096) {
		$c->send({ destination => '/queue/perl.bytes', body => $body, bytes_message => 1 });
		expect(receive($c)->body // '', $body);
	}
	$c->disconnect;
};

case error => sub {
	my $c = connected;
	$c->subscribe({ destination => '/amq/queue/perl.missing', id => 'a' });
	my $got = receive($c);
	expect($got->command, 'ERROR');
	die $got->as_string unless $got->body =~ /perl\.missing/;
};

case login => sub {
	my $c = Net::Stomp->new({ hostname => $host, port => $port });
	my $got = $c->connect({ login => $user, passcode => 'wrong' });
	expect($got->command, 'ERROR');
};
