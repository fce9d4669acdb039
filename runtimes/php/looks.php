<?php
namespace Cloche\Agent;

use PhpToken;
use function array_filter, array_key_exists, array_map, array_slice, array_values, class_exists, count, end, explode, function_exists, get_debug_type,
    get_defined_constants, get_object_vars, implode, interface_exists, is_object, is_string, ltrim, max, method_exists, min, preg_match, preg_replace,
    restore_error_handler, rtrim, set_error_handler, str_contains, str_ends_with, str_starts_with, strlen, strtolower, substr, substr_count, trait_exists, trim;

/**
 * Looks at code and at names: `inspect` and `isComplete`. They run no code of the cells: no autoloader, no __get, no initial value
 * of a parameter or constant.
 */
final class Looks
{
    private const TEXT_MAX = 65536;
    private const DOC_MAX = 16384;
    private const SUMMARY_MAX = 200;
    private const CALL_MAX = 10000;
    private const NAME = '[A-Za-z_\x80-\xff][\w\x80-\xff]*';
    private const OPEN = '~unexpected end of file|^Unclosed \'.\'(?: on line \d+)?$|^Unterminated comment~';
    private const HEADS = [T_IF, T_ELSEIF, T_FOR, T_FOREACH, T_WHILE, T_SWITCH, T_DECLARE];

    // ---- inspect ----

    /** Forms by MIME type; empty if there is no such name. */
    public static function inspect(string $code, int $at, bool $isDetailed): array
    {
        $place = strlen(Names::start($code, $at));
        $rows = self::rowsAt($code, $place, $isDetailed) ?? self::rowsAt($code, self::call($code, $place), $isDetailed);
        return $rows === null ? [] : ['text/plain' => Printed::cut(implode("\n", $rows), self::TEXT_MAX)];
    }

    /** The place before the bracket of the call in whose brackets this one is, or null. */
    private static function call(string $code, int $at): ?int
    {
        $depth = 0;
        for ($place = $at - 1; $place >= 0 && $place > $at - self::CALL_MAX; $place--) {
            if (str_contains(')]}', $code[$place])) {
                $depth++;
            } elseif (str_contains('([{', $code[$place]) && $depth-- === 0) {
                return $code[$place] === '(' ? $place : null;
            }
        }
        return null;
    }

    /** @return ?string[] */
    private static function rowsAt(string $code, ?int $at, bool $isDetailed): ?array
    {
        if ($at === null) {
            return null;
        }
        preg_match('~\A[\w\x80-\xff]*~', substr($code, $at, 1000), $rest);
        $before = substr($code, 0, $at) . $rest[0];
        $before = substr($before, max(0, strlen($before) - 1000));
        $name = self::NAME;
        return match (true) {
            preg_match("~(?<!->|::)\\$($name)\\??->($name)\\z~", $before, $found) === 1 => self::member(self::variable($found[1]), $found[2], $isDetailed),
            preg_match("~([\\w\\\\\\x80-\\xff]+)::(\\$?$name)\\z~", $before, $found) === 1 => self::ofClass($found[1], $found[2], $isDetailed),
            preg_match("~->$name\\z~", $before) === 1 => null,
            preg_match("~\\$($name)\\z~", $before, $found) === 1 => self::value(self::variable($found[1])),
            preg_match("~\\\\?$name(?:\\\\$name)*\\z~", $before, $found) === 1 => self::declared(ltrim($found[0], '\\'), $isDetailed),
            default => null,
        };
    }

    /** [value], or null. */
    private static function variable(string $name): ?array
    {
        return array_key_exists($name, $GLOBALS) ? [$GLOBALS[$name]] : null;
    }

    private static function value(?array $found): ?array
    {
        return $found === null ? null : ['Value: ' . Printed::summary($found[0], self::SUMMARY_MAX), 'Type: ' . Errors::shownType(get_debug_type($found[0]))];
    }

    private static function member(?array $found, string $name, bool $isDetailed): ?array
    {
        if ($found === null || !is_object($found[0])) {
            return null;
        }
        $class = new \ReflectionClass($found[0]);
        if ($class->hasMethod($name)) {
            return self::method($class->getMethod($name), $isDetailed);
        }
        if (method_exists($class, 'isUninitializedLazyObject') && $class->isUninitializedLazyObject($found[0])) {
            return null; // to read it would initialize it
        }
        $own = (array) $found[0];
        return array_key_exists($name, $own) ? self::value([$own[$name]]) : self::property($class, $name);
    }

    private static function property(\ReflectionClass $class, string $name): ?array
    {
        return $class->hasProperty($name) ? [...self::doc($class->getProperty($name)), 'Value: none yet, or computed', 'Type: property'] : null;
    }

    private static function isOurs(string $name): bool
    {
        return str_starts_with(strtolower(ltrim($name, '\\')), 'cloche\agent\\');
    }

    private static function isClass(string $name): bool
    {
        return !self::isOurs($name) && (class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false));
    }

    private static function ofClass(string $owner, string $name, bool $isDetailed): ?array
    {
        if (!self::isClass($owner)) {
            return null;
        }
        $class = new \ReflectionClass($owner);
        if ($name[0] === '$') {
            return self::property($class, substr($name, 1));
        }
        if ($class->hasMethod($name)) {
            return self::method($class->getMethod($name), $isDetailed);
        }
        $constant = $class->getReflectionConstant($name);
        return $constant ? [...self::doc($constant), "Owner: {$constant->getDeclaringClass()->name}", 'Type: ' . ($constant->isEnumCase() ? 'enum case' : 'constant')] : null;
    }

    private static function declared(string $name, bool $isDetailed): ?array
    {
        if (!self::isOurs($name) && function_exists($name)) {
            $function = new \ReflectionFunction($name);
            return ['Signature: ' . self::signature($function), ...self::doc($function), 'Type: function',
                ...($isDetailed ? self::source($function, 'function ' . strtolower($name)) : [])];
        }
        if (self::isClass($name)) {
            return self::class(new \ReflectionClass($name), $isDetailed);
        }
        $constants = get_defined_constants();
        return array_key_exists($name, $constants) ? self::value([$constants[$name]]) : null;
    }

    private static function method(\ReflectionMethod $method, bool $isDetailed): array
    {
        return ['Signature: ' . ($method->isStatic() ? 'static ' : '') . self::signature($method), ...self::doc($method), "Owner: {$method->class}", 'Type: method',
            ...($isDetailed ? self::place($method) : [])];
    }

    private static function class(\ReflectionClass $class, bool $isDetailed): array
    {
        $made = $class->getConstructor();
        $kind = Names::kind($class);
        return [...($made ? ["Signature: new $class->name(" . self::parameters($made) . ')'] : []), ...self::doc($class), 'Declared as: ' . Names::parent($class),
            ...($class->getInterfaceNames() ? ['Implements: ' . implode(', ', array_slice($class->getInterfaceNames(), 0, 20))] : []), "Type: $kind",
            ...($isDetailed ? self::source($class, 'class ' . strtolower($class->name)) : [])];
    }

    private static function signature(\ReflectionFunctionAbstract $function): string
    {
        return "$function->name(" . self::parameters($function) . ')' . ($function->hasReturnType() ? ": {$function->getReturnType()}" : '');
    }

    /** Their texts as PHP prints them, with initial values that are not computed. */
    private static function parameters(\ReflectionFunctionAbstract $function): string
    {
        $shown = static fn (\ReflectionParameter $one) => preg_match('~\[ <\w+> (.*) \]\z~s', (string) $one, $found) === 1 ? $found[1] : "\$$one->name";
        return implode(', ', array_map($shown, $function->getParameters()));
    }

    private static function doc(\ReflectionFunctionAbstract|\ReflectionClass|\ReflectionProperty|\ReflectionClassConstant $declared): array
    {
        $text = $declared->getDocComment();
        if (!is_string($text)) {
            return [];
        }
        $text = trim(preg_replace('~^[ \t]*\*?[ \t]?~m', '', substr(substr($text, 3, -2), 0, self::DOC_MAX)) ?? '');
        return $text === '' ? [] : ["Documentation: $text"];
    }

    private static function place(\ReflectionFunctionAbstract|\ReflectionClass $declared): array
    {
        return is_string($declared->getFileName()) ? ["File: {$declared->getFileName()}:{$declared->getStartLine()}"] : [];
    }

    private static function source(\ReflectionFunctionAbstract|\ReflectionClass $declared, string $key): array
    {
        $text = Cell::textOf($key);
        return [...self::place($declared), ...($text === null ? [] : ["Source:\n" . trim($text)])];
    }

    // ---- isComplete ----

    /** @return array{status: string, indent: string} */
    public static function judge(string $code): array
    {
        set_error_handler(static fn () => true); // a handler of the user's would be called, also for what @ hides
        try {
            $status = self::status($code);
        } finally {
            restore_error_handler();
        }
        $lines = explode("\n", rtrim($code));
        preg_match('~\A[ \t]*~', end($lines), $blanks);
        $isOpened = preg_match('~[\[({]\z~', end($lines)) === 1;
        return ['status' => $status, 'indent' => $status === 'incomplete' ? $blanks[0] . ($isOpened ? '    ' : '') : ''];
    }

    /** A cell may lack the last semicolon. */
    private static function status(string $code): string
    {
        $complaint = self::complaint($code);
        if ($complaint === null) {
            return 'complete';
        }
        $tokens = @PhpToken::tokenize(Source::tagged($code));
        if (!preg_match(self::OPEN, $complaint) && !self::isInText($tokens)) {
            return 'invalid';
        }
        return self::complaint("$code\n;") === null && !self::isHead($tokens) ? 'complete' : 'incomplete';
    }

    /** The parser's message, or null. */
    private static function complaint(string $code): ?string
    {
        try {
            @PhpToken::tokenize(Source::tagged($code), TOKEN_PARSE);
            return null;
        } catch (\ParseError $error) {
            return $error->getMessage();
        }
    }

    /** A text in single quotes has no end. */
    private static function isInText(array $tokens): bool
    {
        $last = $tokens[count($tokens) - 1] ?? null;
        return $last !== null && $last->is(T_ENCAPSED_AND_WHITESPACE) && preg_match('~\A[bB]?\'~', $last->text) === 1;
    }

    /** The code ends where the body of a statement belongs, which PHP lets be empty. */
    private static function isHead(array $tokens): bool
    {
        $tokens = array_values(array_filter($tokens, static fn (PhpToken $token) => !$token->isIgnorable()));
        $place = count($tokens) - 1;
        if ($place < 0 || $tokens[$place]->text !== ')') {
            return $place >= 0 && $tokens[$place]->is([T_ELSE, T_DO]);
        }
        for ($depth = 0; $place >= 0; $place--) {
            $depth += match ($tokens[$place]->text) { ')' => 1, '(' => -1, default => 0 };
            if ($depth === 0) {
                break;
            }
        }
        return $place > 0 && $tokens[$place - 1]->is(self::HEADS) && !($tokens[$place - 1]->is(T_WHILE) && ($tokens[$place - 2]->text ?? '') === '}');
    }
}
