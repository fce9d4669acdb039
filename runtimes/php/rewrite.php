<?php
namespace Cloche\Agent;

use PhpToken;
use function array_reverse, array_slice, class_exists, count, enum_exists, function_exists, implode, interface_exists, ltrim,
    preg_replace, strtolower, trait_exists;

/**
 * The code of a cell in the form that is included: it returns the value of its last statement, and
 * does not call functions that end the process. No line moves.
 */
final class Cell
{
    private const OPENING = ['{', '(', '[', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE];
    private const CLOSING = ['}', ')', ']'];
    private const ASSIGNING = ['=', T_PLUS_EQUAL, T_MINUS_EQUAL, T_MUL_EQUAL, T_DIV_EQUAL, T_CONCAT_EQUAL, T_MOD_EQUAL, T_AND_EQUAL, T_OR_EQUAL,
        T_XOR_EQUAL, T_SL_EQUAL, T_SR_EQUAL, T_POW_EQUAL, T_COALESCE_EQUAL, T_INC, T_DEC];
    /** Grammatically expressions, but their value is not shown. */
    private const WORTHLESS = [T_PRINT, T_INCLUDE, T_INCLUDE_ONCE, T_REQUIRE, T_REQUIRE_ONCE, T_THROW];
    private const MEMBER_FOLLOWS = [T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR, T_DOUBLE_COLON, T_FUNCTION, T_CONST, T_NEW];
    private const CLASSES = [T_CLASS => 'class', T_INTERFACE => 'interface', T_TRAIT => 'trait', T_ENUM => 'enum'];
    /**
     * Functions of PHP that the agent replaces: readline finds no terminal, and the others ignore a
     * signal that came just before.
     */
    private const REDIRECTED = ['readline' => 'readLine', 'sleep' => 'sleep', 'usleep' => 'microSleep'];
    private const TRIES = 20;

    /**
     * @var array<string, array{string, string}> by kind and lower-case name: the text of a cell's
     * declaration, and its place
     */
    private static array $declared = [];

    /** @return array{string, bool}: the text to include, and true if its return value is the cell's value */
    public static function prepared(string $code, string $filename): array
    {
        $tokens = @PhpToken::tokenize(Source::tagged($code)); // an unclosed comment is a warning, which the include repeats
        self::redirect($tokens);
        self::passOverRepeated($tokens, $filename);
        foreach ($tokens as $token) {
            if ($token->is(T_HALT_COMPILER)) {
                return [implode('', $tokens), false];
            }
        }
        return [self::returning($tokens) ?? self::ended($tokens), true];
    }

    // ---- redirected calls ----

    /** exit would end the process. */
    private static function redirect(array $tokens): void
    {
        $previous = null;
        foreach ($tokens as $i => $token) {
            if ($token->isIgnorable()) {
                continue;
            }
            $isMember = $previous?->is(self::MEMBER_FOLLOWS);
            $isCall = self::next($tokens, $i)?->text === '(';
            if ($token->is(T_EXIT) && !$isMember) {
                $token->text = '\\' . Context::class . '::leave' . ($isCall ? '' : '()');
            } elseif ($token->is([T_STRING, T_NAME_FULLY_QUALIFIED]) && $isCall && !$isMember) {
                $method = self::REDIRECTED[ltrim(strtolower($token->text), '\\')] ?? null;
                $token->text = $method === null ? $token->text : '\\' . Context::class . "::$method";
            }
            $previous = $token;
        }
    }

    private static function next(array $tokens, int $i): ?PhpToken
    {
        do {
            $i++;
        } while (isset($tokens[$i]) && $tokens[$i]->isIgnorable());
        return $tokens[$i] ?? null;
    }

    // ---- declarations ----

    /**
     * PHP cannot declare a name twice, and would end. A cell that runs again, with the same text,
     * finds its declarations in place.
     */
    private static function passOverRepeated(array $tokens, string $filename): void
    {
        $here = [];
        foreach (self::declarations($tokens) as [$kind, $name, $from, $to]) {
            $text = implode('', array_slice($tokens, $from, $to - $from + 1));
            $key = ($kind === 'function' ? 'function ' : 'class ') . strtolower($name);
            $exists = $kind === 'function' ? function_exists($name)
                : class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false) || enum_exists($name, false);
            $line = self::next($tokens, $from - 1)->line;
            if (isset($here[$key]) || ($exists && (self::$declared[$key][0] ?? null) !== $text)) {
                throw Errors::at(new \Error(self::complaint($kind, $name, $here[$key] ?? self::$declared[$key][1] ?? 'PHP')), $filename, $line);
            }
            $here[$key] = "$filename:$line";
            if ($exists) {
                self::blank(array_slice($tokens, $from, $to - $from + 1));
            } else {
                self::$declared[$key] = [$text, $here[$key]];
            }
        }
    }

    /** The text of a cell's declaration, by kind and lower-case name. */
    public static function textOf(string $key): ?string
    {
        return self::$declared[$key][0] ?? null;
    }

    private static function complaint(string $kind, string $name, string $where): string
    {
        return $kind === 'function' ? "Cannot redeclare $name() (previously declared in $where)"
            : "Cannot declare $kind $name, because the name is already in use (previously declared in $where)";
    }

    /** @param PhpToken[] $tokens */
    private static function blank(array $tokens): void
    {
        foreach ($tokens as $token) {
            $token->text = preg_replace('~[^\n]+~', ' ', $token->text);
        }
    }

    /**
     * Functions and classes at the top, also inside the braces of a namespace. @return
     * list<array{string, string, int, int}> kind, name, first and last token
     */
    public static function declarations(array $tokens): array
    {
        $found = [];
        $space = '';
        $depth = $top = $start = 0;
        $previous = null;
        foreach ($tokens as $i => $token) {
            if ($token->isIgnorable()) {
                $start += $start === $i ? 1 : 0;
                continue;
            }
            $name = self::next($tokens, $i);
            if ($depth === $top && $token->is(T_NAMESPACE) && $name?->is([T_STRING, T_NAME_QUALIFIED, '{'])) {
                $space = $name->is('{') ? '' : "$name->text\\";
                $top = self::opensBraces($tokens, $i) ? 1 : 0;
            } elseif ($depth === $top && self::isDeclaration($token, $previous, $name)) {
                $name = $name->text === '&' ? self::next($tokens, $i + 2) : $name;
                $kind = self::CLASSES[$token->id] ?? 'function';
                $name?->is(T_STRING) && $found[] = [$kind, $space . $name->text, $start, self::end($tokens, $i)];
            }
            $depth += $token->is(self::OPENING) ? 1 : ($token->is(self::CLOSING) ? -1 : 0);
            if ($depth === $top && $token->is([';', '{', '}', T_OPEN_TAG, T_CLOSE_TAG])) {
                $start = $i + 1;
            }
            $previous = $token;
        }
        return $found;
    }

    private static function isDeclaration(PhpToken $token, ?PhpToken $previous, ?PhpToken $next): bool
    {
        return $token->is(T_FUNCTION) ? !$previous?->is(T_USE) && $next?->is([T_STRING, T_AMPERSAND_NOT_FOLLOWED_BY_VAR_OR_VARARG])
            : isset(self::CLASSES[$token->id]) && !$previous?->is([T_NEW, T_DOUBLE_COLON]) && $next?->is(T_STRING);
    }

    private static function opensBraces(array $tokens, int $i): bool
    {
        while (isset($tokens[$i]) && !$tokens[$i]->is(['{', ';'])) {
            $i++;
        }
        return ($tokens[$i]->text ?? '') === '{';
    }

    /** The closing brace of the next braces. */
    private static function end(array $tokens, int $i): int
    {
        for ($depth = 0; isset($tokens[$i]); $i++) {
            $depth += $tokens[$i]->is(['{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES]) ? 1 : 0;
            if ($tokens[$i]->text === '}' && --$depth === 0) {
                return $i;
            }
        }
        return $i - 1;
    }

    // ---- the value ----

    /** Null if the last statement is no expression with a value to show. */
    private static function returning(array $tokens): ?string
    {
        $end = self::lastOf($tokens, [';', T_CLOSE_TAG]);
        foreach (self::starts($tokens, $end) as [$start, $isSure]) {
            $tail = array_slice($tokens, $start, $end - $start + 1);
            $text = implode('', $tail);
            $head = implode('', array_slice($tokens, 0, $start));
            if (self::parses("<?php return $text;") && self::parses($head)) {
                $rest = implode('', array_slice($tokens, $end + 1));
                return self::isWorthShowing($tail) ? "{$head}return $text;$rest" : null;
            }
            if ($isSure) {
                return null;
            }
        }
        return null;
    }

    /** The last token other than these and white space; -1 if there is none. */
    private static function lastOf(array $tokens, array $without): int
    {
        for ($i = count($tokens) - 1; $i >= 0 && ($tokens[$i]->isIgnorable() || $tokens[$i]->is($without)); $i--) {
        }
        return $i;
    }

    /**
     * Possible beginnings of the last statement, the last place first, and true if a statement
     * surely begins there: a brace may also close a part of an expression. @return list<array{int,
     * bool}>
     */
    private static function starts(array $tokens, int $end): array
    {
        $starts = [];
        $depth = 0;
        foreach (array_slice($tokens, 0, $end + 1) as $i => $token) {
            $depth += $token->is(self::OPENING) ? 1 : ($token->is(self::CLOSING) ? -1 : 0);
            if ($depth === 0 && $i < $end && $token->is([';', '}', T_OPEN_TAG, T_CLOSE_TAG])) {
                $starts[] = [$i + 1, !$token->is('}')];
            }
        }
        return array_slice(array_reverse($starts), 0, self::TRIES);
    }

    private static function isWorthShowing(array $tokens): bool
    {
        $depth = 0;
        $isFirst = true;
        foreach ($tokens as $token) {
            if ($token->isIgnorable()) {
                continue;
            }
            if (($isFirst && $token->is(self::WORTHLESS)) || ($depth === 0 && $token->is(self::ASSIGNING))) {
                return false;
            }
            $isFirst = false;
            $depth += $token->is(self::OPENING) ? 1 : ($token->is(self::CLOSING) ? -1 : 0);
        }
        return !$isFirst;
    }

    /** Adds the semicolon that the last statement may lack, and a return of null at the end. */
    private static function ended(array $tokens): string
    {
        $text = implode('', $tokens);
        if (!self::parses($text)) {
            $last = self::lastOf($tokens, []);
            $closed = implode('', array_slice($tokens, 0, $last + 1)) . ';' . implode('', array_slice($tokens, $last + 1));
            $text = self::parses($closed) ? $closed : $text;
        }
        return Source::scanned($text)[0];
    }

    private static function parses(string $text): bool
    {
        try {
            @PhpToken::tokenize($text, TOKEN_PARSE);
            return true;
        } catch (\CompileError) {
            return false;
        }
    }
}
