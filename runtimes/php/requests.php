<?php
namespace Cloche\Agent;

use function flush, json_decode, str_contains;

/** Requests and notifications to the engine while the user's code runs. */
trait Requests
{
    private static int $asked = 0;
    private static int $lookMs = 200; // interval of the checks for signals that came just before the wait

    /** @return array{\stdClass, Decoder}: the response */
    public static function ask(string $method, string $params, array $attachments): array
    {
        if ((self::$request['method'] ?? '') === 'prepare') {
            throw new \Error('the host cannot be called while the set-up runs');
        }
        $id = self::question($method, $params, $attachments);
        do {
            [$message, $decoder] = self::answerOrNone($id);
        } while ($message === null);
        return [$message, $decoder];
    }

    /** A signal's handler may throw while the response is awaited, but not in the middle of a frame. */
    public static function askInterruptibly(string $method, string $params, array $attachments = []): \stdClass
    {
        try {
            self::settle();
            flush();
            $id = self::question($method, $params, $attachments);
            do {
                self::allowSignals();
                while (!self::$channel->hasInput(self::$lookMs)) {
                }
                self::settle();
                [$message] = self::answerOrNone($id);
            } while ($message === null);
            return $message;
        } finally {
            self::allowSignals();
        }
    }

    private static function question(string $method, string $params, array $attachments): int
    {
        $id = ++self::$asked;
        self::$channel->send("{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"$method\",\"params\":$params}", $attachments);
        return $id;
    }

    /** One frame: the response to this request, or nulls if it is for another, abandoned request. */
    private static function answerOrNone(int $id): array
    {
        [$json, $attached] = self::$channel->read() ?? exit(1);
        $message = json_decode($json, false, self::JSON_DEPTH);
        return ($message->id ?? null) === $id ? [$message, new Decoder($attached, str_contains($json, '"ref"'))] : [null, null];
    }

    /** @param string $params JSON */
    public static function tell(string $method, string $params, array $attachments = []): void
    {
        try {
            self::settle();
            flush();
            self::$channel->send("{\"jsonrpc\":\"2.0\",\"method\":\"$method\",\"params\":$params}", $attachments);
        } finally {
            self::allowSignals();
        }
    }
}
