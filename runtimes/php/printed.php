<?php
namespace Cloche\Agent;

use function addcslashes, array_is_list, array_map, count, get_debug_type, implode, is_array, is_int, is_object, is_resource, is_string,
    max, ord, preg_match, spl_object_id, str_contains, str_repeat, strlen, strrpos, substr, var_export;

/** A value as text, in PHP's notation. It is short, and runs no code of the value's class. */
final class Printed
{
    private const WIDTH = 100;
    private const INDENT = '  ';
    private const ITEMS_MAX = 100;
    private const DEPTH_MAX = 6;

    private int $left;
    private array $open = [];

    private function __construct(int $size)
    {
        $this->left = $size;
    }

    /** At most about this many bytes. */
    public static function text(mixed $value, int $size = 10000): string
    {
        return (new self($size))->value($value, 0);
    }

    /** The value in a list of variables: one line. */
    public static function summary(mixed $value, int $size): string
    {
        $text = match (true) {
            is_array($value) => count($value) . (count($value) === 1 ? ' item' : ' items'),
            is_object($value) && !$value instanceof \UnitEnum && !$value instanceof \DateTimeInterface && !$value instanceof \Closure
                => Errors::className($value),
            default => self::text($value, $size),
        };
        return self::cut($text, $size);
    }

    /** Cuts between characters. */
    public static function cut(string $text, int $size): string
    {
        if (strlen($text) <= $size) {
            return $text;
        }
        while ($size > 0 && (ord($text[$size]) & 0xc0) === 0x80) {
            $size--;
        }
        return substr($text, 0, $size);
    }

    private function value(mixed $value, int $depth): string
    {
        $text = match (true) {
            is_string($value) => $this->string($value),
            is_array($value) => $this->items($value, array_is_list($value), '[', ']', $depth),
            is_object($value) => $this->object($value, $depth),
            is_resource($value) => get_debug_type($value) . ' #' . (int) $value,
            $value === null => 'null',
            default => var_export($value, true),
        };
        $this->left -= is_array($value) || is_object($value) ? 0 : strlen($text);
        return $text;
    }

    private function string(string $value): string
    {
        $shown = self::cut($value, max(20, $this->left));
        $more = strlen($shown) < strlen($value) ? '... (' . strlen($value) . ' bytes)' : '';
        if (preg_match('~\A[^\x00-\x08\x0b-\x1f\x7f]*\z~u', $shown)) {
            return "'" . addcslashes($shown, "'\\") . "'$more";
        }
        $isText = preg_match('~~u', $shown);
        return '"' . addcslashes($shown, $isText ? "\0..\37\177\"\\\$" : "\0..\37\177..\377\"\\\$") . "\"$more";
    }

    private function object(object $value, int $depth): string
    {
        $name = Errors::className($value);
        return match (true) {
            $value instanceof \UnitEnum => "$name::$value->name",
            $value instanceof \Closure => Names::signature('Closure', new \ReflectionFunction($value)),
            $value instanceof \DateTimeInterface => "$name(" . \DateTimeImmutable::createFromInterface($value)->format('Y-m-d\TH:i:s.uP') . ')',
            $value instanceof \Throwable => "$name(" . $this->string((new \ReflectionProperty($value instanceof \Error ? \Error::class : \Exception::class, 'message'))
                ->getValue($value)) . ')',
            $value instanceof \Cloche\Bytes => "$name(" . count($value) . ' bytes)',
            default => $this->properties($name, $value, $depth),
        };
    }

    private function properties(string $name, object $value, int $depth): string
    {
        $id = spl_object_id($value);
        if (isset($this->open[$id])) {
            return "$name {...}";
        }
        $this->open[$id] = true;
        $names = [];
        foreach ((array) $value as $key => $item) { // of its own properties, private ones too
            $names[substr((string) $key, (int) strrpos("\0$key", "\0"))] = $item;
        }
        $text = "$name " . $this->items($names, false, '{', '}', $depth);
        unset($this->open[$id]);
        return $text;
    }

    /** On one line if it fits. */
    private function items(array $items, bool $isList, string $opening, string $closing, int $depth): string
    {
        if (!$items) {
            return $opening . $closing;
        }
        if ($depth >= self::DEPTH_MAX || $this->left <= 0) {
            return "$opening...$closing";
        }
        $texts = [];
        foreach ($items as $key => $item) {
            if (count($texts) === self::ITEMS_MAX || $this->left <= 0) {
                $texts[] = '... (' . count($items) . ' in all)';
                break;
            }
            $texts[] = ($isList ? '' : $this->key($key, $opening)) . $this->value($item, $depth + 1);
            $this->left -= 2;
        }
        return $this->joined($texts, $opening, $closing, $depth);
    }

    private function key(int|string $key, string $opening): string
    {
        $text = $opening === '{' ? "$key: " : (is_int($key) ? $key : $this->string($key)) . ' => ';
        $this->left -= strlen($text);
        return $text;
    }

    /** @param string[] $texts */
    private function joined(array $texts, string $opening, string $closing, int $depth): string
    {
        $line = $opening . implode(', ', $texts) . $closing;
        if (strlen($line) + $depth * strlen(self::INDENT) <= self::WIDTH && !str_contains($line, "\n")) {
            return $line;
        }
        $indent = "\n" . str_repeat(self::INDENT, $depth);
        return $opening . implode('', array_map(fn ($text) => $indent . self::INDENT . "$text,", $texts)) . $indent . $closing;
    }
}
