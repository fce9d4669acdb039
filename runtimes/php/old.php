<?php
/* Replaces the agent if the image's PHP is too old: the response to every request is an error with the reason. */
namespace Cloche\Agent;

function read_all($channel, $size)
{
    $bytes = '';
    while (\strlen($bytes) < $size) {
        $more = \fread($channel, $size - \strlen($bytes));
        if ($more === '' || $more === false) {
            exit(0);
        }
        $bytes .= $more;
    }
    return $bytes;
}

function refuse($channel, $message)
{
    while (true) {
        $head = \unpack('Vsize/Vjson', read_all($channel, 8));
        $request = \json_decode(\substr(read_all($channel, $head['size'] - 4), 0, $head['json']), true);
        if (!isset($request['id'])) {
            continue;
        }
        $error = ['code' => -32000, 'message' => $message, 'data' => ['type' => 'UnsupportedVersion', 'message' => $message, 'stack' => '']];
        $json = \json_encode(['jsonrpc' => '2.0', 'id' => $request['id'], 'error' => $error]);
        \fwrite($channel, \pack('VV', \strlen($json) + 4, \strlen($json)) . $json);
        \fflush($channel);
    }
}

refuse(\fopen('php://fd/3', 'r+'), 'this image has PHP ' . \PHP_VERSION . ', and the agent needs PHP 8.1 or later: use an image with one (Debian 12 or later)');
