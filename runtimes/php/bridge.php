<?php
namespace Cloche\Agent;

use Cloche\HostError;
use function array_filter, array_map, array_slice, array_values, count, define, defined, explode, function_exists, implode,
    preg_match, strrev, strtr;
/**
 * The host's declarations. A global is a variable and, where its name permits, a function or a
 * constant too, because functions do not see global variables. An import is a namespace.
 */
final class Bridge
{
    private const NAME = '[A-Za-z_\x80-\xff][\w\x80-\xff]*';
    private const ARGUMENTS_MAX = 1 << 30;
    /** @var string[][] the targets of the generated functions, by number */
    private static array $targets = [];

    /** @param \Closure $include takes the text of a module and its name */
    public static function declare(array $globals, array $imports, \Closure $include): void
    {
        foreach ($globals as $name => $declaration) {
            self::declareGlobal((string) $name, $declaration);
        }
        foreach ($imports as $specifier => $declaration) {
            if (isset($declaration['members'])) {
                self::declareNamespace((string) $specifier, $declaration['members']);
            }
        }
        foreach ($imports as $specifier => $declaration) {
            if (isset($declaration['source'])) {
                $include(Source::tagged($declaration['source']), (string) $specifier, static fn () => null);
            }
        }
    }

    private static function declareGlobal(string $name, array $declaration): void
    {
        $GLOBALS[$name] = self::made($declaration, ['global', $name]);
        if (preg_match('~^' . self::NAME . '\z~', $name)) {
            self::declareName($name, $declaration, ['global', $name], $GLOBALS[$name]);
        }
    }

    private static function declareNamespace(string $specifier, iterable $members): void
    {
        $space = strtr($specifier, '/.', '\\\\');
        if (!preg_match('~^' . self::NAME . '(\\\\' . self::NAME . ')*\z~', $space)) {
            throw new \TypeError("the import '$specifier' has no name that a namespace of PHP can have");
        }
        foreach ($members as $name => $declaration) {
            if (!preg_match('~^' . self::NAME . '\z~', (string) $name)) {
                throw new \TypeError("the member '$name' of the import '$specifier' has no name that PHP can have");
            }
            $target = ['import', $specifier, $name];
            self::declareName("$space\\$name", $declaration, $target, self::made($declaration, $target));
        }
    }

    /** @param string $name its parts are identifiers, possibly reserved ones */
    private static function declareName(string $name, array $declaration, array $target, mixed $value): void
    {
        if ($declaration['kind'] !== 'function') {
            defined($name) || define($name, $value);
            return;
        }
        if (function_exists($name)) {
            return;
        }
        self::$targets[] = $target;
        [$name, $space] = array_map('strrev', explode('\\', strrev($name), 2)) + [1 => ''];
        $number = count(self::$targets) - 1;
        $body = "return \\Cloche\\Agent\\Bridge::called($number, \$args);";
        Source::offer("<?php namespace $space { function $name(mixed ...\$args): mixed { $body } }", __FILE__);
        try {
            include Source::PATH;
        } catch (\ParseError) {
            return; // a reserved word
        }
    }

    private static function made(array $declaration, array $target): mixed
    {
        return match ($declaration['kind'] ?? null) {
            'function' => static fn (mixed ...$args) => self::call($target, $args),
            'value' => $declaration['value'] ?? null,
            'object' => new HostObject(self::members($declaration['members'], $target)),
            default => throw new \TypeError('the declaration of ' . self::shown($target) . ' has no meaning in PHP'),
        };
    }

    private static function members(iterable $declared, array $target): array
    {
        $members = [];
        foreach ($declared as $name => $declaration) {
            $members[$name] = self::made($declaration, [...$target, (string) $name]);
        }
        return $members;
    }

    // ---- calls ----

    public static function called(int $number, array $args): mixed
    {
        return self::call(self::$targets[$number], $args);
    }

    /** Exceptions get the place in the user's code that made the call. */
    private static function call(array $target, array $args): mixed
    {
        try {
            return self::ask($target, $args);
        } catch (\Throwable $error) {
            Errors::hideAgent($error, '');
            throw $error;
        }
    }

    private static function ask(array $target, array $args): mixed
    {
        $encoder = new Encoder(self::ARGUMENTS_MAX);
        try {
            $params = '{"target":' . $encoder->encode($target)
                . ',"args":' . $encoder->encode(array_values(array_filter($args, 'is_int', ARRAY_FILTER_USE_KEY)))
                . ',"kwargs":' . $encoder->encode(new \ArrayObject(array_filter($args, 'is_string', ARRAY_FILTER_USE_KEY))) . '}';
        } catch (\TypeError $error) {
            throw new \TypeError(self::shown($target) . ": {$error->getMessage()}");
        }
        [$message, $decoder] = Server::ask('bridge', $params, $encoder->parts);
        if (isset($message->error)) {
            throw self::error($message->error, $decoder);
        }
        return $decoder->decode($message->result->value ?? null);
    }

    private static function shown(array $target): string
    {
        return implode('.', array_slice($target, 1));
    }

    private static function error(\stdClass $error, Decoder $decoder): HostError
    {
        $fields = $decoder->decode($error->data->fields ?? []);
        return new HostError($error->data->name ?? 'Error', $error->data->message ?? $error->message ?? '',
            $fields instanceof \ArrayObject ? $fields->getArrayCopy() : $fields);
    }
}

/** A declared object: its functions are methods, its values properties. */
final class HostObject
{
    public function __construct(private array $members)
    {
    }

    public function __get(string $name): mixed
    {
        return $this->members[$name] ?? throw new \Error("The host's object has no \$$name");
    }

    public function __isset(string $name): bool
    {
        return isset($this->members[$name]);
    }

    public function __call(string $name, array $args): mixed
    {
        $member = $this->members[$name] ?? null;
        return $member instanceof \Closure ? $member(...$args) : throw new \Error("The host's object has no $name()");
    }
}
