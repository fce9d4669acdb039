<?php
/* Cloche's PHP agent: answers requests on descriptor 3 (spec/agent.md). The user's code is
 * included from here only, because only an include at the top of a file has the global scope. So
 * this file has no variable but the one that holds the exception, and that one is gone before
 * other code runs. */
namespace Cloche\Agent;

// Any version of PHP can read this file and old.php.
if (\PHP_VERSION_ID < 80100) {
    require __DIR__ . '/old.php';
    exit(0);
}

require __DIR__ . '/types.php';
require __DIR__ . '/source.php';
require __DIR__ . '/channel.php';
require __DIR__ . '/values-encode.php';
require __DIR__ . '/values-decode.php';
require __DIR__ . '/call.php';
require __DIR__ . '/signature.php';
require __DIR__ . '/errors.php';
require __DIR__ . '/requests.php';
require __DIR__ . '/unused.php';
require __DIR__ . '/serve.php';

Server::start();
while (!Server::$isOver) {
    try {
        Server::next() && Server::ran(include Source::PATH);
    } catch (\Throwable $thrown) {
        try {
            Server::settle();
        } catch (\Throwable $late) {
        }
        try {
            Server::settle(); // the first may have been interrupted as it began
        } catch (\Throwable $late) {
        }
        unset($late);
        Server::threw($thrown);
        unset($thrown);
    }
}
