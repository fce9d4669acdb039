<?php
namespace Cloche\Agent;

use Cloche\{EndOfInput, Interrupt};
use function ceil, chdir, error_get_last, explode, extension_loaded, get_debug_type, get_object_vars, getmypid, hrtime, is_array, is_bool, is_dir,
    is_int, is_string, json_encode, max, min, mkdir, pcntl_signal, pcntl_signal_dispatch, preg_match, putenv, str_contains, substr, usleep;

require __DIR__ . '/rewrite.php';
require __DIR__ . '/trial.php';
require __DIR__ . '/printed.php';
require __DIR__ . '/displays.php';
require __DIR__ . '/names.php';
require __DIR__ . '/looks.php';
require __DIR__ . '/shell.php';
require __DIR__ . '/globals.php';

/** exit() in a cell. */
final class Left extends \Error
{
}

/** A persistent process: its cells run one after another in the global scope (spec/agent.md, Contexts). */
final class Context
{
    public const METHODS = ['open' => 'open', 'cell' => 'beginCell', 'describe' => 'describe', 'complete' => 'complete', 'inspect' => 'inspect',
        'isComplete' => 'isComplete', 'branch' => 'branch', 'enter' => 'branch'];
    private const INVALID_REQUEST = -32600;
    private const THREW = -32000;
    private const CANNOT_FORK = -32001;
    private const STORE_BYTES = 16 << 20;
    private const REQUIRED = ['open' => [], 'cell' => ['code' => 'is_string', 'count' => 'is_int'], 'complete' => ['code' => 'is_string', 'at' => 'is_int'],
        'inspect' => ['code' => 'is_string', 'at' => 'is_int', 'detail' => 'is_int'], 'isComplete' => ['code' => 'is_string']];
    private const OPTIONAL = ['open' => ['cwd' => [null, 'is_string'], 'env' => [[], 'is_array'], 'language' => ['php', 'is_string']],
        'cell' => ['filename' => [null, 'is_string'], 'storeBytes' => [self::STORE_BYTES, 'is_int'], 'silent' => [false, 'is_bool']]];
    private const LOOK_MS = 100;
    private const REHEARSALS = 5;
    private const REHEARSED = ['1 + 1;', '["a" => [1, "two", 3.5], "b" => null]', 'foreach ([1, 2] as $x) { $y = sprintf("%s", $x); } "x"',
        'new \ArrayObject([1])', 'strlen("a") . 1', 'nosuch();'];

    private static bool $isOpen = false;
    private static bool $isRunning = false;
    private static bool $isRehearsing = false;
    private static bool $isSilent = false;
    private static int $storeBytes = self::STORE_BYTES;

    // ---- requests ----

    /** Params with defaults filled in. */
    public static function read(string $method, mixed $params): array
    {
        if (!$params instanceof \stdClass) {
            throw new Invalid('params must be an object');
        }
        $request = get_object_vars($params);
        if (isset($request['env']) && $request['env'] instanceof \stdClass) {
            $request['env'] = get_object_vars($request['env']);
        }
        foreach (self::REQUIRED[$method] ?? [] as $name => $isRight) {
            if (!$isRight($request[$name] ?? null)) {
                throw new Invalid("params.$name is missing or of the wrong type");
            }
        }
        foreach (self::OPTIONAL[$method] ?? [] as $name => [$default, $isRight]) {
            $request[$name] ??= $default;
            if ($request[$name] !== $default && !$isRight($request[$name])) {
                throw new Invalid("params.$name is of the wrong type: " . get_debug_type($request[$name]));
            }
        }
        foreach (['count', 'at', 'storeBytes', 'detail'] as $name) {
            if (($request[$name] ?? 0) < 0) {
                throw new Invalid("params.$name is $request[$name]: less than 0");
            }
        }
        return $request;
    }

    public static function begin(array $request): void
    {
        $method = $request['method'];
        if ($method !== 'open' && !self::$isOpen) {
            Server::answerError(self::INVALID_REQUEST, "no context is open here: `open` comes before `$method`");
            return;
        }
        self::{self::METHODS[$method]}($request);
    }

    private static function branch(array $request): void
    {
        Server::answerError(self::CANNOT_FORK, 'contexts of PHP cannot be forked: this agent has no way to do that');
    }

    private static function open(array $request): void
    {
        $refusal = self::$isOpen ? [self::INVALID_REQUEST, 'a context is open here already', null] : self::place($request);
        if ($refusal === null && !extension_loaded('tokenizer')) {
            $refusal = [self::THREW, 'contexts of PHP need its extension tokenizer, which the image does not hold', 'missing_runtime'];
        }
        if ($refusal !== null) {
            [$code, $message, $type] = $refusal;
            Server::answerError($code, $message, $type === null ? null : ['type' => $type, 'message' => $message, 'stack' => '']);
            return;
        }
        self::$isOpen = true;
        self::ignoreInterrupts();
        Server::answer(['result' => ['pid' => getmypid(), 'interpreter' => 'PHP ' . \PHP_VERSION]]);
    }

    /** Set the directory and the environment of cells. Returns null, or [code, message, type] of the failure. */
    private static function place(array $request): ?array
    {
        if ($request['language'] !== 'php') {
            throw new Invalid("params.language is '" . substr($request['language'], 0, 80) . "': this is the agent of php");
        }
        foreach ($request['env'] as $name => $text) {
            if (!is_string($text) || !preg_match('~\A[^=\0]+\z~', (string) $name) || str_contains($text, "\0")) {
                throw new Invalid("params.env['" . substr((string) $name, 0, 80) . "'] is no variable of an environment: a name without =, and text, neither with NUL");
            }
        }
        foreach ($request['env'] as $name => $text) {
            putenv("$name=$text");
            $_SERVER[$name] = $text;
        }
        $cwd = $request['cwd'];
        if ($cwd !== null && !((is_dir($cwd) || @mkdir($cwd, 0777, true)) && @chdir($cwd))) {
            return [self::THREW, "the context cannot be in $cwd: " . (error_get_last()['message'] ?? ''), 'RuntimeException'];
        }
        return null;
    }

    private static function describe(array $request): void
    {
        Server::answer(['result' => ['variables' => Names::variables()]]);
    }

    private static function complete(array $request): void
    {
        Server::answer(['result' => Names::completions($request['code'], $request['at'])]);
    }

    private static function inspect(array $request): void
    {
        Server::answer(['result' => ['data' => (object) Looks::inspect($request['code'], $request['at'], $request['detail'] > 0)]]);
    }

    private static function isComplete(array $request): void
    {
        Server::answer(['result' => Looks::judge($request['code'])]);
    }

    // ---- a cell ----

    private static function beginCell(array $request): void
    {
        $filename = Server::nameRequest($request['filename'] ?? "Cell In[$request[count]]");
        self::$storeBytes = $request['storeBytes'];
        self::$isSilent = $request['silent'];
        [$text, $hasValue] = Cell::prepared($request['code'], $filename);
        $fatal = Trial::fatal($text, $filename);
        if ($fatal !== null) {
            $data = Errors::describeEnd($fatal, 'cell');
            self::fail($data['type'], $data['message'], explode("\n", $data['stack']));
            return;
        }
        Server::include($text, $filename, static fn (mixed $value) => self::finish($hasValue ? $value : null));
        self::heedInterrupts();
    }

    private static function finish(mixed $value): void
    {
        if ($value !== null && !self::$isSilent) {
            $GLOBALS['_'] = $value;
            Displays::show(Displays::of($value), [], true);
        }
        Server::flush();
        Server::onlyMine();
        self::answer(['status' => 'ok']);
    }

    public static function threw(\Throwable $error, string $filename): void
    {
        $data = Errors::describe($error, $filename);
        $error instanceof Left ? self::fail('ExitException', $data['message'], []) : self::fail($data['type'], $data['message'], explode("\n", $data['stack']));
    }

    /** The process ends: by a fatal error, or by an exit() that is not in a cell's text. */
    public static function ended(): void
    {
        $data = Errors::describeEnd(error_get_last(), 'cell');
        $lines = $data['stack'] === '' ? [] : explode("\n", $data['stack']);
        self::fail($data['type'], $data['message'], [...$lines, 'PHP has ended: what the cells had made is gone']);
    }

    private static function fail(string $name, string $message, array $lines): void
    {
        Server::flush();
        self::answer(['status' => 'error', 'error' => ['name' => $name, 'message' => $message, 'traceback' => $lines]]);
    }

    private static function answer(array $result): void
    {
        self::$isRunning = false;
        Server::answer(['result' => $result]);
        self::ignoreInterrupts();
    }

    // ---- interrupts ----

    /** SIGINT throws in the code of the cell. A pending one from before is dropped. */
    private static function heedInterrupts(): void
    {
        if (extension_loaded('pcntl')) {
            pcntl_signal(SIGINT, self::interrupt(...), false);
            pcntl_signal_dispatch();
        }
        self::$isRunning = true;
        Server::heedSignals();
    }

    private static function ignoreInterrupts(): void
    {
        extension_loaded('pcntl') && pcntl_signal(SIGINT, SIG_IGN);
    }

    private static function interrupt(): void
    {
        if (self::$isRunning) {
            throw new Interrupt('the cell was interrupted');
        }
    }

    // ---- output and input of a cell ----

    /**
     * False in a process that the cell forked, and for code that runs when PHP ends: their messages
     * have no receiver.
     */
    public static function mayTell(): bool
    {
        return self::$isRunning && Server::isMine();
    }

    public static function isRehearsing(): bool
    {
        return self::$isRehearsing;
    }

    public static function storeBytes(): int
    {
        return self::$storeBytes;
    }

    public static function input(string $prompt, bool $isPassword): string
    {
        if (!self::mayTell()) {
            throw new EndOfInput('input can only be asked for while a cell runs, by the process of the cell');
        }
        $params = json_encode(['prompt' => $prompt, 'password' => $isPassword], Server::JSON_FLAGS);
        $message = Server::askInterruptibly('input', $params);
        if (isset($message->error)) {
            throw new EndOfInput((string) ($message->error->data->message ?? $message->error->message ?? 'there is no input'));
        }
        $value = $message->result->value ?? null;
        return is_string($value) ? $value : throw new EndOfInput('the answer to input is ' . get_debug_type($value) . ', not text');
    }

    /** Replaces readline(). */
    public static function readLine(?string $prompt = null): string|false
    {
        try {
            return self::input((string) $prompt, false);
        } catch (EndOfInput) {
            return false;
        }
    }

    /** Replaces sleep(). */
    public static function sleep(int $seconds): int
    {
        return $seconds < 0 ? throw new \ValueError('sleep(): Argument #1 ($seconds) must be greater than or equal to 0')
            : (int) ceil(self::rest($seconds * 1e9) / 1e9);
    }

    /** Replaces usleep(). */
    public static function microSleep(int $microseconds): void
    {
        if ($microseconds < 0) {
            throw new \ValueError('usleep(): Argument #1 ($microseconds) must be greater than or equal to 0');
        }
        self::rest($microseconds * 1e3);
    }

    /**
     * Sleep in pieces, and handle signals between them. A handled signal ends the sleep; returns
     * the remaining time.
     */
    private static function rest(float $nanoseconds): float
    {
        for ($until = hrtime(true) + $nanoseconds; ($left = $until - hrtime(true)) > 0;) {
            self::heed();
            $piece = min($left, self::LOOK_MS * 1e6);
            $began = hrtime(true);
            usleep((int) ceil($piece / 1e3));
            if (hrtime(true) - $began < $piece - 1e6) {
                break;
            }
        }
        self::heed();
        return max(0, $until - hrtime(true));
    }

    /** PHP checks for signals when a function is entered. */
    private static function heed(): void
    {
    }

    /** Replaces exit(). */
    public static function leave(string|int $status = 0): never
    {
        if (is_string($status)) {
            echo $status;
        }
        throw new Left(is_string($status) ? 'exit() was called' : "exit($status) was called");
    }

    // ---- in a template ----

    /** Runs before the fork the code that cells need. */
    public static function warmUp(): void
    {
        for ($i = 0; $i < self::REHEARSALS; $i++) {
            self::rehearse(self::REHEARSED);
        }
        Names::variables();
        Names::completions('str', 3);
        Looks::inspect('strlen', 6, false);
        Looks::judge('if (1) {');
    }

    /** Runs in a child before its first request. */
    public static function getReady(): void
    {
        self::rehearse([self::REHEARSED[0]]);
    }

    /** @param string[] $codes each leaves nothing behind */
    private static function rehearse(array $codes): void
    {
        self::$isRehearsing = self::$isRunning = true;
        foreach ($codes as $code) {
            try {
                [$text] = Cell::prepared($code, 'Cell In[0]');
                Source::offer($text, 'Cell In[0]');
                Displays::show(Displays::of((static fn () => include Source::PATH)()), [], true);
            } catch (\Throwable $error) {
                Errors::describe($error, 'Cell In[0]');
            }
        }
        self::$isRehearsing = self::$isRunning = false;
    }
}
