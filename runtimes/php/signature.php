<?php
/* Without strict types: the host's arguments are converted as in a plain PHP file. */
namespace Cloche\Agent;

use function array_diff, array_key_exists, array_keys, array_map, array_pop, array_search, array_slice, array_values, count,
    enum_exists, implode, in_array, is_array, is_float, is_int, is_string, max;

/** The parameters of a function, and a request's arguments in the form it takes them. */
final class Signature
{
    /** @var \ReflectionParameter[] all but a variadic one */
    private array $parameters;
    private bool $isVariadic;

    /** @param string $name the caller's name for the function */
    public function __construct(private \ReflectionFunction $function, private string $name, private string $filename)
    {
        $this->isVariadic = $function->isVariadic();
        $this->parameters = $function->getParameters();
        if ($this->isVariadic) {
            array_pop($this->parameters);
        }
    }

    public function place(): string
    {
        return "$this->name ($this->filename, line " . ($this->function->getStartLine() ?: 0) . ')';
    }

    /**
     * Arguments by position, then those by name that a variadic parameter collects.
     * @param array<int, mixed> $placed by position, possibly with gaps
     */
    public function bind(array $placed, array $named, ?array $order): array
    {
        $rest = [];
        foreach ($named as $name => $value) {
            $place = $this->placeOf((string) $name, $order);
            if ($place === null) {
                $rest[$name] = $value;
            } elseif (array_key_exists($place, $placed)) {
                throw $this->wrong("Named parameter \$$name of {$this->shown()} overwrites previous argument");
            } else {
                $placed[$place] = $value;
            }
        }
        $count = $placed ? max(array_keys($placed)) + 1 : 0;
        $taken = count($this->parameters);
        if (!$this->isVariadic && $count > $taken) {
            throw $this->wrongCount('takes ' . ($taken ?: 'no') . " arguments, $count are given");
        }
        return [...$this->filled($placed, $count), ...$this->variadic($placed, $taken, $count), ...$rest];
    }

    /** Null: the variadic parameter takes it. */
    private function placeOf(string $name, ?array $order): ?int
    {
        foreach ($this->parameters as $place => $parameter) {
            if ($parameter->name === $name) {
                return $place;
            }
        }
        if ($this->isVariadic) {
            return null;
        }
        $place = array_search($name, $order ?? [], true);
        return $place === false ? throw $this->wrong("Unknown named parameter \$$name of {$this->shown()}") : $place;
    }

    /** Up to the last given one: PHP fills in the defaults of later ones. */
    private function filled(array $placed, int $count): array
    {
        $values = [];
        foreach ($this->parameters as $place => $parameter) {
            if (array_key_exists($place, $placed)) {
                $values[] = self::fit($placed[$place], $parameter->getType());
            } elseif (!$parameter->isOptional()) {
                throw $this->wrongCount("is missing its argument \$$parameter->name (position $place)");
            } elseif ($place >= $count) {
                break;
            } elseif (!$parameter->isDefaultValueAvailable()) {
                throw $this->wrongCount("has no default for its argument \$$parameter->name (position $place)");
            } else {
                $values[] = $parameter->getDefaultValue();
            }
        }
        return $values;
    }

    private function variadic(array $placed, int $first, int $count): array
    {
        $values = [];
        for ($place = $first; $place < $count; $place++) {
            if (!array_key_exists($place, $placed)) {
                throw $this->wrongCount("is missing the argument at position $place");
            }
            $values[] = $placed[$place];
        }
        return $values;
    }

    private function shown(): string
    {
        $names = array_map(fn ($parameter) => "\$$parameter->name", $this->parameters);
        foreach ($this->isVariadic ? array_slice($this->function->getParameters(), -1) : [] as $last) {
            $names[] = "...\$$last->name";
        }
        return "$this->name(" . implode(', ', $names) . ')';
    }

    private function wrongCount(string $what): \Error
    {
        return $this->wrong($this->shown() . ' ' . $what, \ArgumentCountError::class);
    }

    /** At the function's declaration, in PHP's words. */
    private function wrong(string $message, string $class = \Error::class): \Error
    {
        $file = $this->function->getFileName() ?: $this->filename;
        return Errors::at(new $class($message), $file, $this->function->getStartLine() ?: 0);
    }

    // ---- types that the wire does not have ----

    /**
     * Converts an object of the wire to an object or an array, a date to a mutable one, a value or
     * name to a case of an enum.
     */
    private static function fit(mixed $value, ?\ReflectionType $type): mixed
    {
        if ($type === null || $value === null || is_float($value)) {
            return $value;
        }
        if (is_string($value) || is_int($value)) {
            $isClass = $type instanceof \ReflectionNamedType && !$type->isBuiltin();
            return $isClass && enum_exists($type->getName()) ? self::enumCase($type->getName(), $value) : $value;
        }
        $names = self::namesOf($type);
        return match (true) {
            $value instanceof \ArrayObject => self::fitObject($value, $names),
            is_array($value) => $names === ['object'] || $names === ['stdClass'] ? (object) $value : $value,
            $value instanceof \DateTimeImmutable => $names === ['DateTime'] ? \DateTime::createFromInterface($value) : $value,
            default => $value,
        };
    }

    /** @return string[] of classes and types, without null */
    private static function namesOf(\ReflectionType $type): array
    {
        $types = $type instanceof \ReflectionNamedType ? [$type] : $type->getTypes();
        $names = array_map(fn ($one) => $one instanceof \ReflectionNamedType ? $one->getName() : '', $types);
        return array_values(array_diff($names, ['null']));
    }

    private static function fitObject(\ArrayObject $value, array $names): array|object
    {
        return match (true) {
            in_array('array', $names, true) => $value->getArrayCopy(),
            in_array('stdClass', $names, true) => (object) $value->getArrayCopy(),
            default => $value,
        };
    }

    private static function enumCase(string $enum, string|int $value): \UnitEnum
    {
        foreach ($enum::cases() as $case) {
            if ((string) ($case->value ?? $case->name) === (string) $value) {
                return $case;
            }
        }
        throw new \ValueError((is_string($value) ? "\"$value\"" : $value) . " is not a valid value of enum $enum");
    }
}
