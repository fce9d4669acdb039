<?php
namespace Cloche\Agent;

use PhpToken;
use function array_filter, array_slice, array_values, in_array;

/** Refuses arguments of code without a function, if it would drop them silently. */
final class Unused
{
    private const KINDS = [T_CLASS, T_INTERFACE, T_TRAIT, T_ENUM];
    private const MODIFIERS = [T_ABSTRACT, T_FINAL, T_READONLY];
    private const LOADING = [T_USE, T_NAMESPACE, T_DECLARE, T_CONST, T_REQUIRE, T_REQUIRE_ONCE, T_INCLUDE, T_INCLUDE_ONCE];
    private const CLOSURES = [T_FN, T_FUNCTION];
    private const OPENING = ['{', '(', '[', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE];
    private const CLOSING = ['}', ')', ']'];
    private const READING = ['$args', '$kwargs', '$GLOBALS'];

    public static function refuse(string $text, string $filename): void
    {
        $found = self::found($text);
        if ($found !== null) {
            throw Errors::at(new \Error("the code defines no function that could take the arguments, but $found"), $filename);
        }
    }

    /** The last class or closure, and the way out; null if the code does more than to define things, or reads its arguments. */
    private static function found(string $text): ?string
    {
        try {
            $tokens = PhpToken::tokenize($text, TOKEN_PARSE);
        } catch (\ParseError) {
            return null; // the code's own error follows
        }
        $tokens = array_values(array_filter($tokens, static fn ($token) => !$token->isIgnorable()));
        $found = null;
        for ($at = 0; isset($tokens[$at]); $at = $end) {
            $end = self::end($tokens, $at);
            $about = self::about(array_slice($tokens, $at, $end - $at));
            if ($about === null) {
                return null;
            }
            $found = $about ?: $found;
        }
        return $found;
    }

    /** The index after the statement, or after attributes before one. */
    private static function end(array $tokens, int $at): int
    {
        $last = $tokens[$at]->is(T_ATTRIBUTE) ? ']' : (self::isBlock($tokens, $at) ? '}' : ';');
        for ($depth = 0; isset($tokens[$at]); $at++) {
            $depth += $tokens[$at]->is(self::OPENING) ? 1 : ($tokens[$at]->is(self::CLOSING) ? -1 : 0);
            if ($depth === 0 && $tokens[$at]->text === $last) {
                return $at + 1;
            }
        }
        return $at;
    }

    private static function isBlock(array $tokens, int $at): bool
    {
        $hasName = ($tokens[$at + 1] ?? null)?->is([T_STRING, '&', ...self::KINDS, ...self::MODIFIERS]) ?? false;
        return $tokens[$at]->is([...self::KINDS, ...self::MODIFIERS, T_FUNCTION]) && $hasName;
    }

    /** '' of a statement that only defines or loads something else. */
    private static function about(array $tokens): ?string
    {
        $first = $tokens[0];
        if ($first->is(T_ATTRIBUTE)) {
            return '';
        }
        if (self::isBlock($tokens, 0)) {
            return $first->is(T_FUNCTION) ? '' : self::aboutClass($tokens);
        }
        foreach ($tokens as $token) {
            if (in_array($token->text, self::READING, true)) {
                return null;
            }
        }
        $begin = ($tokens[1] ?? $first)->text === '=' ? 2 : 0;
        $begin += ($tokens[$begin] ?? $first)->is(T_STATIC) ? 1 : 0;
        $isClosure = ($tokens[$begin] ?? null)?->is(self::CLOSURES) ?? false;
        if ($first->is(T_VARIABLE)) {
            return $isClosure ? "the closure $first->text: name $first->text as the function" : '';
        }
        return $isClosure ? 'a closure: write it as a function with a name' : ($first->is(self::LOADING) ? '' : null);
    }

    private static function aboutClass(array $tokens): string
    {
        foreach ($tokens as $i => $token) {
            if ($token->is(self::KINDS)) {
                return "the $token->text {$tokens[$i + 1]->text}: define a function that uses it";
            }
        }
        return '';
    }
}
