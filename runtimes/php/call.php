<?php
namespace Cloche\Agent;

use function array_diff_key, array_filter, array_flip, count, explode, function_exists, get_defined_functions, implode, reset,
    str_contains, str_ends_with, str_replace, strtolower, substr;

/** A function of the code, found by its name: `f`, `Space\f`, `Class::method`, `$variable`, `$object->method`. */
final class Target
{
    private Signature $signature;

    private function __construct(private \Closure $closure, string $name, string $filename)
    {
        $this->signature = new Signature(new \ReflectionFunction($closure), $name, $filename);
    }

    /** "f (main.php, line 3)" */
    public function place(): string
    {
        return $this->signature->place();
    }

    public static function named(string $name, string $filename): self
    {
        $callable = match (true) {
            $name[0] === '$' => self::variable(substr($name, 1), $filename),
            str_contains($name, '::') => $name,
            function_exists($name) => $name,
            ($GLOBALS[$name] ?? null) instanceof \Closure => $GLOBALS[$name],
            default => self::inNamespace($name, $filename) ?? throw self::missing($name, $filename),
        };
        try {
            return new self(\Closure::fromCallable($callable), $name, $filename);
        } catch (\TypeError $error) {
            $message = str_replace('Failed to create closure from callable', "'$name' cannot be called", $error->getMessage());
            throw Errors::at(new \Error($message), $filename);
        }
    }

    private static function variable(string $name, string $filename): mixed
    {
        [$name, $method] = explode('->', $name, 2) + [1 => null];
        $value = $GLOBALS[$name] ?? throw self::missing("\$$name", $filename);
        return $method === null ? $value : [$value, $method];
    }

    /** The code may be in a namespace that its caller does not name. */
    private static function inNamespace(string $name, string $filename): ?string
    {
        $tail = '\\' . strtolower($name);
        $fits = array_filter(self::defined($filename), fn ($known) => str_ends_with(strtolower($known), $tail));
        return count($fits) === 1 ? reset($fits) : null;
    }

    /** Names of the functions in the code. */
    private static function defined(string $filename): array
    {
        $names = [];
        foreach (get_defined_functions()['user'] as $name) {
            $function = new \ReflectionFunction($name);
            if ($function->getFileName() === $filename) {
                $names[] = $function->name;
            }
        }
        return $names;
    }

    private static function missing(string $name, string $filename): \Error
    {
        $known = implode(', ', self::defined($filename)) ?: 'none';
        return Errors::at(new \Error("Call to undefined function $name(): the code defines $known"), $filename);
    }

    /**
     * @param int[] $holes omitted positions in args
     * @param ?string[] $order names of the caller's schema
     */
    public function call(array $args, array $holes, array $named, ?array $order): mixed
    {
        $given = $this->signature->bind(array_diff_key($args, array_flip($holes)), $named, $order);
        return ($this->closure)(...$given);
    }
}
