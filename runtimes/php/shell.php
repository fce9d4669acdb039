<?php
/* Functions for cells: to show values, and to request input. */
namespace Cloche;

use Cloche\Agent\{Context, Displays, Server};
use function json_encode;

/** An object that defines its own display: content by MIME type, text, bytes, or data for JSON. */
interface Displayable
{
    public function display(): array;
}

/** The cell is interrupted (SIGINT). */
final class Interrupt extends \Error
{
}

/** No host answers the request of input(). */
final class EndOfInput extends \RuntimeException
{
}

/** @param ?string $id a later display with the same id and $update replaces this one */
function display(mixed $value, ?string $id = null, bool $update = false, array $metadata = []): void
{
    Displays::show(Displays::of($value), $metadata, false, $id, $update);
}

function html(string $html): void
{
    Displays::show(['text/html' => $html], [], false);
}

function markdown(string $markdown): void
{
    Displays::show(['text/markdown' => $markdown, 'text/plain' => $markdown], [], false);
}

function latex(string $latex): void
{
    Displays::show(['text/latex' => $latex, 'text/plain' => $latex], [], false);
}

function svg(string $svg): void
{
    Displays::show(['image/svg+xml' => $svg], [], false);
}

/** Bytes, or base64 of them; so jpeg() and pdf(). */
function png(string $data): void
{
    Displays::show(['image/png' => Displays::bytes($data)], [], false);
}

function jpeg(string $data): void
{
    Displays::show(['image/jpeg' => Displays::bytes($data)], [], false);
}

function pdf(string $data): void
{
    Displays::show(['application/pdf' => Displays::bytes($data)], [], false);
}

function json(mixed $value): void
{
    Displays::show(['application/json' => $value], [], false);
}

function javascript(string $code): void
{
    Displays::show(['application/javascript' => $code], [], false);
}

/** A chart as data (runtimes/python/README.md, Charts). */
function chart(array $chart): void
{
    Displays::show(['application/vnd.cloche.chart+json' => $chart], [], false);
}

/** Clears the displays of the cell; with $wait, when the next display comes. */
function clear(bool $wait = false): void
{
    Context::mayTell() && Server::askInterruptibly('clear', json_encode(['wait' => $wait]));
}

/** Returns a line of input from the host. */
function input(string $prompt = '', bool $password = false): string
{
    return Context::input($prompt, $password);
}
