<?php
namespace Cloche\Agent;

use PhpToken;
use function array_filter, array_keys, array_slice, class_exists, count, error_get_last, extension_loaded, fclose, feof, fread, fwrite, getmypid, implode,
    ini_set, interface_exists, is_array, json_decode, json_encode, ob_start, pcntl_fork, pcntl_waitpid, posix_kill, preg_replace, set_error_handler,
    stream_select, stream_set_blocking, stream_socket_pair, trait_exists;

/**
 * PHP exits on a class that lacks a method, or a `break` outside loops, and all state of the cells
 * would be lost. So a forked child compiles such a cell first, declares its classes, and reports
 * the fatal error.
 */
final class Trial
{
    /** Tokens of code that PHP might not survive; other cells need no child. */
    private const RISKY = [T_CLASS, T_INTERFACE, T_TRAIT, T_ENUM, T_FUNCTION, T_FN, T_YIELD, T_YIELD_FROM, T_USE, T_CONST, T_GOTO];
    private const OUT_OF_LOOPS = [T_BREAK, T_CONTINUE];
    private const LOOPS = [T_FOR, T_FOREACH, T_WHILE, T_SWITCH];
    private const LAST_MAX = 65536;
    private const PATIENCE_S = 2; // limit for an autoloader of the user's

    /** @var ?resource in the child: the pipe for its report */
    private static $told = null;

    /** The fatal error that this text would cause, in the form of error_get_last(); null if none can be foreseen. */
    public static function fatal(string $text, string $filename): ?array
    {
        $tokens = @PhpToken::tokenize($text);
        $place = self::placeOfReturn($tokens);
        if ($place === null || !self::isRisky($tokens) || !extension_loaded('pcntl') || !extension_loaded('posix')) {
            return null;
        }
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $pid = $pair ? pcntl_fork() : -1;
        if ($pid === 0) {
            self::$told = $pair[1];
            self::compile($tokens, $place, $filename);
        }
        return $pid > 0 ? self::heard($pair, $pid) : null;
    }

    private static function isRisky(array $tokens): bool
    {
        $has = static fn (array $kinds) => (bool) array_filter($tokens, static fn ($token) => $token->is($kinds));
        return $has([...self::RISKY, '$this']) || ($has(self::OUT_OF_LOOPS) && !$has(self::LOOPS));
    }

    // ---- the parent ----

    private static function heard(array $pair, int $pid): ?array
    {
        fclose($pair[1]);
        stream_set_blocking($pair[0], false);
        $text = '';
        while (!feof($pair[0]) && self::isReadable($pair[0])) {
            $text .= fread($pair[0], self::LAST_MAX);
        }
        posix_kill($pid, SIGKILL);
        pcntl_waitpid($pid, $status);
        $last = json_decode($text, true);
        return is_array($last) && Errors::isFatal($last) ? $last : null;
    }

    private static function isReadable($stream): bool
    {
        $read = [$stream];
        $none = null;
        return (bool) @stream_select($read, $none, $none, self::PATIENCE_S);
    }

    // ---- the child ----

    /** Does not return. Nothing of the cell runs but code needed to declare its classes. */
    private static function compile(array $tokens, int $place, string $filename): never
    {
        ini_set('display_errors', '0');
        set_error_handler(null);
        ob_start();
        $before = implode('', array_slice($tokens, 0, $place));
        self::include("{$before}return;" . implode('', array_slice($tokens, $place)), $filename);
        self::include(self::declarations($tokens, $place), $filename);
        self::end();
    }

    private static function include(string $text, string $filename): void
    {
        try {
            Source::offer($text, $filename);
            (static fn () => include Source::PATH)();
        } catch (\Throwable) { // the cell will throw catchable errors itself
        }
    }

    /** Called when PHP ends: true in a trial child. */
    public static function died(): void
    {
        if (self::$told !== null) {
            fwrite(self::$told, (string) json_encode(error_get_last(), JSON_INVALID_UTF8_SUBSTITUTE));
            self::end();
        }
    }

    /** Without destructors and the like. */
    private static function end(): never
    {
        posix_kill(getmypid(), SIGKILL);
        exit;
    }

    // ---- its text ----

    /** The token before which a `return` may stand; null if there is none, or namespaces have braces. */
    private static function placeOfReturn(array $tokens): ?int
    {
        if (!($tokens[0] ?? null)?->is(T_OPEN_TAG)) {
            return null;
        }
        for ($i = $place = 1; isset($tokens[$i]); $i++) {
            if ($tokens[$i]->isIgnorable()) {
                continue;
            }
            if (!$tokens[$i]->is([T_DECLARE, T_NAMESPACE])) {
                break;
            }
            while (isset($tokens[$i]) && !$tokens[$i]->is([';', '{'])) {
                $i++;
            }
            if (!isset($tokens[$i]) || $tokens[$i]->is('{')) {
                return null;
            }
            $place = $i + 1;
        }
        return $place;
    }

    /** The classes that compiling has not declared yet, and the imports their names depend on. */
    private static function declarations(array $tokens, int $place): string
    {
        $kept = [];
        foreach (Cell::declarations($tokens) as [$kind, $name, $from, $to]) {
            if ($kind !== 'function' && !class_exists($name, false) && !interface_exists($name, false) && !trait_exists($name, false)) {
                $kept[] = [$from, $to];
            }
        }
        foreach (array_keys($tokens) as $i) {
            if ($i >= $place && $tokens[$i]->is(T_USE) && self::isStatement($tokens, $i)) {
                for ($to = $i; $to < count($tokens) - 1 && !$tokens[$to]->is(';'); $to++) {
                }
                $kept[] = [$i, $to];
            }
        }
        $text = implode('', array_slice($tokens, 0, $place));
        foreach (array_slice($tokens, $place, null, true) as $i => $token) {
            $isKept = (bool) array_filter($kept, static fn ($range) => $i >= $range[0] && $i <= $range[1]);
            $text .= $isKept ? $token->text : preg_replace('~[^\n]+~', ' ', $token->text);
        }
        return $text;
    }

    /** False for a closure, or a trait used in a class. */
    private static function isStatement(array $tokens, int $i): bool
    {
        $depth = 0;
        foreach (array_slice($tokens, 0, $i) as $token) {
            $depth += $token->is(['{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, '(']) ? 1 : ($token->is(['}', ')']) ? -1 : 0);
        }
        for ($i--; $i > 0 && $tokens[$i]->isIgnorable(); $i--) {
        }
        return $depth === 0 && $tokens[$i]->is([';', '}', T_OPEN_TAG]);
    }
}
