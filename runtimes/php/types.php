<?php
/* Types of the wire that PHP lacks. Each is sent back as it came, and user code may create one to send it. */
namespace Cloche;

use function array_key_exists, array_search, bin2hex, count, get_debug_type, intdiv, is_array, is_float, is_int, is_object,
    is_string, iterator_to_array, pack, preg_match, preg_replace, spl_object_id, sprintf, str_split, strlen, substr,
    substr_replace, unpack;

/** Bytes that are not text. A plain string is sent as text if it is UTF-8. */
final class Bytes implements \Stringable, \Countable
{
    public function __construct(private string $data)
    {
    }

    public function __toString(): string
    {
        return $this->data;
    }

    public function count(): int
    {
        return strlen($this->data);
    }
}

/** An integer of more than 64 bits, as its decimal digits: for gmp, bcmath or show. */
final class BigInt implements \Stringable
{
    public readonly string $digits;

    public function __construct(string|int $digits)
    {
        if (!preg_match('~^(0|-?[1-9][0-9]*)\z~', (string) $digits)) {
            throw new \ValueError('Cloche\BigInt takes the decimal digits of an integer');
        }
        $this->digits = (string) $digits;
    }

    public function __toString(): string
    {
        return $this->digits;
    }

    /** An int if it fits. */
    public static function fit(string $digits): int|self
    {
        $int = (int) $digits;
        return (string) $int === $digits ? $int : new self($digits);
    }
}

/** A map with keys of any type: neither "1" and 1 nor null and "" are one key. */
final class Map implements \ArrayAccess, \IteratorAggregate, \Countable
{
    private array $keys = [];
    private array $values = [];
    private int $made = 0;

    /** @param iterable<array{mixed, mixed}> $pairs */
    public function __construct(iterable $pairs = [])
    {
        foreach ($pairs as [$key, $value]) {
            $this[$key] = $value;
        }
    }

    /** The position of the key, found or new. Objects are compared by identity. */
    private function place(mixed $key): string
    {
        return match (true) {
            is_string($key) => "s$key",
            is_int($key) => "i$key",
            is_float($key) => 'f' . bin2hex(pack('E', $key)),
            is_object($key) => 'o' . spl_object_id($key),
            is_array($key) => 'a' . ($this->search($key) ?? $this->made),
            $key === null => 'n',
            default => get_debug_type($key) . (int) $key,
        };
    }

    private function search(array $key): ?string
    {
        $found = array_search($key, $this->keys, true);
        return $found === false ? null : substr($found, 1);
    }

    public function offsetExists(mixed $key): bool
    {
        return isset($this->values[$this->place($key)]);
    }

    public function offsetGet(mixed $key): mixed
    {
        return $this->has($key) ? $this->values[$this->place($key)] : throw new \OutOfBoundsException('no such key in the map');
    }

    public function offsetSet(mixed $key, mixed $value): void
    {
        $place = $this->place($key);
        $this->keys[$place] = $key;
        $this->values[$place] = $value;
        $this->made++;
    }

    public function offsetUnset(mixed $key): void
    {
        $place = $this->place($key);
        unset($this->keys[$place], $this->values[$place]);
    }

    public function has(mixed $key): bool
    {
        return array_key_exists($this->place($key), $this->keys);
    }

    public function getIterator(): \Generator
    {
        foreach ($this->keys as $place => $key) {
            yield $key => $this->values[$place];
        }
    }

    public function count(): int
    {
        return count($this->keys);
    }
}

/** A set of values of any type. */
final class Set implements \IteratorAggregate, \Countable
{
    private Map $items;

    public function __construct(iterable $items = [])
    {
        $this->items = new Map();
        foreach ($items as $item) {
            $this->add($item);
        }
    }

    public function add(mixed $item): void
    {
        $this->items[$item] = true;
    }

    public function has(mixed $item): bool
    {
        return $this->items->has($item);
    }

    public function remove(mixed $item): void
    {
        unset($this->items[$item]);
    }

    public function getIterator(): \Generator
    {
        foreach ($this->items as $item => $_) {
            yield $item;
        }
    }

    public function count(): int
    {
        return count($this->items);
    }
}

/** Numbers of one type in little endian order: `type` is one of i8 u8 u8c i16 u16 i32 u32 i64 u64 f32 f64. */
final class TypedArray implements \ArrayAccess, \IteratorAggregate, \Countable
{
    /** Format of pack, bytes, bits to sign-extend. */
    private const TYPES = [
        'i8' => ['c', 1, 0], 'u8' => ['C', 1, 0], 'u8c' => ['C', 1, 0], 'i16' => ['v', 2, 16], 'u16' => ['v', 2, 0],
        'i32' => ['V', 4, 32], 'u32' => ['V', 4, 0], 'i64' => ['P', 8, 0], 'u64' => ['P', 8, 0],
        'f32' => ['g', 4, 0], 'f64' => ['e', 8, 0],
    ];
    private string $data = '';

    /** @param iterable<int|float|BigInt> $numbers */
    public function __construct(public readonly string $type, iterable $numbers = [])
    {
        self::size($type);
        foreach ($numbers as $number) {
            $this->data .= $this->packed($number);
        }
    }

    public static function fromBytes(string $type, string $data): self
    {
        $array = new self($type);
        if (strlen($data) % self::size($type)) {
            throw new \ValueError(strlen($data) . " bytes are no whole number of $type");
        }
        $array->data = $data;
        return $array;
    }

    private static function size(string $type): int
    {
        return (self::TYPES[$type] ?? throw new \ValueError("typed array of unknown type '" . substr($type, 0, 80) . "'"))[1];
    }

    public function bytes(): string
    {
        return $this->data;
    }

    public function toArray(): array
    {
        return iterator_to_array($this);
    }

    private function packed(mixed $number): string
    {
        if (!is_int($number) && !is_float($number) && !$number instanceof BigInt) {
            throw new \TypeError('a number is wanted, not ' . get_debug_type($number));
        }
        $isFloat = $this->type[0] === 'f';
        $packed = pack(self::TYPES[$this->type][0], $number instanceof BigInt ? self::wrapped($number) : $number);
        [, $back] = unpack(self::TYPES[$this->type][0], $packed);
        if (!$isFloat && (string) $this->read($back) !== (string) $number) {
            throw new \RangeException("$number does not fit into $this->type");
        }
        return $packed;
    }

    /** The 64 bits of an integer from 2^63 to 2^64 - 1; other numbers become one that does not read back as them. */
    private static function wrapped(BigInt $number): int
    {
        $bits = 0;
        foreach (str_split($number->digits) as $digit) {
            $low = ($bits & 0xffffffff) * 10 + (int) $digit;
            $high = (($bits >> 32) & 0xffffffff) * 10 + ($low >> 32);
            $bits = ($high & 0xffffffff) << 32 | $low & 0xffffffff;
        }
        return $bits;
    }

    private function read(int|float $number): int|float|BigInt
    {
        $bits = self::TYPES[$this->type][2];
        if ($bits && $number >= 1 << ($bits - 1)) {
            return $number - (1 << $bits);
        }
        return $this->type === 'u64' && $number < 0 ? new BigInt(sprintf('%u', $number)) : $number;
    }

    public function getIterator(): \Generator
    {
        foreach ($this->data === '' ? [] : unpack(self::TYPES[$this->type][0] . '*', $this->data) as $number) {
            yield $this->read($number);
        }
    }

    public function count(): int
    {
        return intdiv(strlen($this->data), self::size($this->type));
    }

    public function offsetExists(mixed $index): bool
    {
        return is_int($index) && $index >= 0 && $index < count($this);
    }

    public function offsetGet(mixed $index): int|float|BigInt
    {
        return $this->read(unpack(self::TYPES[$this->type][0], $this->data, $this->at($index))[1]);
    }

    public function offsetSet(mixed $index, mixed $number): void
    {
        $at = $index === null ? strlen($this->data) : $this->at($index);
        $this->data = substr_replace($this->data, $this->packed($number), $at, self::size($this->type));
    }

    public function offsetUnset(mixed $index): void
    {
        throw new \LogicException('items of a typed array cannot be unset');
    }

    private function at(mixed $index): int
    {
        if (!isset($this[$index])) {
            throw new \OutOfRangeException('no such index in the typed array');
        }
        return $index * self::size($this->type);
    }
}

/** A date without a time, held as midnight UTC. */
final class Day extends \DateTimeImmutable
{
}

/** A time of no known zone, held in UTC, where each local time exists once. */
final class LocalTime extends \DateTimeImmutable
{
}

/** A regular expression, as text one for preg_match. Flags that PCRE lacks are kept without effect. */
final class Pattern implements \Stringable
{
    public function __construct(public readonly string $source, public readonly string $flags = '')
    {
    }

    public function __toString(): string
    {
        $source = preg_replace('/\\\\.(*SKIP)(*FAIL)|~/s', '\\~', $this->source);
        return "~$source~u" . preg_replace('/[^ims]/', '', $this->flags);
    }
}

/** An exception of a host function, or an error among the values. */
final class HostError extends \RuntimeException
{
    public function __construct(
        public readonly string $name,
        string $message,
        public array $fields = [],
        public ?string $stack = null,
    ) {
        parent::__construct($message);
    }
}
