<?php
/* Names the functions that the agent's files call without having imported them: in a namespace such a call may be taken by a function
 * of the user's. A file without a namespace has nothing to import. Usage: unimported.php FILE... */
foreach (array_slice($argv, 1) as $file) {
    $text = file_get_contents($file);
    if (!preg_match('~^namespace ~m', $text)) {
        continue;
    }
    preg_match('~^use function ([^;]+);~m', $text, $found);
    $imported = preg_split('~[\s,]+~', $found[1] ?? '');
    $tokens = array_values(array_filter(PhpToken::tokenize($text), fn ($token) => !$token->isIgnorable()));
    foreach ($tokens as $i => $token) {
        $isCall = $token->is(T_STRING) && $tokens[$i + 1]->is('(')
            && !$tokens[$i - 1]->is([T_OBJECT_OPERATOR, T_NULLSAFE_OBJECT_OPERATOR, T_DOUBLE_COLON, T_FUNCTION, T_NEW]);
        if ($isCall && function_exists($token->text) && !in_array($token->text, $imported, true)) {
            echo basename($file), ':', $token->line, ' ', $token->text, "\n";
        }
    }
}
