<?php
namespace Cloche\Agent;

use function array_is_list, array_map, array_shift, class_exists, count, error_get_last, extension_loaded, flush, implode, in_array, is_array,
    is_file, is_int, is_string, json_decode, json_encode, json_last_error, json_last_error_msg, ob_end_flush, ob_get_level,
    pcntl_signal_dispatch, register_shutdown_function, restore_error_handler, set_error_handler, set_time_limit, str_contains, substr;

/** Params that violate spec/agent.md. */
final class Invalid extends \Exception
{
}

final class LastWord
{
    public function __destruct()
    {
        Server::sendEnd();
    }
}

/**
 * Reads requests until the engine closes the channel, and answers them. `jobs` holds the files for
 * agent.php to include.
 */
final class Server
{
    use Requests;

    private const PARSE_ERROR = -32700;
    private const INVALID_REQUEST = -32600;
    private const NO_METHOD = -32601;
    private const INVALID_PARAMS = -32602;
    private const THREW = -32000;
    private const CANNOT_FORK = -32001;
    private const JSON_DEPTH = 4096;
    private const RESULT_BYTES = 1024;
    public const JSON_FLAGS = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;
    private const METHODS = ['call' => 'beginCall', 'run' => 'beginRun', 'prepare' => 'beginPrepare', 'freeze' => 'freeze'];
    private const OF_CONTEXTS = ['open', 'cell', 'describe', 'complete', 'inspect', 'isComplete', 'branch', 'enter']; // cells.php
    private const NOTEBOOK = '__cloche_notebook__'; // the variable by which set-up code requests a rehearsal of cells
    private const LIBRARY = __DIR__ . '/libcloche-guest.so'; // exists if the process is to be a template
    private const DEFAULTS = ['filename' => 'main.php', 'function' => null, 'args' => [], 'holes' => [], 'kwargs' => [],
        'order' => null, 'resultBytes' => 0, 'globals' => [], 'imports' => [], 'argv' => []];
    private const SHAPES = ['code' => 'is_string', 'filename' => 'is_string', 'args' => 'is_array', 'holes' => 'is_array',
        'kwargs' => 'is_array', 'resultBytes' => 'is_int', 'globals' => 'is_array', 'imports' => 'is_array', 'argv' => 'is_array'];

    private static Channel $channel;
    private static LastWord $lastWord;
    private static ?Template $template = null;
    public static bool $isOver = false;
    private static bool $isFrozen = false;
    /** True if the user's signal handlers run asynchronously, in user code. */
    private static bool $hasSignals = false;
    /** pcntl_async_signals, or its replacement if there is none. */
    private static string $setSignals = 'boolval';
    /** The unanswered request, or null. */
    private static ?array $request = null;
    /** @var array<array{string, string, \Closure}> text, file name, callback for the return value */
    private static array $jobs = [];

    public static function start(): void
    {
        self::$channel = new Channel();
        if (extension_loaded('pcntl')) {
            self::$setSignals = 'pcntl_async_signals';
        }
        register_shutdown_function(self::ended(...));
        self::$lastWord = new LastWord();
        if (is_file(self::LIBRARY)) {
            require __DIR__ . '/template.php';
            self::$template = new Template(self::LIBRARY);
            self::$template->warmUp();
        }
    }

    // ---- the loop ----

    /** True if there is a file to include. False: no request will come any more. */
    public static function next(): bool
    {
        while (!self::$jobs) {
            if (self::$isFrozen) {
                self::fork();
            }
            try {
                $frame = self::$channel->read();
            } catch (BadFrame $bad) {
                self::fail(null, self::PARSE_ERROR, $bad->getMessage());
                exit(1);
            }
            if ($frame === null) {
                self::$template === null || register_shutdown_function(self::$template->leave(...)); // after the user's
                self::$isOver = true;
                return false;
            }
            self::take(...$frame);
        }
        [$text, $filename] = self::$jobs[0];
        Source::offer($text, $filename);
        self::$hasSignals && self::allowSignals();
        return true;
    }

    /** In the template this ends when no more children are requested; the children go on. */
    private static function fork(): void
    {
        self::$isFrozen = false;
        $isTemplate = self::$template->children();
        self::$channel = new Channel();
        if (!$isTemplate && !self::$channel->hasInput()) {
            self::$template->rehearse();
            class_exists(Context::class, false) && Context::getReady();
        }
    }

    /** Called with the return value of the included file. */
    public static function ran(mixed $value): void
    {
        [, , $done] = array_shift(self::$jobs);
        $done($value);
    }

    public static function threw(\Throwable $error): void
    {
        self::$jobs = [];
        $filename = self::$request['filename'] ?? 'main.php';
        if (self::$request === null || self::$request['method'] === 'run' || !self::$channel->isMine()) {
            self::$request = null;
            Errors::hideAgent($error, $filename);
            throw $error; // PHP's own handling, or the user's exception handler
        }
        self::flush();
        if (self::$request['method'] === 'cell') {
            Context::threw($error, $filename);
            return;
        }
        $data = Errors::describe($error, $filename);
        self::answerError(self::THREW, $data['message'], $data + (self::$source === null ? [] : ['signatureSource' => self::$source]));
    }

    /**
     * The first of the shutdown functions: exit() and fatal errors end here. The user's own may
     * still print after an exit(); after a fatal error nothing is sure to run.
     */
    public static function ended(): void
    {
        class_exists(Trial::class, false) && Trial::died();
        if (Errors::isFatal(error_get_last())) {
            self::sendEnd();
        } else {
            register_shutdown_function(self::sendEnd(...));
        }
    }

    /** Also called by the destructor of LastWord, because a shutdown function that exits is the last one. */
    public static function sendEnd(): void
    {
        if (self::$request === null || self::$request['method'] === 'run' || !self::$channel->isMine()) {
            return;
        }
        self::flush();
        if (self::$request['method'] === 'cell') {
            Context::ended();
            return;
        }
        $data = Errors::describeEnd(error_get_last(), self::$request['method'] === 'prepare' ? 'set-up' : 'function');
        self::answerError(self::THREW, $data['message'], $data + (self::$source === null ? [] : ['signatureSource' => self::$source]));
    }

    // ---- requests ----

    private static function take(string $json, string $attachments): void
    {
        $message = json_decode($json, false, self::JSON_DEPTH);
        if (json_last_error() !== JSON_ERROR_NONE) {
            self::fail(null, self::PARSE_ERROR, 'not JSON: ' . json_last_error_msg());
            return;
        }
        if (!$message instanceof \stdClass || ($message->jsonrpc ?? null) !== '2.0' || !is_string($message->method ?? '')) {
            self::fail(null, self::INVALID_REQUEST, 'not a JSON-RPC 2.0 message');
            return;
        }
        $id = $message->id ?? null;
        if ($id === null || !isset($message->method)) {
            return;
        }
        if (!is_string($id) && !is_int($id)) {
            self::fail(null, self::INVALID_REQUEST, 'the id is neither string nor integer');
        } elseif (!isset(self::METHODS[$message->method]) && !in_array($message->method, self::OF_CONTEXTS, true)) {
            self::fail($id, self::NO_METHOD, "unknown method '" . substr($message->method, 0, 80) . "'");
        } else {
            self::begin($id, $message->method, $message->params ?? null, new Decoder($attachments, str_contains($json, '"ref"')));
        }
    }

    private static function begin(int|string $id, string $method, mixed $params, Decoder $decoder): void
    {
        self::$request = ['id' => $id, 'method' => $method];
        try {
            $isOfContext = !isset(self::METHODS[$method]);
            $isOfContext && require_once __DIR__ . '/cells.php';
            $request = $isOfContext ? Context::read($method, $params) : self::params($method, $params, $decoder);
        } catch (Invalid | Refused $error) {
            self::refuse($error);
            return;
        }
        self::$request += $request;
        try {
            $isOfContext ? Context::begin(self::$request) : self::{self::METHODS[$method]}(self::$request);
        } catch (Invalid $error) {
            self::refuse($error);
        } catch (\Throwable $error) {
            self::threw($error);
        }
    }

    private static function refuse(Invalid|Refused $error): void
    {
        $message = $error->getMessage();
        self::answerError(self::INVALID_PARAMS, $message, ['type' => 'TypeError', 'message' => $message, 'stack' => '']);
    }

    private static function params(string $method, mixed $params, Decoder $decoder): array
    {
        if (!$params instanceof \stdClass) {
            throw new Invalid('params must be an object');
        }
        $request = (array) $params + self::DEFAULTS + ($method === 'freeze' ? ['code' => ''] : []);
        foreach (['args', 'kwargs', 'globals', 'imports'] as $name) {
            try {
                $request[$name] = $decoder->decode($request[$name]);
            } catch (Refused $refused) {
                throw $refused->within($name);
            }
            if ($request[$name] instanceof \ArrayObject && $name !== 'args') { // {}
                $request[$name] = $request[$name]->getArrayCopy();
            }
        }
        $decoder->finish();
        $request['args'] = is_array($request['args']) && array_is_list($request['args']) ? $request['args'] : null;
        foreach (self::SHAPES as $name => $isRight) {
            if (!$isRight($request[$name] ?? null)) {
                throw new Invalid("params.$name is missing or of the wrong type");
            }
        }
        if (!is_string($request['function'] ?? '') || $request['function'] === '' || !is_array($request['order'] ?? [])) {
            throw new Invalid('params.function or params.order is of the wrong type');
        }
        return $request;
    }

    public static function include(string $text, string $filename, \Closure $done): void
    {
        self::$jobs[] = [$text, $filename, $done];
    }

    /** Set the variables that scripts read. */
    private static function introduce(array $request): void
    {
        $words = [$request['filename'], ...array_map('strval', $request['argv'])];
        $GLOBALS['argv'] = $_SERVER['argv'] = $words;
        $GLOBALS['argc'] = $_SERVER['argc'] = count($words);
        foreach (['PHP_SELF', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'PATH_TRANSLATED'] as $name) {
            $_SERVER[$name] = $request['filename'];
        }
        if ($request['globals'] || $request['imports']) {
            require_once __DIR__ . '/bridge.php';
            Bridge::declare($request['globals'], $request['imports'], self::include(...));
        }
    }

    private static function beginCall(array $request): void
    {
        self::$source = null;
        self::introduce($request);
        $text = Source::tagged($request['code']);
        $name = $request['function'];
        if ($name === null) {
            [$text, $functions] = Source::scanned($text);
            if (count($functions) > 1) {
                $names = implode(', ', $functions);
                throw Errors::at(new \Error("the code defines several public functions ($names): name one"), $request['filename']);
            }
            $name = $functions[0] ?? null;
        }
        if ($name === null) {
            if ($request['args'] || $request['kwargs']) {
                Unused::refuse(Source::tagged($request['code']), $request['filename']);
            }
            $GLOBALS['args'] = $request['args'];
            $GLOBALS['kwargs'] = $request['kwargs'];
        }
        self::$source = isset($request['order']) ? 'schema' : ($name === null ? 'convention' : 'inferred');
        $done = $name === null ? fn ($value) => self::sendResult($value) : fn () => self::call($name, $request);
        self::include($text, $request['filename'], $done);
    }

    private static function call(string $name, array $request): void
    {
        $target = Target::named($name, $request['filename']);
        self::$place = $target->place();
        self::sendResult($target->call($request['args'], $request['holes'], $request['kwargs'], $request['order']));
    }

    private static function beginRun(array $request): void
    {
        self::introduce($request);
        self::include(Source::tagged($request['code']), $request['filename'], static function () {
            self::$request = null;
            exit(0);
        });
    }

    private static function beginPrepare(array $request): void
    {
        self::introduce($request);
        self::include(Source::tagged($request['code']), $request['filename'], static function () {
            self::flush();
            if (isset($GLOBALS[self::NOTEBOOK])) {
                unset($GLOBALS[self::NOTEBOOK]);
                require_once __DIR__ . '/cells.php';
                Context::warmUp();
            }
            self::answer(['result' => new \stdClass()]);
        });
    }

    private static function freeze(): void
    {
        $blocker = self::$template ? self::$template->freeze(self::$channel) : 'this process was not started as a template';
        if ($blocker !== null) {
            self::answerError(self::CANNOT_FORK, $blocker);
            return;
        }
        self::$isFrozen = true;
        self::answer(['result' => new \stdClass()]);
    }

    // ---- responses ----

    /** Place of the called function, for messages about unsendable results. */
    private static ?string $place = null;
    /** Source of the called function's signature; null: not yet known. */
    private static ?string $source = null;

    private static function sendResult(mixed $value): void
    {
        $encoder = new Encoder(self::$request['resultBytes'] ?: self::RESULT_BYTES);
        $text = $encoder->encode($value, self::$place ?? self::$request['filename'] ?? '');
        self::flush();
        self::onlyMine();
        $id = json_encode(self::$request['id']);
        $result = "{\"signatureSource\":\"" . self::$source . "\",\"value\":$text}";
        self::send("{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}", $encoder->parts);
    }

    /** A process forked by user code ends where it would send a response. */
    public static function onlyMine(): void
    {
        if (!self::$channel->isMine()) {
            self::$request = null;
            exit(0);
        }
    }

    public static function isMine(): bool
    {
        return self::$channel->isMine();
    }

    public static function answerError(int $code, string $message, ?array $data = null): void
    {
        self::answer(['error' => ['code' => $code, 'message' => $message] + ($data === null ? [] : ['data' => $data])]);
    }

    public static function answer(array $what): void
    {
        self::send(json_encode(['jsonrpc' => '2.0', 'id' => self::$request['id'], ...$what], self::JSON_FLAGS));
    }

    /** Respond to a message that is no valid request. */
    private static function fail(int|string|null $id, int $code, string $message): void
    {
        self::$request = ['id' => $id];
        self::answerError($code, $message);
    }

    /** Signal handlers of the user's would otherwise run between two bytes of a frame. */
    private static function send(string $json, array $attachments = []): void
    {
        set_time_limit(0);
        for ($i = 0; $i < 2; $i++) {
            try {
                self::settle();
            } catch (\Throwable) {
            }
        }
        self::$request = null;
        self::$channel->send($json, $attachments);
    }

    /**
     * Disable the user's signal handlers: they would throw in the agent's code. A pending one
     * throws here, because PHP checks for signals when a function is entered.
     */
    public static function settle(): void
    {
        $hadSignals = (self::$setSignals)(false);
        self::$hasSignals = self::$hasSignals || $hadSignals;
        (static function () {
        })();
    }

    /** A signal that came meanwhile is pending: PHP would wait for the next. */
    private static function allowSignals(): void
    {
        (self::$setSignals)(true);
        extension_loaded('pcntl') && pcntl_signal_dispatch();
    }

    /** Enables handlers while the next included file of the user's runs. */
    public static function heedSignals(): void
    {
        self::$hasSignals = true;
    }

    /** File name for errors without a line in the code. */
    public static function nameRequest(string $filename): string
    {
        return self::$request['filename'] = $filename;
    }

    /** Output is flushed before the response is sent. */
    public static function flush(): void
    {
        set_error_handler(null); // the user's handler must not see the warning about a buffer that cannot be removed
        try {
            while (ob_get_level() > 0 && @ob_end_flush()) {
            }
            flush();
        } finally {
            restore_error_handler();
        }
    }
}
