<?php
namespace Cloche\Agent;

use Cloche\{BigInt, Bytes, Day, HostError, LocalTime, Map, Pattern, Set, TypedArray};
use function array_filter, array_flip, array_is_list, array_map, array_unshift, count, fdiv, get_debug_type, get_object_vars, implode,
    ini_get, ini_set, is_array, is_bool, is_callable, is_float, is_infinite, is_int, is_nan, is_object, is_string, iterator_to_array,
    json_encode, preg_match, preg_replace, spl_object_id, str_contains, str_split, strlen, substr;
/** A value that cannot be sent; every container adds its step to the path while this passes. */
final class Refused extends \Exception
{
    private const PATH_ENDS = 100;
    private array $steps = [];

    public function __construct(private string $what)
    {
        parent::__construct($what);
    }

    public function within(int|string $step): self
    {
        array_unshift($this->steps, match (true) {
            is_int($step) => "[$step]",
            preg_match('~^[A-Za-z_]\w*\z~', $step) === 1 => ".$step",
            default => "['" . substr($step, 0, 80) . "']",
        });
        $path = implode('', $this->steps);
        // Both ends identify the place well enough.
        if (strlen($path) > 2 * self::PATH_ENDS) {
            $path = preg_replace('~(?<=^.{' . self::PATH_ENDS . '}).*(?=.{' . self::PATH_ENDS . '}$)~su', '…', $path) ?? $path;
        }
        $this->message = '$' . $path . ': ' . $this->what;
        return $this;
    }

    public function told(): string
    {
        return $this->steps ? $this->message : '$: ' . $this->what;
    }
}

final class TooLarge extends \Exception
{
}

/** PHP to the wire (spec/values.md): the JSON text of a value, and its attachments. */
final class Encoder
{
    private const SAFE = (1 << 53) - 1;
    public const DEPTH_MAX = 200;
    private const STRING_MAX = 256 << 20;
    private const ATTACHMENTS_MAX = 65536;
    private const WAY_OUT = 'return its data, or let its class be JsonSerializable';
    private const FLAGS = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;

    /** @var string[] */
    public array $parts = [];
    private int $attached = 0;
    private int $spent = 0;
    private array $open = [];
    private array $classes = [];

    public function __construct(private int $limit)
    {
    }

    /** Messages about unsendable values use PHP's own terms. place: of the function that returned the value. */
    public function encode(mixed $value, string $place = ''): string
    {
        $precision = ini_get('serialize_precision');
        ini_set('serialize_precision', -1);
        try {
            return $this->value($value, 0);
        } catch (Refused $refused) {
            throw new \TypeError($refused->told() . ($place === '' ? '' : "; returned by $place"));
        } catch (TooLarge) {
            throw new \ValueError("what is to be sent is over the limit of $this->limit bytes");
        } finally {
            ini_set('serialize_precision', $precision);
        }
    }

    private function value(mixed $value, int $depth): string
    {
        if (is_string($value)) {
            return $this->text($value);
        }
        if (is_int($value)) {
            return $this->spend(self::isSafe($value) ? (string) $value : $this->tag('bigint', (string) $value));
        }
        if (is_array($value)) {
            return array_is_list($value) ? $this->items($value, $depth) : $this->pairs($value, $depth);
        }
        if (is_float($value)) {
            return $this->spend($this->real($value));
        }
        if (is_bool($value)) {
            return $this->spend($value ? 'true' : 'false');
        }
        if ($value === null) {
            return $this->spend('null');
        }
        return is_object($value) ? $this->object($value, $depth) : throw new Refused(get_debug_type($value) . ' cannot be sent: return its data');
    }

    public static function isSafe(int $value): bool
    {
        return $value >= -self::SAFE && $value <= self::SAFE;
    }

    private function spend(string $text): string
    {
        $this->spent += strlen($text);
        if ($this->spent + $this->attached > $this->limit) {
            throw new TooLarge();
        }
        return $text;
    }

    private function tag(string $kind, string $value): string
    {
        return "{\"\$\":\"$kind\",\"v\":\"$value\"}";
    }

    private function text(string $value): string
    {
        if (strlen($value) > self::STRING_MAX) {
            throw new Refused('string of ' . strlen($value) . ' bytes is over the maximum of ' . self::STRING_MAX . ': write it to a file');
        }
        $text = json_encode($value, self::FLAGS);
        return $text === false ? $this->attach('{"$":"bytes"', $value) : $this->spend($text);
    }

    private function real(float $value): string
    {
        return match (true) {
            is_nan($value) => $this->tag('number', 'NaN'),
            is_infinite($value) => $this->tag('number', $value > 0 ? 'Infinity' : '-Infinity'),
            $value == 0 && fdiv(1, $value) < 0 => $this->tag('number', '-0'),
            default => json_encode($value, self::FLAGS),
        };
    }

    private function attach(string $head, string $data): string
    {
        if (count($this->parts) === self::ATTACHMENTS_MAX) {
            throw new Refused('more than ' . self::ATTACHMENTS_MAX . ' attachments');
        }
        $text = $head . ",\"at\":$this->attached,\"n\":" . strlen($data) . '}';
        $this->attached += strlen($data);
        $this->parts[] = $data;
        return $this->spend($text);
    }

    // ---- containers ----

    private function deeper(int $depth): int
    {
        if ($depth >= self::DEPTH_MAX) {
            throw new Refused('nested deeper than ' . self::DEPTH_MAX . ': return it as text (json_encode), or as a flat list');
        }
        return $depth + 1;
    }

    private function items(iterable $items, int $depth): string
    {
        $depth = $this->deeper($depth);
        $texts = [];
        foreach ($items as $item) {
            try {
                $texts[] = $this->value($item, $depth);
            } catch (Refused $refused) {
                throw $refused->within(count($texts));
            }
        }
        return '[' . $this->joined($texts) . $this->spend(']');
    }

    private function joined(array $texts): string
    {
        $this->spent += count($texts);
        return implode(',', $texts);
    }

    private function pairs(iterable $pairs, int $depth): string
    {
        $depth = $this->deeper($depth);
        $keys = $texts = [];
        foreach ($pairs as $key => $item) {
            $keys[] = $key = (string) $key;
            try {
                $texts[] = $this->value($item, $depth);
            } catch (Refused $refused) {
                throw $refused->within($key);
            }
        }
        return $this->paired($keys, $texts);
    }

    /**
     * An object, in the escaped form if its keys require it.
     * @param string[] $keys
     * @param string[] $texts of the values
     */
    private function paired(array $keys, array $texts): string
    {
        $isPlain = true;
        foreach ($keys as $i => $key) {
            $isPlain = $isPlain && $key !== '$' && !str_contains($key, "\0");
            try {
                $keys[$i] = $this->key($key);
            } catch (Refused $refused) {
                throw $refused->within($key);
            }
        }
        foreach ($keys as $i => $key) {
            $texts[$i] = $isPlain ? "$key:$texts[$i]" : "[$key,$texts[$i]]";
        }
        $text = $this->joined($texts) . $this->spend('');
        return $isPlain ? "{{$text}}" : "{\"\$\":\"object\",\"v\":[$text]}";
    }

    private function key(string $key): string
    {
        $text = json_encode($key, self::FLAGS);
        return $this->spend($text === false ? throw new Refused('a key that is not UTF-8 cannot be sent: return pairs, [[key, value]]') : $text);
    }

    private function map(iterable $pairs, int $depth): string
    {
        $depth = $this->deeper($depth);
        $texts = [];
        foreach ($pairs as $key => $item) {
            try {
                $texts[] = '[' . $this->value($key, $depth) . ',' . $this->value($item, $depth) . ']';
            } catch (Refused $refused) {
                throw $refused->within(is_string($key) ? $key : count($texts));
            }
        }
        return '{"$":"map","v":[' . $this->joined($texts) . $this->spend(']}');
    }

    private function pattern(Pattern $value): string
    {
        return '{"$":"regexp","source":' . $this->text($value->source) . ',"flags":' . $this->text($value->flags) . '}';
    }

    private function error(HostError $error, int $depth): string
    {
        $text = '{"$":"error","v":{"name":' . $this->text($error->name) . ',"message":' . $this->text($error->getMessage());
        if ($error->stack !== null) {
            $text .= ',"stack":' . $this->text($error->stack);
        }
        if ($error->fields) {
            $text .= ',"fields":' . $this->pairs($error->fields, $depth);
        }
        return $text . $this->spend('}}');
    }

    // ---- objects ----

    private function object(object $value, int $depth): string
    {
        $id = spl_object_id($value);
        if (isset($this->open[$id])) {
            throw new Refused('cycle cannot be sent: return a copy without the way back');
        }
        $this->open[$id] = true;
        $text = $this->known($value, $depth) ?? $this->other($value, $depth);
        unset($this->open[$id]);
        return $text;
    }

    /** Objects with a form in spec/values.md; else null. */
    private function known(object $value, int $depth): ?string
    {
        return match (true) {
            $value instanceof Bytes => $this->attach('{"$":"bytes"', (string) $value),
            $value instanceof \DateTimeInterface => $this->spend($this->tag('date', $this->date($value))),
            $value instanceof \ArrayObject => $this->pairs($value->getArrayCopy(), $depth),
            $value instanceof Map => $this->map($value, $depth),
            $value instanceof Set => '{"$":"set","v":' . $this->items($value, $depth) . '}',
            $value instanceof BigInt => $this->spend($this->integer($value->digits)),
            $value instanceof TypedArray => $this->attach("{\"\$\":\"array\",\"t\":\"$value->type\"", $value->bytes()),
            $value instanceof Pattern => $this->pattern($value),
            $value instanceof HostError => $this->error($value, $depth),
            $value instanceof \GMP => $this->spend($this->integer((string) $value)),
            default => null,
        };
    }

    private function other(object $value, int $depth): string
    {
        return match (true) {
            $value instanceof \JsonSerializable => $this->value($value->jsonSerialize(), $this->deeper($depth)),
            $value instanceof \BackedEnum => $this->value($value->value, $depth),
            $value instanceof \UnitEnum => $this->text($value->name),
            $value instanceof \SplObjectStorage => $this->storage($value, $depth),
            $value instanceof \SimpleXMLElement => $this->element((array) $value, $depth),
            $value instanceof \Traversable => $this->collected($value, $depth),
            $this->isPlain($value) && !get_object_vars($value) && is_callable([$value, 'toArray']) =>
                $this->value($value->toArray(), $this->deeper($depth)),
            $this->isPlain($value) => $this->pairs(get_object_vars($value), $depth),
            $value instanceof \Throwable => $this->pairs(self::fieldsOf($value), $depth),
            $value instanceof \DateInterval => $this->text(self::duration($value)),
            $value instanceof \DateTimeZone => $this->text($value->getName()),
            default => throw new Refused(Errors::className($value) . ' cannot be sent: ' . self::WAY_OUT),
        };
    }

    private static function fieldsOf(\Throwable $error): array
    {
        $fields = ['name' => Errors::className($error), 'message' => $error->getMessage()] + get_object_vars($error);
        return $error->getCode() ? $fields + ['code' => $error->getCode()] : $fields;
    }

    /** ISO 8601. */
    private static function duration(\DateInterval $value): string
    {
        $format = static fn (string $letters, array $names): string => implode('', array_map(
            static fn (string $letter, string $name) => $value->$name ? $value->$name . $letter : '', str_split($letters), $names));
        $days = $value->days === false ? $format('YMD', ['y', 'm', 'd']) : $value->days . 'D';
        $seconds = $value->s + $value->f;
        $clock = $format('HM', ['h', 'i']) . ($seconds ? $seconds . 'S' : '');
        return ($value->invert ? '-P' : 'P') . $days . ($clock === '' ? ($days === '' ? 'T0S' : '') : "T$clock");
    }

    private function integer(string $digits): string
    {
        $int = (int) $digits;
        return (string) $int === $digits && self::isSafe($int) ? $digits : $this->tag('bigint', $digits);
    }

    /** Other classes of PHP's own hold more than their public properties (a connection, a file, an exception). */
    private function isPlain(object $value): bool
    {
        return $this->classes[$value::class] ??= self::isUsers(new \ReflectionClass($value));
    }

    private static function isUsers(\ReflectionClass $class): bool
    {
        if ($class->isInternal() || $class->getNamespaceName() === __NAMESPACE__) {
            return $class->name === \stdClass::class;
        }
        return !$class->getParentClass() || self::isUsers($class->getParentClass());
    }

    private function storage(\SplObjectStorage $storage, int $depth): string
    {
        $pairs = new Map();
        foreach (iterator_to_array($storage, false) as $object) {
            $pairs[$object] = $storage[$object];
        }
        foreach ($pairs as $data) {
            if ($data !== null) {
                return $this->map($pairs, $depth);
            }
        }
        return '{"$":"set","v":' . $this->items(iterator_to_array($storage, false), $depth) . '}';
    }

    /** As json_encode does, except for an element with nothing but text: its text. */
    private function element(array $fields, int $depth): string
    {
        return match (true) {
            $fields === [] => $this->text(''),
            array_is_list($fields) && count($fields) === 1 => $this->value($fields[0], $depth),
            default => $this->value($fields, $depth),
        };
    }

    /**
     * Integer keys, possibly repeated, make a list; strings, each once, an object; others a map, or
     * an array of pairs if one repeats.
     */
    private function collected(\Traversable $items, int $depth): string
    {
        $depth = $this->deeper($depth);
        $texts = $keys = [];
        foreach ($items as $key => $item) {
            try {
                $texts[] = $this->value($item, $depth);
            } catch (Refused $refused) {
                throw $refused->within(is_string($key) ? $key : count($texts));
            }
            $keys[] = $key;
        }
        $strings = array_filter($keys, 'is_string');
        if (count(array_filter($keys, 'is_int')) === count($keys)) {
            return '[' . $this->joined($texts) . $this->spend(']');
        }
        if (count($strings) === count($keys) && count(array_flip($strings)) === count($keys)) {
            return $this->paired($keys, $texts);
        }
        $keys = array_map(fn (mixed $key) => $this->value($key, $depth), $keys);
        $pairs = array_map(static fn (string $key, string $text) => "[$key,$text]", $keys, $texts);
        $form = count(array_flip($keys)) === count($keys) ? ['{"$":"map","v":[', ']}'] : ['[', ']'];
        return $form[0] . $this->joined($pairs) . $this->spend($form[1]);
    }

    private function date(\DateTimeInterface $value): string
    {
        if ($value->getOffset() % 60 !== 0) {
            $value = \DateTimeImmutable::createFromInterface($value)->setTimezone(new \DateTimeZone('UTC'));
        }
        if ((int) $value->format('Y') < 1 || (int) $value->format('Y') > 9999) {
            throw new Refused('a date outside the years 1 to 9999 cannot be sent: return its text, format("c")');
        }
        $clock = $value->format('u') === '000000' ? 'Y-m-d\TH:i:s' : 'Y-m-d\TH:i:s.u';
        if ($value instanceof Day && $value->format('His.u') === '000000.000000') {
            return $value->format('Y-m-d');
        }
        if ($value instanceof Day || $value instanceof LocalTime) {
            return $value->format($clock);
        }
        return $value->format($clock) . ($value->getOffset() === 0 ? 'Z' : $value->format('P'));
    }
}
