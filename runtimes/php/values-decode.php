<?php
namespace Cloche\Agent;

use Cloche\{BigInt, Bytes, Day, HostError, LocalTime, Map, Pattern, Set, TypedArray};
use function array_column, array_diff, array_is_list, array_key_exists, array_keys, array_map, base64_decode, base64_encode,
    checkdate, count, implode, in_array, is_array, is_finite, is_float, is_int, is_object, is_scalar, is_string, max, preg_match,
    preg_replace, restore_error_handler, set_error_handler, sort, strlen, substr;
/** The wire to PHP (spec/values.md): from the result of json_decode, its objects as stdClass, to the user's values. */
final class Decoder
{
    private const STRING_MAX = 256 << 20;
    private const ATTACHMENTS_MAX = 65536;
    private const NUMBERS = ['NaN' => NAN, 'Infinity' => INF, '-Infinity' => -INF, '-0' => -0.0];
    private const CLOCK = '([01]\d|2[0-3]):[0-5]\d';
    /** Year, month, day, hour, fraction, zone, hour of its offset. */
    private const DATE = '~^(\d{4})-(\d\d)-(\d\d)(?:T' . self::CLOCK . ':[0-5]\d(?:\.(\d{1,9}))?(Z|[+-]' . self::CLOCK . ')?)?\z~';

    private array $ranges = [];
    /** Containers in the order in which they open; an array that is still open is null. */
    private array $opened = [];

    /** @param bool $hasReferences whether containers must be numbered */
    public function __construct(private string $attachments, private bool $hasReferences = false)
    {
    }

    /** One value: references are numbered from its start. */
    public function decode(mixed $node): mixed
    {
        $this->opened = [];
        return $this->one($node, 0);
    }

    private function one(mixed $node, int $depth): mixed
    {
        if (is_string($node)) {
            return strlen($node) <= self::STRING_MAX ? $node : throw new Refused('string over ' . self::STRING_MAX . ' bytes');
        }
        if (is_int($node)) {
            return Encoder::isSafe($node) ? $node : throw new Refused('integer outside the safe range must be a bigint');
        }
        if (is_float($node)) {
            return is_finite($node) ? $node : throw new Refused('number is too large');
        }
        if (is_array($node)) {
            $number = $this->open();
            return $this->close($number, $this->items($node, $depth));
        }
        if (is_object($node)) {
            $fields = (array) $node;
            return array_key_exists('$', $fields) ? $this->tagged($fields, $depth) : $this->object($fields, $depth);
        }
        return $node;
    }

    // ---- containers ----

    private function open(?object $value = null): int
    {
        if ($this->hasReferences) {
            $this->opened[] = $value;
        }
        return count($this->opened) - 1;
    }

    private function close(int $number, array $value): array
    {
        if ($this->hasReferences) {
            $this->opened[$number] = $value;
        }
        return $value;
    }

    private function deeper(int $depth): int
    {
        return $depth < Encoder::DEPTH_MAX ? $depth + 1 : throw new Refused('nested deeper than ' . Encoder::DEPTH_MAX);
    }

    private function items(array $nodes, int $depth): array
    {
        $depth = $this->deeper($depth);
        $items = [];
        foreach ($nodes as $key => $node) {
            try {
                $items[$key] = $this->one($node, $depth);
            } catch (Refused $refused) {
                throw $refused->within($key);
            }
        }
        return $items;
    }

    /**
     * An array, as PHP code expects. An ArrayObject only if the array would be sent back as a list:
     * without keys, or with the keys of a list.
     */
    private function object(array $fields, int $depth): array|\ArrayObject
    {
        if (!array_is_list($fields)) {
            $number = $this->open();
            return $this->close($number, $this->items($fields, $depth));
        }
        $object = new \ArrayObject([], \ArrayObject::ARRAY_AS_PROPS);
        $this->open($object);
        $object->exchangeArray($this->items($fields, $depth));
        return $object;
    }

    private function tagged(array $fields, int $depth): mixed
    {
        if (!is_string($fields['$'])) {
            throw new Refused('unknown kind that is no string');
        }
        return match ($fields['$']) {
            'number' => self::NUMBERS[$this->only($fields, 'is_string')] ?? throw new Refused('number of an unknown name'),
            'undefined', 'hole' => $this->fields($fields, []),
            'bigint' => $this->integer($this->only($fields, 'is_string')),
            'bytes', 'buffer' => new Bytes($this->attached($fields, [])),
            'array' => $this->typed($fields),
            'date' => $this->date($fields),
            'set' => $this->set($this->only($fields, 'is_array'), $depth),
            'map' => $this->map($this->pairs($fields), $depth),
            'object' => $this->escaped($this->pairs($fields), $depth),
            'ref' => $this->reference($fields),
            'regexp' => $this->pattern($fields),
            'error' => $this->error($fields, $depth),
            'class' => $this->carried($fields, $depth),
            'utf16' => throw new Refused('string with a lone surrogate cannot be held by PHP'),
            default => throw new Refused("unknown kind '" . substr($fields['$'], 0, 80) . "'"),
        };
    }

    private function set(array $nodes, int $depth): Set
    {
        $depth = $this->deeper($depth);
        $set = new Set();
        $this->open($set);
        foreach ($nodes as $index => $node) {
            try {
                $item = $this->one($node, $depth);
                if (is_scalar($item) && $set->has($item)) {
                    throw new Refused('an item of a set is there twice');
                }
                $set->add($item);
            } catch (Refused $refused) {
                throw $refused->within($index);
            }
        }
        return $set;
    }

    private function map(array $pairs, int $depth): Map
    {
        $depth = $this->deeper($depth);
        $map = new Map();
        $this->open($map);
        foreach ($pairs as $index => [$keyNode, $node]) {
            try {
                $key = $this->one($keyNode, $depth);
                if (is_scalar($key) && $map->has($key)) {
                    throw new Refused('a key of a map is there twice');
                }
                $map[$key] = $this->one($node, $depth);
            } catch (Refused $refused) {
                throw $refused->within($index);
            }
        }
        return $map;
    }

    private function escaped(array $pairs, int $depth): array|\ArrayObject
    {
        $fields = [];
        foreach ($pairs as [$key, $node]) {
            if (!is_string($key)) {
                throw new Refused('object has a key that is not a string');
            }
            if (array_key_exists($key, $fields)) {
                throw new Refused("object has the key '" . substr($key, 0, 80) . "' twice");
            }
            $fields[$key] = $node;
        }
        return $this->object($fields, $depth);
    }

    /** Arrays of PHP are values: a shared one is copied, and one cannot contain itself. */
    private function reference(array $fields): mixed
    {
        $this->fields($fields, ['n']);
        $number = $fields['n'];
        if (!is_int($number) || $number < 0 || $number >= count($this->opened)) {
            throw new Refused('reference to what is not opened before it');
        }
        return $this->opened[$number] ?? throw new Refused('an array that holds itself cannot be held in PHP');
    }

    private function carried(array $fields, int $depth): mixed
    {
        $this->fields($fields, ['t', 'v']);
        if (!is_string($fields['t']) || !preg_match('~^[A-Za-z]{1,64}\z~', $fields['t'])) {
            throw new Refused('class of a name that cannot be one');
        }
        $number = $this->open();
        $value = $this->one($fields['v'], $this->deeper($depth));
        if ($this->hasReferences) {
            $this->opened[$number] = $value;
        }
        return $value;
    }

    private function error(array $fields, int $depth): HostError
    {
        $told = (array) $this->only($fields, 'is_object');
        $depth = $this->deeper($depth);
        foreach ($told + ['name' => null, 'message' => null] as $name => $value) {
            if ($name !== 'fields' && (!in_array($name, ['name', 'message', 'stack'], true) || !is_string($value))) {
                throw new Refused("error has a wrong $name");
            }
        }
        $error = new HostError($told['name'], $told['message'], stack: $told['stack'] ?? null);
        $this->open($error);
        if (array_key_exists('fields', $told)) {
            $error->fields = $this->errorFields($told['fields'], $depth);
        }
        return $error;
    }

    private function errorFields(mixed $node, int $depth): array
    {
        $fields = is_object($node) ? (array) $node : throw new Refused('error has wrong fields');
        if (($fields['$'] ?? 'object') !== 'object') {
            throw new Refused('error has wrong fields');
        }
        if (!array_key_exists('$', $fields)) {
            return $this->items($fields, $depth - 1);
        }
        $plain = new self($this->attachments);
        $plain->escaped(array_map(fn ($pair) => [$pair[0], null], $this->pairs($fields)), 0); // its keys are valid
        return $this->items(array_column($this->pairs($fields), 1, 0), $depth - 1);
    }

    // ---- leaves ----

    private function fields(array $fields, array $names): void
    {
        if (count($fields) !== count($names) + 1 || array_diff($names, array_map('strval', array_keys($fields)))) {
            throw new Refused($fields['$'] . ' must have exactly the fields ' . (implode(', ', $names) ?: 'none'));
        }
    }

    private function only(array $fields, callable $isRight): mixed
    {
        $this->fields($fields, ['v']);
        return $isRight($fields['v']) ? $fields['v'] : throw new Refused($fields['$'] . ' has a wrong value');
    }

    private function pairs(array $fields): array
    {
        $pairs = $this->only($fields, 'is_array');
        foreach ($pairs as $pair) {
            if (!is_array($pair) || count($pair) !== 2) {
                throw new Refused($fields['$'] . ' must be a list of pairs');
            }
        }
        return $pairs;
    }

    private function integer(string $digits): int|BigInt
    {
        if (!preg_match('~^(0|-?[1-9][0-9]*)\z~', $digits)) {
            throw new Refused('bigint that is no integer');
        }
        return BigInt::fit($digits);
    }

    private function attached(array $fields, array $more): string
    {
        if (array_key_exists('b64', $fields)) {
            $this->fields($fields, ['b64', ...$more]);
            $data = is_string($fields['b64']) ? base64_decode($fields['b64'], true) : false;
            return $data !== false && base64_encode($data) === $fields['b64'] ? $data : throw new Refused('bytes are not base64');
        }
        $this->fields($fields, ['at', 'n', ...$more]);
        ['at' => $at, 'n' => $size] = $fields;
        if (!is_int($at) || !is_int($size) || $at < 0 || $size < 0) {
            throw new Refused('attachment range is not a pair of sizes');
        }
        if ($at + $size > strlen($this->attachments)) {
            throw new Refused('attachment range is outside the frame');
        }
        $this->ranges[] = [$at, $size];
        if (count($this->ranges) > self::ATTACHMENTS_MAX) {
            throw new Refused('more than ' . self::ATTACHMENTS_MAX . ' attachments');
        }
        return substr($this->attachments, $at, $size);
    }

    /** Called after the last value of a frame. */
    public function finish(): void
    {
        sort($this->ranges);
        $end = 0;
        foreach ($this->ranges as [$at, $size]) {
            if ($at < $end && $size) {
                throw new Refused('attachment ranges overlap');
            }
            $end = max($end, $at + $size);
        }
    }

    private function typed(array $fields): TypedArray
    {
        $data = $this->attached($fields, ['t']);
        try {
            return TypedArray::fromBytes(is_string($fields['t']) ? $fields['t'] : '', $data);
        } catch (\ValueError $error) {
            throw new Refused($error->getMessage());
        }
    }

    private function date(array $fields): ?\DateTimeImmutable
    {
        $this->fields($fields, ['v']);
        if ($fields['v'] === null) {
            return null;
        }
        $text = is_string($fields['v']) ? $fields['v'] : '';
        $isOne = preg_match(self::DATE, $text, $found, PREG_UNMATCHED_AS_NULL);
        if (!$isOne || !checkdate((int) $found[2], (int) $found[3], (int) $found[1])) {
            throw new Refused("date '" . substr($text, 0, 80) . "'");
        }
        // PHP's dates hold microseconds; C++ and Ruby send nanoseconds.
        $text = preg_replace('~(\.\d{6})\d+~', '$1', $text);
        $utc = new \DateTimeZone('UTC');
        return match (true) {
            $found[4] === null => new Day($text, $utc),
            $found[6] === null => new LocalTime($text, $utc),
            $found[6] === 'Z' => new \DateTimeImmutable(substr($text, 0, -1), $utc),
            default => new \DateTimeImmutable($text),
        };
    }

    private function pattern(array $fields): Pattern
    {
        $this->fields($fields, ['source', 'flags']);
        ['source' => $source, 'flags' => $flags] = $fields;
        if (!is_string($source) || !is_string($flags) || !preg_match('~^(?!.*(.).*\1)[dgimsuvy]*\z~s', $flags)) {
            throw new Refused('regexp has a wrong source or flags');
        }
        $pattern = new Pattern($source, $flags);
        set_error_handler(fn () => true);
        $isOne = preg_match((string) $pattern, '') !== false;
        restore_error_handler();
        return $isOne ? $pattern : throw new Refused('regexp is none in PHP');
    }
}
