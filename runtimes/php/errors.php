<?php
namespace Cloche\Agent;

use Cloche\HostError;
use function array_shift, explode, extension_loaded, get_class, in_array, intdiv, preg_match, preg_replace, str_starts_with, strlen, substr;
/** Exceptions as the caller sees them: as if the agent were part of PHP. */
final class Errors
{
    private const MESSAGE_MAX = 64 << 10;
    private const STACK_MAX = 256 << 10;
    private const FATAL = [E_ERROR => 'FatalError', E_CORE_ERROR => 'FatalError', E_USER_ERROR => 'FatalError',
        E_RECOVERABLE_ERROR => 'FatalError', E_PARSE => 'ParseError', E_COMPILE_ERROR => 'CompileError'];
    private const CALLED_IN = '~, called in ' . __DIR__ . '/\S+ on line \d+~';

    /** Extensions that an image may lack, their Debian packages, and the names they declare. */
    private const EXTENSIONS = [
        ['mbstring', 'php-mbstring', 'mb_'], ['sqlite3', 'php-sqlite3', 'SQLite3'], ['simplexml', 'php-xml', 'simplexml'],
        ['dom', 'php-xml', 'DOM|dom_import'], ['xmlreader', 'php-xml', 'XMLReader'], ['xmlwriter', 'php-xml', 'XMLWriter|xmlwriter_'],
        ['xml', 'php-xml', 'xml_'], ['bcmath', 'php-bcmath', 'bc(add|sub|mul|div|mod|pow|powmod|sqrt|comp|scale)$'],
        ['gmp', 'php-gmp', 'gmp'], ['curl', 'php-curl', 'curl'], ['zip', 'php-zip', 'ZipArchive'], ['gd', 'php-gd', 'image|gd_'],
        ['intl', 'php-intl', 'Intl|NumberFormatter|Collator|Normalizer|MessageFormatter|Transliterator|Locale|Spoofchecker|'
            . '(numfmt|collator|grapheme|normalizer|idn|transliterator|datefmt|msgfmt|locale)_'],
    ];

    /** @return array{type: string, message: string, stack: string} */
    public static function describe(\Throwable $error, string $filename): array
    {
        self::hideAgent($error, $filename);
        self::nameExtension($error);
        $type = $error instanceof HostError ? $error->name : self::className($error);
        if ($error->getLine() === 0) { // it happened in no line of the user's
            return self::data($type, $error->getMessage(), "$type: {$error->getMessage()}");
        }
        // Not the user's own __toString, which may do anything.
        $show = new \ReflectionMethod($error instanceof \Error ? \Error::class : \Exception::class, '__toString');
        return self::data($type, $error->getMessage(), $show->invoke($error));
    }

    private static function nameExtension(\Throwable $error): void
    {
        $message = $error->getMessage();
        if ($error instanceof \PDOException && $message === 'could not find driver') {
            self::set($error, 'message', "$message: the image's PHP has no pdo_sqlite (Debian: php-sqlite3)");
        }
        if (!$error instanceof \Error || !preg_match('~^(?:Call to undefined function |Class ")\\\\?(\w+)(?:\(\)|" not found)$~', $message, $found)) {
            return;
        }
        foreach (self::EXTENSIONS as [$extension, $package, $names]) {
            if (preg_match("~^(?:$names)~i", $found[1]) && !extension_loaded($extension)) {
                self::set($error, 'message', "$message: the image's PHP has no $extension (Debian: $package)");
                return;
            }
        }
    }

    public static function isFatal(?array $last): bool
    {
        return isset(self::FATAL[$last['type'] ?? 0]);
    }

    /** The reason why the process ends before the function returned: a fatal error, or exit(). */
    public static function describeEnd(?array $last, string $what): array
    {
        if (!self::isFatal($last)) {
            return self::data('ExitException', "exit() was called before the $what ended", '');
        }
        $type = self::FATAL[$last['type']];
        if (preg_match('~^Uncaught ([^\s:]+)(?:: (.*?))? in .*?:\d+\nStack trace:~s', $last['message'], $found)) {
            return self::data($found[1], $found[2] ?? '', $last['message']); // thrown by a handler where nothing could catch it
        }
        return self::data($type, $last['message'], "$type: $last[message] in $last[file]:$last[line]");
    }

    private static function data(string $type, string $message, string $stack): array
    {
        return [
            'type' => $type,
            'message' => self::shorten($message, self::MESSAGE_MAX),
            'stack' => self::shorten($stack, self::STACK_MAX),
        ];
    }

    private static function shorten(string $text, int $limit): string
    {
        if (strlen($text) <= $limit) {
            return $text;
        }
        $half = intdiv($limit, 2);
        return substr($text, 0, $half) . "\n... " . (strlen($text) - 2 * $half) . " bytes left out ...\n" . substr($text, -$half);
    }

    /** The name without the suffix that PHP adds to anonymous classes. */
    public static function className(object $value): string
    {
        return explode("\0", get_class($value))[0];
    }

    /** The same for a name of a type, as get_debug_type() returns it. */
    public static function shownType(string $type): string
    {
        return explode("\0", $type)[0];
    }

    /** Moves an error of the agent's to the user's function. */
    public static function at(\Error $error, string $file, int $line = 0): \Error
    {
        self::set($error, 'file', $file);
        self::set($error, 'line', $line);
        self::set($error, 'trace', []);
        return $error;
    }

    public static function hideAgent(\Throwable $error, string $filename): void
    {
        for ($seen = []; $error && !in_array($error, $seen, true); $error = $error->getPrevious()) {
            $seen[] = $error;
            self::hideIn($error, $filename);
        }
    }

    private static function hideIn(\Throwable $error, string $filename): void
    {
        $trace = $error->getTrace();
        if (self::isOurs($error->getFile())) {
            while ($trace && (!isset($trace[0]['file']) || self::isOurs($trace[0]['file']))) {
                array_shift($trace);
            }
            self::set($error, 'file', $trace[0]['file'] ?? $filename);
            self::set($error, 'line', $trace[0]['line'] ?? 0);
        }
        self::set($error, 'trace', self::userPart($trace));
        if ($error instanceof \TypeError) {
            self::set($error, 'message', preg_replace(self::CALLED_IN, '', $error->getMessage()) ?? $error->getMessage());
        }
    }

    /** PHP itself called the functions that the agent called; frames below are not the user's. */
    private static function userPart(array $trace): array
    {
        $kept = [];
        foreach ($trace as $frame) {
            if (self::isOurs($frame['class'] ?? '') || ($frame['function'] === 'include' && self::isOurs($frame['file'] ?? ''))) {
                if (isset($frame['file']) && !self::isOurs($frame['file'])) {
                    continue; // the user's code called a class of the agent's
                }
                break;
            }
            if (self::isOurs($frame['file'] ?? '')) {
                unset($frame['file'], $frame['line']);
            }
            $kept[] = $frame;
        }
        return $kept;
    }

    private static function isOurs(string $fileOrClass): bool
    {
        return str_starts_with($fileOrClass, __DIR__ . '/') || str_starts_with($fileOrClass, __NAMESPACE__ . '\\');
    }

    private static function set(\Throwable $error, string $name, mixed $value): void
    {
        $property = new \ReflectionProperty($error instanceof \Error ? \Error::class : \Exception::class, $name);
        $property->setValue($error, $value);
    }
}
