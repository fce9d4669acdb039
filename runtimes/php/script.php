<?php
/* Comes before a script (auto_prepend_file): one without an opening tag would be printed, not
 * run. A PHP that is too old for the agent runs it unchanged. */
namespace Cloche\Agent;

use function file_get_contents;

if (\PHP_VERSION_ID >= 80100) {
    require __DIR__ . '/source.php';

    if (Source::lacksTag((string) file_get_contents($_SERVER['SCRIPT_FILENAME']))) {
        Source::offer(Source::tagged(file_get_contents($_SERVER['SCRIPT_FILENAME'])), $_SERVER['SCRIPT_FILENAME']);
        include Source::PATH;
        exit;
    }
}
