# Cloche's Perl agent: answers `call` on descriptor 3 (spec/agent.md), with nothing but Perl's own modules.
# The user's code is run here, where it sees no pragma and no variable of this file; @_ is its own.
sub Cloche::evaluate { package main; eval $Cloche::source }

package Cloche;
use v5.36;
no strict 'refs';    # functions are found by their names
no warnings qw(experimental::builtin once recursion);
use builtin qw(blessed created_as_number is_bool refaddr);
use JSON::PP ();
use Sub::Util qw(subname);

my $json = JSON::PP->new->utf8->ascii->boolean_values(!!0, !!1)->max_depth(1000);
my ($agent_pid, $not_unicode) = ($$, qr/[^\0-\x{D7FF}\x{E000}-\x{10FFFF}]/);

package Cloche::Text { use overload '""' => sub ($self, @) { $$self }, fallback => 1 }
@{"${_}::ISA"} = 'Cloche::Text' for qw(Cloche::Bytes SystemExit TypeError NameError ValueError);
sub Cloche::Bytes::new ($class, $bytes) { bless \$bytes, $class }
sub refuse ($type, $message) { die bless \$message, $type }

# exit() is an error of the call; in processes that the code forks, and in END blocks, it ends the process.
sub CORE::GLOBAL::exit :prototype(;$) ($status = 0) {
    CORE::exit($status) if $$ != $agent_pid || ${^GLOBAL_PHASE} ne 'RUN';
    refuse(SystemExit => $status);
}
*CORE::GLOBAL::exit = \&CORE::GLOBAL::exit;    # Perl overrides with the assigned function

# ---- values in (the engine has checked their form) ----
my $attachments;
my %FORM = (
    (map { $_ => sub ($tag, $path) { undef } } qw(undefined hole)),
    utf16     => sub ($tag, $path) { refuse(TypeError => "$path: Perl holds no lone surrogates") },
    number    => sub ($tag, $path) { 1 * ($tag->{v} eq '-0' ? '-0.0' : $tag->{v}) },
    bigint    => sub ($tag, $path) { require Math::BigInt; Math::BigInt->new($tag->{v}) },
    bytes     => sub ($tag, $path) { Cloche::Bytes->new(substr $attachments, $tag->{at}, $tag->{n}) },
    object    => sub ($tag, $path) { decode_members({ map { @$_ } @{ $tag->{v} } }, $path) },
);

sub decode ($node, $path) {
    return [map { decode($node->[$_], "$path\[$_]") } keys @$node] if ref $node eq 'ARRAY';
    return $node if ref $node ne 'HASH';
    my $kind = $node->{'$'} // return decode_members($node, $path);
    my $form = $FORM{$kind} // refuse(TypeError => "$path: a value of the kind '$kind' has no form in Perl");
    return $form->($node, $path);
}
sub decode_members ($node, $path) { +{ map { $_ => decode($node->{$_}, "$path.$_") } keys %$node } }

# Pairs (name => value) come after all positions, so no position before them may be left open.
sub arguments ($params) {
    my ($args, $named) = (decode($params->{args}, 'args'), decode_members($params->{kwargs}, 'kwargs'));
    my @order = @{ $params->{order} // [] };
    my %at = map { $_ => $args->[$_] } keys @$args;
    delete @at{ @{ $params->{holes} // [] } };
    for my $i (grep { exists $named->{ $order[$_] } } keys @order) {
        refuse(TypeError => "argument '$order[$i]' is given twice") if exists $at{$i};
        $at{$i} = delete $named->{ $order[$i] };
    }
    my ($last) = sort { $b <=> $a } -1, keys %at, %$named ? ($#order, $#$args) : ();
    my ($open) = grep { !exists $at{$_} } 0 .. $last;
    return @at{ 0 .. $last }, map { $_ => $named->{$_} } sort keys %$named if !defined $open;
    my $name = defined $order[$open] ? " ('$order[$open]')" : '';
    refuse(TypeError => "argument at position $open$name is missing, and others stand behind it");
}

# ---- values out ----

my ($attached, $room, %open) = '';
my %NAMED = (NaN => 'NaN', Inf => 'Infinity', -Inf => '-Infinity', '-0' => '-0');

sub spend ($text) { ($room -= length $text) < 0 ? refuse(ValueError => 'result over resultBytes') : $text }
sub quote ($text) {
    utf8::encode(my $bytes = $text =~ s/(["\\\0-\x1f])/sprintf '\\u%04x', ord $1/ger);
    return qq("$bytes");
}

sub encode ($value, $path) {
    return spend('null') if !defined $value;
    return spend($value ? 'true' : 'false') if is_bool($value) || ref $value eq 'JSON::PP::Boolean';
    return spend(encode_bytes($$value, $path)) if ref $value eq 'Cloche::Bytes';
    return spend(encode_big($value)) if ref $value eq 'Math::BigInt';
    return encode_container($value, $path) if ref $value || ref \$value eq 'GLOB';
    return spend(encode_number($value)) if created_as_number($value);
    refuse(TypeError => "$path: string that is not Unicode cannot be sent") if $value =~ $not_unicode;
    return spend(quote($value));
}

sub encode_big ($n) { $n->is_int ? encode_integer("$n") : encode_number($n->numify) }
sub encode_integer ($n) { abs $n <= 9007199254740991 ? "$n" : qq({"\$":"bigint","v":"$n"}) }

sub encode_number ($n) {
    my $name = $NAMED{ sprintf '%g', $n };
    return qq({"\$":"number","v":"$name"}) if defined $name;
    return encode_integer($n) if $n =~ /^-?\d+\z/;
    my ($text) = grep { $_ == $n } "$n", map { sprintf "%.${_}g", $n } 16, 17;
    return $text =~ /[.e]/ ? $text : "$text.0";
}

sub encode_bytes ($bytes, $path) {
    utf8::downgrade($bytes, 1) or refuse(TypeError => "$path: bytes with characters over 255 cannot be sent");
    $attached .= spend($bytes);
    return sprintf '{"$":"bytes","at":%d,"n":%d}', length($attached) - length $bytes, length $bytes;
}

sub encode_container ($value, $path) {
    my ($type, $address) = (ref $value || 'GLOB', refaddr $value);
    refuse(TypeError => "$path: $type cannot be sent: return its data") if $type !~ /^(?:ARRAY|HASH)\z/;
    refuse(TypeError => "$path: cycle cannot be sent: return a copy without the way back") if $open{$address};
    refuse(TypeError => substr($path, 0, 40) . '..: nested deeper than 200: flatten it') if keys %open == 200;
    local $open{$address} = 1;
    return '[' . join(',', map { encode($value->[$_], "$path\[$_]") } keys @$value) . ']' if $type eq 'ARRAY';
    my @keys = sort keys %$value;    # Perl's own order differs in every process
    my $escaped = grep { $_ eq '$' || /\0/ } @keys;
    my ($all, $each) = $escaped ? ('{"$":"object","v":[%s]}', '[%s,%s]') : ('{%s}', '%s:%s');
    my @members = map { sprintf $each, encode($_, $path), encode($value->{$_}, "$path.$_") } @keys;
    return sprintf $all, join ',', @members;
}

# ---- calls ----

my ($trace, $name, $is_compiled) = '';
$SIG{__DIE__} = sub {
    local $Carp::MaxEvalLen = 10;
    $trace = join '', grep { !/ at \Q${\__FILE__}\E line / } split /^/, Carp::longmess('');
};

sub functions {    # no constants, which are other references, and no imports, which have other names
    my @found = grep { (ref $main::{$_} || 'CODE') eq 'CODE' && defined &{"main::$_"} } sort keys %main::;
    return grep { subname(\&{"main::$_"}) eq "main::$_" } @found;
}

sub begin {    # the first statement of every code: all of it is compiled then, and nothing has run
    $is_compiled = 1;
    my @public = grep { !/^_/ } functions();
    $name //= $public[0] if @public < 2;
    return if defined $name || !@public;
    refuse(TypeError => "code defines several public functions (@public): name one");
}

sub named {
    return \&{"main::$name"} if defined &{"main::$name"};
    refuse(NameError => "function '$name' is not in the code, which has: @{[functions()]}");
}
sub failed { ref $@ || length $@ }

sub call ($params) {
    my @args = arguments($params);
    refuse(TypeError => 'Perl takes no globals or imports') if grep { %$_ } @$params{qw(globals imports)};
    my $filename = $params->{filename} =~ tr/"\n/_/r;
    local $Cloche::source = qq(Cloche::begin();\n#line 1 "$filename"\n$params->{code});
    ($name, $room, $0) = ($params->{function}, $params->{resultBytes}, $filename);
    my @values = evaluate(@args);
    @values = eval { named()->(@args) } if !failed() && defined $name;
    if ($$ != $agent_pid) { print STDERR $@; CORE::exit(failed() ? 1 : 0) }    # a child that the code forked
    local $SIG{__DIE__};
    die $@ if failed();
    $trace = '';
    my $text = encode(@values > 1 ? \@values : $values[0], '$');
    $room = $params->{resultBytes} - length $attached;
    my $source = $params->{order} ? 'schema' : 'convention';
    return '"result":{"signatureSource":"' . $source . '","value":' . spend($text) . '}';
}

sub failure ($message, $error) {
    return { code => -32601, message => "no method '$message->{method}'" } if $message->{method} ne 'call';
    my $type = ref $error || ($is_compiled ? 'Error' : 'SyntaxError');
    my $text = eval { blessed $error && $error->can('message') ? $error->message : "$error" } // $type;
    $text =~ s/ at \Q$0\E line \d+(, <\S*> \w+ \d+)?\.\n\z// if $is_compiled;
    my %data = (type => $type, message => $text, stack => "$type: $text\n$trace");
    $_ = substr s/$not_unicode/\x{FFFD}/gr, 0, 1 << 16 for values %data;
    $attached = '';
    return { code => -32000, message => $data{message}, data => { %data, signatureSource => 'convention' } };
}

# ---- the channel, moved away from 3; programs that the code starts do not have it ----

open my $channel, '+<&', 3 or die "descriptor 3: $!\n";
{ open my $given, '+<&=', 3 }    # and closed with it

$| = 1;
while (read $channel, my $head, 8) {
    my ($length, $json_length) = unpack 'VV', $head;
    read $channel, $attachments, $length - 4;
    my $message = $json->decode(substr $attachments, 0, $json_length, '');
    my $result = $message->{method} eq 'call' && eval { call($message->{params}) };
    my $body = $result || '"error":' . $json->encode(failure($message, $@));
    my $text = '{"jsonrpc":"2.0","id":' . $json->encode($message->{id}) . ",$body}";
    my $frame = pack('VV', 4 + length($text) + length($attached), length $text) . $text . $attached;
    { select STDOUT; $| = 1 }    # flushes the output
    while (-S $channel && length $frame) { substr $frame, 0, syswrite($channel, $frame) // last, '' }
}
