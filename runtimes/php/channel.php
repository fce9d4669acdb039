<?php
namespace Cloche\Agent;

use function array_map, array_sum, extension_loaded, fopen, fread, fwrite, getmypid, implode, max, min, pack, stream_select,
    stream_set_read_buffer, stream_set_write_buffer, strlen, substr, unpack;

/** The stream is out of step: no frame can be read from it any more. */
final class BadFrame extends \Exception
{
}

/** Frames on the agent's socket: u32 length, u32 json_length, JSON, attachments; little endian. */
final class Channel
{
    private const FRAME_MAX = 1 << 30;
    private const JSON_MAX = 256 << 20;
    private const SMALL = 1 << 16;

    private Socket|Stream $carrier;
    private int $pid;

    public function __construct()
    {
        $this->carrier = extension_loaded('ffi') ? new Socket(3) : new Stream(3);
        $this->pid = getmypid();
    }

    /** The descriptor, for libcloche-guest. */
    public function fd(): int
    {
        return $this->carrier->fd;
    }

    /** False in a process forked by user code, which must not use the channel. */
    public function isMine(): bool
    {
        return getmypid() === $this->pid;
    }

    public function hasInput(int $timeoutMs = 0): bool
    {
        return $this->carrier->hasInput($timeoutMs);
    }

    /** One frame as [JSON, attachments], or null at the end of the stream. */
    public function read(): ?array
    {
        $head = $this->exactly(8);
        if ($head === null) {
            return null;
        }
        [, $length, $size] = unpack('V2', $head);
        if ($length > self::FRAME_MAX || $size > self::JSON_MAX || $size + 4 > $length) {
            throw new BadFrame("frame of $length bytes with $size of JSON");
        }
        $body = $this->exactly($length - 4);
        return $body === null ? null : [substr($body, 0, $size), substr($body, $size)];
    }

    private function exactly(int $size): ?string
    {
        $data = '';
        while (($left = $size - strlen($data)) > 0) {
            $more = $this->carrier->read($left);
            if ($more === '') {
                return null;
            }
            $data .= $more;
        }
        return $data;
    }

    /** @param string[] $attachments */
    public function send(string $json, array $attachments = []): void
    {
        $size = array_sum(array_map('strlen', $attachments));
        $head = pack('V2', 4 + strlen($json) + $size, strlen($json));
        if ($size + strlen($json) <= self::SMALL) {
            $this->carrier->write($head . $json . implode('', $attachments));
            return;
        }
        foreach ([$head, $json, ...$attachments] as $data) {
            $this->carrier->write($data);
        }
    }
}

/**
 * Descriptor 3 through libc, out of the way of the user's code: under a high number, and not
 * inherited by programs it starts. send and recv fail on a file that replaced the socket.
 */
final class Socket
{
    private const NUMBERS = [1000, 500, 200, 60, 15]; // the low ones serve a small RLIMIT_NOFILE
    private const CHUNK = 1 << 20;
    private const SMALL = 1 << 12;
    private const F_DUPFD_CLOEXEC = 1030;
    private const MSG_NOSIGNAL = 0x4000;
    private const MSG_WAITALL = 0x100;
    private const POLLIN = 1;
    private const EINTR = 4;
    private const EAGAIN = 11;
    private const DECLARED = '
        struct pollfd { int fd; short events, revents; };
        int fcntl(int fd, int command, ...);
        int close(int fd);
        long send(int fd, const char *data, size_t size, int flags);
        long recv(int fd, char *data, size_t size, int flags);
        int poll(struct pollfd *polled, unsigned long count, int timeout);
        int fork(void);
        void _exit(int status);
        int *__errno_location(void);';
    private static ?\FFI $libc = null;
    private static \FFI\CData $small;

    public readonly int $fd;

    public function __construct(int $fd)
    {
        $this->fd = self::move($fd);
        self::$small ??= self::libc()->new('char[' . self::SMALL . ']');
    }

    public static function libc(): \FFI
    {
        return self::$libc ??= \FFI::cdef(self::DECLARED);
    }

    private static function move(int $fd): int
    {
        foreach (self::NUMBERS as $number) {
            $moved = self::libc()->fcntl($fd, self::F_DUPFD_CLOEXEC, $number);
            if ($moved >= 0) {
                self::libc()->close($fd);
                return $moved;
            }
        }
        return $fd;
    }

    /** At least one byte, at most this many; '' at the end. */
    public function read(int $size): string
    {
        $size = min($size, self::CHUNK);
        $buffer = $size <= self::SMALL ? self::$small : self::$libc->new("char[$size]");
        do {
            $count = self::$libc->recv($this->fd, $buffer, $size, self::MSG_WAITALL);
        } while ($count < 0 && $this->mayTryAgain(self::POLLIN));
        if ($count < 0) {
            self::$libc->_exit(1); // closed by the user's code
        }
        return \FFI::string($buffer, $count);
    }

    public function write(string $data): void
    {
        for ($at = 0; $at < strlen($data); $at += max(0, $count)) {
            $part = $at === 0 && strlen($data) <= self::CHUNK ? $data : substr($data, $at, self::CHUNK);
            $count = self::$libc->send($this->fd, $part, strlen($part), self::MSG_NOSIGNAL);
            if ($count < 0 && !$this->mayTryAgain(4)) {
                self::$libc->_exit(1); // the engine has exited, and the box with it
            }
        }
    }

    public function hasInput(int $timeoutMs): bool
    {
        return $this->wait(self::POLLIN, $timeoutMs);
    }

    private function mayTryAgain(int $events): bool
    {
        $errno = self::$libc->__errno_location()[0];
        if ($errno === self::EAGAIN) {
            $this->wait($events, -1);
        }
        return $errno === self::EINTR || $errno === self::EAGAIN;
    }

    private function wait(int $events, int $timeoutMs): bool
    {
        $polled = self::$libc->new('struct pollfd');
        $polled->fd = $this->fd;
        $polled->events = $events;
        return self::$libc->poll(\FFI::addr($polled), 1, $timeoutMs) > 0;
    }
}

/** For a PHP without FFI: descriptor 3 stays where it is, and programs that the user's code starts inherit it. */
final class Stream
{
    private const CHUNK = 1 << 20;
    private $stream;

    public function __construct(public readonly int $fd)
    {
        $this->stream = fopen("php://fd/$fd", 'r+b');
        stream_set_read_buffer($this->stream, 0);
        stream_set_write_buffer($this->stream, 0);
    }

    public function read(int $size): string
    {
        return (string) fread($this->stream, min($size, self::CHUNK));
    }

    public function write(string $data): void
    {
        for ($at = 0; $at < strlen($data); $at += $count) {
            $count = fwrite($this->stream, substr($data, $at, self::CHUNK));
            if ($count === false) {
                exit(1);
            }
        }
    }

    public function hasInput(int $timeoutMs): bool
    {
        $read = [$this->stream];
        $none = null;
        return @stream_select($read, $none, $none, 0, $timeoutMs * 1000) > 0;
    }
}
