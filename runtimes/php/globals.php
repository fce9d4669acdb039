<?php
/* Short names for two functions of shell.php, unless the names are taken. */

if (!function_exists('display')) {
    function display(mixed $value, ?string $id = null, bool $update = false, array $metadata = []): void
    {
        Cloche\display($value, $id, $update, $metadata);
    }
}
if (!function_exists('input')) {
    function input(string $prompt = '', bool $password = false): string
    {
        return Cloche\input($prompt, $password);
    }
}
