<?php
namespace Cloche\Agent;

use PhpToken;
use function array_filter, array_values, count, extension_loaded, in_array, preg_match, preg_replace, stream_get_wrappers,
    stream_wrapper_register, strlen, substr;
/**
 * Source text as a file that can be included, with its author's file name and lines. (Evaluated
 * code would have "eval()'d code" in every message.)
 */
final class Source
{
    public const PATH = 'cloche://code';
    private const BOM_AND_SHEBANG = '~^(?:\xEF\xBB\xBF)?(?:#![^\n]*)?~';
    private static ?string $text = null;
    private static string $filename = '';

    public $context;
    private string $data;
    private int $at = 0;

    /** Set the text for the next include of PATH. */
    public static function offer(string $text, string $filename): void
    {
        if (!in_array('cloche', stream_get_wrappers(), true)) {
            stream_wrapper_register('cloche', self::class);
        }
        self::$text = $text;
        self::$filename = $filename;
    }

    /** `opened` becomes the path in __FILE__ and messages. */
    public function stream_open(string $path, string $mode, int $options, ?string &$opened): bool
    {
        if (self::$text === null) {
            return false;
        }
        $this->data = self::$text;
        self::$text = null;
        $opened = self::$filename;
        return true;
    }

    public function stream_read(int $count): string
    {
        $read = substr($this->data, $this->at, $count);
        $this->at += strlen($read);
        return $read;
    }

    public function stream_eof(): bool
    {
        return $this->at === strlen($this->data);
    }

    public function stream_stat(): array
    {
        return ['size' => strlen($this->data)];
    }

    public function stream_set_option(int $option, int $first, ?int $second): bool
    {
        return false;
    }

    // ---- the opening tag ----

    public static function lacksTag(string $code): bool
    {
        return !preg_match('~^\s*<[?a-zA-Z!/]~', preg_replace(self::BOM_AND_SHEBANG, '', $code, 1));
    }

    /**
     * Puts the tag at the very start: text before it (empty lines, for example) would be printed,
     * and break declare(). No line is added or lost. Text that starts as HTML stays as it is.
     */
    public static function tagged(string $code): string
    {
        $code = preg_replace(self::BOM_AND_SHEBANG, '', $code, 1);
        if (self::lacksTag($code)) {
            return '<?php ' . $code;
        }
        return preg_replace('~^(\s+)<\?php(?!\w)~i', '<?php$1', $code, 1);
    }

    // ---- code that may be a function's body ----

    /**
     * [text to include, names of the public functions at its top]. An include returns 1 if the code
     * returns nothing, so the end returns null. Text that does not parse stays as it is, for its
     * own error.
     */
    public static function scanned(string $text): array
    {
        if (!extension_loaded('tokenizer')) {
            throw new \Error('no function was named, and this PHP cannot look for one: it lacks the extension tokenizer');
        }
        try {
            $tokens = PhpToken::tokenize($text, TOKEN_PARSE);
        } catch (\ParseError) {
            return [$text, []];
        }
        $tokens = array_values(array_filter($tokens, fn ($token) => !$token->isIgnorable() || $token->is(T_CLOSE_TAG)));
        [$functions, $isBraced] = self::outline($tokens);
        $last = $tokens[count($tokens) - 1] ?? null;
        foreach ($tokens as $token) {
            if ($token->is(T_HALT_COMPILER)) {
                return [$text, $functions];
            }
        }
        $tail = $isBraced ? 'namespace { return null; }' : 'return null;';
        return [$text . ($last?->is([T_INLINE_HTML, T_CLOSE_TAG]) ? "<?php $tail" : "\n$tail"), $functions];
    }

    /** [names of the public functions at the top, true if namespaces have braces] */
    private static function outline(array $tokens): array
    {
        $functions = [];
        $space = '';
        $depth = $top = 0;
        foreach ($tokens as $i => $token) {
            if ($token->is(T_NAMESPACE) && $depth === $top && !$tokens[$i + 1]->is('\\')) {
                $hasName = $tokens[$i + 1]->is([T_STRING, T_NAME_QUALIFIED]);
                $space = $hasName ? $tokens[$i + 1]->text . '\\' : '';
                $top = $tokens[$i + ($hasName ? 2 : 1)]->is('{') ? 1 : 0;
            } elseif ($token->is(['{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES])) {
                $depth++;
            } elseif ($token->is('}')) {
                $depth--;
            } elseif ($token->is(T_FUNCTION) && $depth === $top && !($tokens[$i - 1] ?? $token)->is(T_USE)) {
                $name = $tokens[$i + 1]->text === '&' ? $tokens[$i + 2] : $tokens[$i + 1];
                if ($name->is(T_STRING) && $name->text[0] !== '_') {
                    $functions[] = $space . $name->text;
                }
            }
        }
        return [$functions, $top === 1];
    }
}
