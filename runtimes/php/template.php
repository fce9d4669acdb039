<?php
namespace Cloche\Agent;

use function array_map, clearstatcache, extension_loaded, gc_collect_cycles, gc_mem_caches, get_included_files, json_decode, microtime, mt_srand,
    random_int;

/** An example of a run's code, for rehearsals. */
function rehearsed(int|string $first, array $second = [2], mixed ...$more): array
{
    return ['first' => $first, 'second' => $second, 'more' => $more, 'n' => 1.5];
}

/** Templates: prewarmed, frozen, forked into boxes (src/box/join/guest.h). Loaded only in a process that is to be one. */
final class Template
{
    private const DECLARED = '
        int cloche_guest_start(void);
        int cloche_guest_freeze(int channel_fd, char *text, size_t size);
        int cloche_guest_wait(void);
        void cloche_guest_parent(int pid);
        int cloche_guest_child(void);
        void cloche_guest_loaded(const char *path);
        long cloche_guest_collapse(int shared_too);';
    private const TEXT_SIZE = 1024;
    private const REHEARSALS = 3;
    private const CODES = [
        'return [$args ?? 1, "two", 3.5, null, true, ["key" => new \Cloche\Bytes("value")]];',
        'return array_map(fn ($x) => json_encode($x) . sprintf("%s", trim("a")), [1, [2], ["k" => preg_match("/a/", "b")]]);',
        'throw new \RuntimeException("no");',
    ];

    private const DECLARED_BY_PHP = '
        void zend_call_destructors(void);
        void php_output_end_all(void);';
    /** Its first two fields, in PHP 8.2. */
    private const DECLARED_BY_RANDOM = 'extern struct { void *lcg; unsigned char is_lcg_seeded; } random_globals;';

    private \FFI $guest;
    private \FFI $php;
    private ?\FFI $random = null;
    private ?\FFI $openssl = null;

    public function __construct(string $library)
    {
        $this->guest = \FFI::cdef(self::DECLARED, $library);
        $started = $this->guest->cloche_guest_start();
        if ($started !== 1) {
            throw new \Error("cannot become a template: errno " . -$started);
        }
        $this->php = \FFI::cdef(self::DECLARED_BY_PHP);
        if (PHP_VERSION_ID >= 80200 && PHP_VERSION_ID < 80300) {
            $this->random = \FFI::cdef(self::DECLARED_BY_RANDOM);
        }
        if (extension_loaded('openssl')) {
            $this->openssl = self::declaredOrNull('int RAND_poll(void);');
        }
    }

    /** Null if this library cannot see the other one. */
    private static function declaredOrNull(string $declared): ?\FFI
    {
        try {
            return \FFI::cdef($declared);
        } catch (\FFI\Exception) {
            return null;
        }
    }

    /** Prewarm: load everything that code often uses. */
    public function warmUp(): void
    {
        require_once __DIR__ . '/bridge.php';
        for ($i = 0; $i < self::REHEARSALS; $i++) {
            $this->rehearse();
        }
        new \DateTimeImmutable();
        random_int(0, 1);
    }

    /** Pages that a call writes to are private after a rehearsal. */
    public function rehearse(): void
    {
        foreach ([...array_map($this->rehearseBody(...), self::CODES), $this->rehearseCall(...)] as $rehearsal) {
            try {
                $rehearsal();
            } catch (\Throwable $error) {
                Errors::describe($error, 'main.php');
            }
        }
    }

    private function rehearseBody(string $code): \Closure
    {
        return static function () use ($code) {
            [$text] = Source::scanned(Source::tagged($code));
            Source::offer($text, 'main.php');
            (new Encoder(1 << 20))->encode(include Source::PATH);
        };
    }

    private function rehearseCall(): void
    {
        $args = (new Decoder(''))->decode(json_decode('[1,["x",{"a":1.5}]]'));
        $value = Target::named(__NAMESPACE__ . '\rehearsed', 'main.php')->call($args, [], ['name' => 'value'], null);
        (new Encoder(1 << 20))->encode($value);
    }

    /** Null, or the fork blocker. */
    public function freeze(Channel $channel): ?string
    {
        gc_collect_cycles();
        gc_mem_caches();
        $text = $this->guest->new('char[' . self::TEXT_SIZE . ']');
        foreach (get_included_files() as $path) { // a fork must not mix these with changed ones
            $this->guest->cloche_guest_loaded($path);
        }
        if ($this->guest->cloche_guest_freeze($channel->fd(), $text, self::TEXT_SIZE) !== 0) {
            return \FFI::string($text);
        }
        $this->guest->cloche_guest_collapse(0);
        return null;
    }

    /** Returns in a child only: true if the child may itself become a template. */
    public function children(): bool
    {
        while ($this->guest->cloche_guest_wait() === 1) {
            $pid = Socket::libc()->fork();
            if ($pid === 0) {
                $isTemplate = $this->guest->cloche_guest_child() === 1;
                $this->renew();
                return $isTemplate;
            }
            $this->guest->cloche_guest_parent($pid > 0 ? $pid : -Socket::libc()->__errno_location()[0]);
        }
        Socket::libc()->_exit(0);
    }

    /**
     * Ends a child after every effect of the end that the user may see. PHP's own end frees memory
     * that this process does not even own, which costs a third of a run.
     */
    public function leave(): void
    {
        $this->php->zend_call_destructors();
        $this->php->php_output_end_all();
        Socket::libc()->_exit(0);
    }

    /** Renew state that siblings must not share, and forget the template's place and time. */
    private function renew(): void
    {
        mt_srand(random_int(0, 0xffffffff));
        clearstatcache(true);
        $_SERVER['REQUEST_TIME_FLOAT'] = microtime(true);
        $_SERVER['REQUEST_TIME'] = (int) $_SERVER['REQUEST_TIME_FLOAT'];
        if ($this->random) {
            $this->random->random_globals->is_lcg_seeded = 0; // of lcg_value() and uniqid()
        }
        $this->openssl?->RAND_poll(); // OpenSSL detects forks by the process id, which siblings may share
    }
}
