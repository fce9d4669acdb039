<?php
/* The set-up of the prefix that PHP's contexts are forked from. PHP's library is compiled in, so
 * nothing is loaded: the functions that cells mostly use have run once. The name that stays
 * makes the agent prepare for cells (cells.php). */
$__cloche_notebook__ = (static function (): bool {
    $rows = json_decode('[{"name": "b", "size": 2.5}, {"name": "a", "size": null}]', true);
    usort($rows, fn ($one, $other) => $one['name'] <=> $other['name']);
    array_sum(array_filter(array_column($rows, 'size')));
    json_encode(array_map(fn ($row) => [...$row, 'text' => sprintf('%s %.2f', ucfirst($row['name']), $row['size'] ?? 0)], $rows));
    preg_match_all('~(\w+)\s*=\s*"([^"]*)"~u', 'a="1" b = "2"', $found);
    (new DateTimeImmutable('2026-01-31 10:00', new DateTimeZone('Europe/Berlin')))->modify('+1 month')->format(DATE_ATOM);
    iterator_to_array(new ArrayIterator(range(1, 3)));
    hash('sha256', implode(',', str_split(str_repeat('ab', 10), 3)));
    return true;
})();
