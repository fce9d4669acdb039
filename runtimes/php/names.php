<?php
namespace Cloche\Agent;

use function array_diff_key, array_filter, array_flip, array_keys, array_map, array_merge, array_slice, array_unique, array_values,
    class_exists, get_class_methods, get_debug_type, get_declared_classes, get_declared_interfaces, get_defined_constants,
    get_defined_functions, implode, intdiv, interface_exists, is_object, min, preg_match, preg_match_all, sort, str_starts_with, stripos,
    strlen, strtolower, trait_exists;

/** The contents of a context for tools: its variables, and completions. Runs no user code. */
final class Names
{
    private const VARIABLES_MAX = 1000;
    private const SUMMARY_MAX = 200;
    private const MATCHES_MAX = 500;
    /** Variables of PHP's own and of the agent. */
    private const OURS = ['GLOBALS', '_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_ENV', '_REQUEST', '_SESSION', 'argv', 'argc', '_'];
    private const KEYWORDS = ['abstract', 'array', 'break', 'case', 'catch', 'class', 'clone', 'const', 'continue', 'declare', 'default', 'echo', 'else', 'elseif',
        'empty', 'enum', 'exit', 'extends', 'false', 'final', 'finally', 'fn', 'for', 'foreach', 'function', 'global', 'if', 'implements', 'include', 'instanceof',
        'interface', 'isset', 'list', 'match', 'namespace', 'new', 'null', 'print', 'private', 'protected', 'public', 'readonly', 'require', 'return', 'static',
        'switch', 'throw', 'trait', 'true', 'try', 'unset', 'use', 'while', 'yield'];

    // ---- variables ----

    /** Variables, functions and classes of the cells. */
    public static function variables(): array
    {
        $rows = [];
        foreach (array_diff_key($GLOBALS, array_flip(self::OURS)) as $name => $value) {
            $rows[] = self::row((string) $name, get_debug_type($value), Printed::summary($value, self::SUMMARY_MAX));
        }
        foreach (get_defined_functions()['user'] as $name) {
            $function = new \ReflectionFunction($name);
            self::isUsers($function) && $rows[] = self::row($function->name, 'function', self::signature($function->name, $function));
        }
        foreach (array_merge(get_declared_classes(), get_declared_interfaces()) as $name) {
            $class = new \ReflectionClass($name);
            $class->isAnonymous() || !self::isUsers($class) || $rows[] = self::row($name, self::kind($class), self::parent($class));
        }
        return array_slice($rows, 0, self::VARIABLES_MAX);
    }

    private static function row(string $name, string $type, string $summary): array
    {
        return ['name' => Printed::cut($name, self::SUMMARY_MAX), 'type' => Errors::shownType($type), 'summary' => Printed::cut($summary, self::SUMMARY_MAX)];
    }

    private static function isUsers(\ReflectionFunction|\ReflectionClass $declared): bool
    {
        return $declared->isUserDefined() && !str_starts_with((string) $declared->getFileName(), __DIR__ . '/');
    }

    public static function kind(\ReflectionClass $class): string
    {
        return $class->isInterface() ? 'interface' : ($class->isEnum() ? 'enum' : 'class');
    }

    public static function parent(\ReflectionClass $class): string
    {
        $parent = $class->getParentClass();
        return self::kind($class) . " $class->name" . ($parent ? " extends $parent->name" : '');
    }

    /** Its parameters' names. */
    public static function signature(string $name, \ReflectionFunction $function): string
    {
        $shown = static fn (\ReflectionParameter $one) => ($one->isVariadic() ? '...' : '') . '$' . $one->name;
        return "$name(" . implode(', ', array_map($shown, $function->getParameters())) . ')';
    }

    // ---- completions ----

    /** @param int $at in code points, like the result */
    public static function completions(string $code, int $at): array
    {
        $before = self::start($code, $at);
        [$typed, $names] = match (true) {
            preg_match('~\$(\w+)\??->(\w*)\z~u', $before, $found) === 1 => [$found[2], self::members($GLOBALS[$found[1]] ?? null)],
            preg_match('~([\w\\\\]+)::(\$?\w*)\z~u', $before, $found) === 1 => [$found[2], self::statics($found[1])],
            preg_match('~\$(\w*)\z~u', $before, $found) === 1 => [$found[0], array_map(fn ($name) => "\$$name", array_keys($GLOBALS))],
            preg_match('~[\w\\\\]+\z~u', $before, $found) === 1 => [$found[0], self::globals($found[0])],
            default => ['', []],
        };
        $fits = array_filter($names, fn ($name) => stripos((string) $name, $typed) === 0);
        $fits = array_values(array_unique(array_map('strval', $fits)));
        sort($fits);
        $to = self::length($before);
        return ['matches' => array_slice($fits, 0, self::MATCHES_MAX), 'from' => $to - self::length($typed), 'to' => $to];
    }

    /** The first code points of a text. A repetition count in a regular expression is at most 65535. */
    public static function start(string $code, int $at): string
    {
        $at = min($at, strlen($code));
        $step = 32768;
        preg_match('~\A(?:.{' . $step . '}){0,' . intdiv($at, $step) . '}.{0,' . $at % $step . '}~su', $code, $found);
        return $found[0] ?? '';
    }

    private static function length(string $text): int
    {
        return (int) preg_match_all('~.~su', $text);
    }

    private static function members(mixed $value): array
    {
        if (!is_object($value)) {
            return [];
        }
        $properties = array_filter(array_keys((array) $value), fn ($name) => ((string) $name)[0] !== "\0");
        return array_merge($properties, get_class_methods($value));
    }

    private static function statics(string $name): array
    {
        if (!class_exists($name, false) && !interface_exists($name, false) && !trait_exists($name, false)) {
            return [];
        }
        $class = new \ReflectionClass($name);
        $properties = array_filter($class->getProperties(\ReflectionProperty::IS_STATIC), fn ($one) => $one->isPublic());
        return array_merge(array_map(fn ($one) => "\$$one->name", $properties),
            array_keys($class->getConstants(\ReflectionClassConstant::IS_PUBLIC)),
            array_map(fn ($one) => $one->name, $class->getMethods(\ReflectionMethod::IS_STATIC)), ['class']);
    }

    private static function globals(string $typed): array
    {
        $functions = get_defined_functions();
        $names = array_merge($functions['internal'], $functions['user'], get_declared_classes(), get_declared_interfaces(),
            array_keys(get_defined_constants()), self::KEYWORDS);
        $isOurs = static fn ($name) => str_starts_with(strtolower((string) $name), 'cloche\agent\\');
        return array_filter($names, static fn ($name) => !$isOurs($name));
    }
}
