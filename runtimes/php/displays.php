<?php
namespace Cloche\Agent;

use Cloche\{Bytes, Displayable};
use function array_keys, base64_decode, bin2hex, error_get_last, file_put_contents, in_array, is_array, is_bool, is_dir, is_finite,
    is_float, is_int, is_string, json_decode, json_encode, mkdir, preg_match, random_bytes, str_contains, strlen, substr, unlink;

/** Displays in wire format: their kinds, and the files of large ones. */
final class Displays
{
    private const FOLDER_OF_LARGE = '/tmp/.cloche-display';
    private const SHORT = 1000;
    private const PLAIN_MAX = 10000;
    private const CONTENT_MAX = 1 << 30;
    private const BINARY = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'];
    private const ENDINGS = ['text/plain' => 'txt', 'text/html' => 'html', 'text/markdown' => 'md', 'text/latex' => 'tex', 'image/svg+xml' => 'svg',
        'image/png' => 'png', 'image/jpeg' => 'jpg', 'image/gif' => 'gif', 'application/pdf' => 'pdf', 'application/javascript' => 'js'];

    // ---- the form of a value ----

    /** The kinds of a value: its own, else text, plus JSON if it is plain data. */
    public static function of(mixed $value): array
    {
        if ($value instanceof Displayable) {
            return self::checked($value->display(), $value);
        }
        $data = ['text/plain' => Printed::text($value)];
        if ((is_array($value) || $value instanceof \stdClass) && self::isPlain($value)) {
            $data['application/json'] = $value;
        }
        return $data;
    }

    private static function checked(array $data, Displayable $value): array
    {
        foreach (array_keys($data) as $mime) {
            if (!preg_match('~\A[\w.+-]+/[\w.+-]+\z~', (string) $mime)) {
                throw new \ValueError(Errors::className($value) . "::display() has the key '" . substr((string) $mime, 0, 80) . "', which is no MIME type");
            }
        }
        return $data + ['text/plain' => Printed::text($value, self::SHORT)];
    }

    /** True if JSON holds it exactly. */
    private static function isPlain(mixed $value): bool
    {
        $left = self::PLAIN_MAX;
        return self::isPlainWithin($value, $left, 0);
    }

    private static function isPlainWithin(mixed $value, int &$left, int $depth): bool
    {
        if (is_array($value) || ($value instanceof \stdClass && $value::class === \stdClass::class)) {
            foreach ((array) $value as $key => $item) {
                if (--$left < 0 || $depth === Encoder::DEPTH_MAX || !self::isText((string) $key) || !self::isPlainWithin($item, $left, $depth + 1)) {
                    return false;
                }
            }
            return true;
        }
        return match (true) {
            is_string($value) => self::isText($value),
            is_int($value) => Encoder::isSafe($value),
            is_float($value) => is_finite($value),
            default => is_bool($value) || $value === null,
        };
    }

    private static function isText(string $text): bool
    {
        return preg_match('~~u', $text) === 1;
    }

    /** A picture or the like: its bytes, possibly given as base64. */
    public static function bytes(string $data): Bytes
    {
        $decoded = base64_decode($data, true);
        return new Bytes($decoded === false || $decoded === '' ? $data : $decoded);
    }

    // ---- on the wire ----

    public static function show(array $data, array $metadata, bool $isResult, ?string $id = null, bool $isUpdate = false): void
    {
        if (!Context::mayTell()) {
            echo is_string($data['text/plain'] ?? null) ? $data['text/plain'] . "\n" : '';
            return;
        }
        foreach ($data as $mime => $content) {
            $data[$mime] = self::plain((string) $mime, $content);
        }
        $more = ['isResult' => $isResult] + ($id === null ? [] : ['displayId' => self::text($id)]) + ($isUpdate ? ['isUpdate' => true] : []);
        $encoder = new Encoder(Context::storeBytes());
        try {
            $text = self::encoded($encoder, $data, $metadata, $more);
        } catch (\ValueError) {
            $encoder = new Encoder(self::CONTENT_MAX);
            $text = $encoder->encode([...self::stored($data), ...$more]);
        } catch (\TypeError) {
            [$data, $metadata] = self::withoutRefused($data, $metadata);
            $encoder = new Encoder(self::CONTENT_MAX);
            $text = self::encoded($encoder, $data, $metadata, $more);
        }
        if (Context::isRehearsing()) {
            return;
        }
        // Wait for the response, as later output must not overtake; after a result the response follows anyway.
        $isResult ? Server::tell('display', $text, $encoder->parts) : Server::askInterruptibly('display', $text, $encoder->parts);
    }

    private static function encoded(Encoder $encoder, array $data, array $metadata, array $more): string
    {
        return $encoder->encode(['data' => new \ArrayObject($data), 'metadata' => new \ArrayObject($metadata)] + $more);
    }

    /** The receiver expects text in kinds that are text, and bytes in the others. */
    private static function plain(string $mime, mixed $content): mixed
    {
        if (!is_string($content)) {
            return $content;
        }
        return in_array($mime, self::BINARY, true) ? self::bytes($content) : self::text($content);
    }

    private static function text(string $text): string
    {
        return self::isText($text) ? $text : json_decode(json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE));
    }

    /** The metadata of an unsendable kind holds the reason; the other kinds are sent. */
    private static function withoutRefused(array $data, array $metadata): array
    {
        foreach ($data as $mime => $content) {
            try {
                (new Encoder(self::CONTENT_MAX))->encode($content);
            } catch (\TypeError $refusal) {
                unset($data[$mime]);
                $metadata[$mime] = ['error' => $refusal->getMessage()];
            }
        }
        return [$data, $metadata];
    }

    // ---- large displays ----

    /** The largest of the kinds is kept as a file, the others are dropped. */
    private static function stored(array $data): array
    {
        $kept = '';
        $mime = '';
        foreach ($data as $name => $content) {
            $content = self::content($content);
            [$kept, $mime] = strlen($content) >= strlen($kept) ? [$content, (string) $name] : [$kept, $mime];
        }
        $size = strlen($kept);
        $short = is_string($data['text/plain'] ?? null) ? $data['text/plain'] : "<$mime of $size bytes>";
        $short = strlen($short) > self::SHORT ? Printed::cut($short, self::SHORT) . '... (' . strlen($short) . ' bytes in all)' : $short;
        $path = self::FOLDER_OF_LARGE . '/' . bin2hex(random_bytes(8)) . '.' . (self::ENDINGS[$mime] ?? (str_contains($mime, 'json') ? 'json' : 'bin'));
        $isKept = (is_dir(self::FOLDER_OF_LARGE) || @mkdir(self::FOLDER_OF_LARGE)) && @file_put_contents($path, $kept) === $size;
        if (!$isKept) {
            @unlink($path);
        }
        return ['data' => ['text/plain' => $short], 'metadata' => $isKept ? ['stored' => ['mime' => $mime, 'path' => $path, 'bytes' => $size]]
            : ['error' => "$mime of $size bytes could not be kept in " . self::FOLDER_OF_LARGE . ': ' . (error_get_last()['message'] ?? 'no room')]];
    }

    private static function content(mixed $content): string
    {
        return is_string($content) || $content instanceof Bytes ? (string) $content
            : (string) json_encode($content, Server::JSON_FLAGS | JSON_PARTIAL_OUTPUT_ON_ERROR);
    }
}
