/* Errors, buffers, descriptors. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "base/utf8.h"
#include "table.h"
#include "tap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

static void test_errors(void)
{
        struct cloche_err e = {0};
        char long_context[400];

        CHECK(err_set(&e, CLOCHE_E_MOUNT, "bind %s", "/usr") == -CLOCHE_E_MOUNT, "err_set returns the code");
        CHECK(strcmp(e.msg, "bind /usr") == 0, "and formats: %s", e.msg);
        err_os(&e, CLOCHE_E_MOUNT, ENOENT, "bind %s", "/usr");
        CHECK(strcmp(e.msg, "bind /usr: No such file or directory") == 0 && e.os_errno == ENOENT,
              "err_os adds the cause: %s", e.msg);
        CHECK(err_wrap(&e, "make box") == -CLOCHE_E_MOUNT, "err_wrap keeps the code");
        CHECK(strcmp(e.msg, "make box: bind /usr: No such file or directory") == 0, "and puts context before: %s",
              e.msg);
        memset(long_context, 'x', sizeof(long_context) - 1);
        long_context[sizeof(long_context) - 1] = '\0';
        err_wrap(&e, "%s", long_context);
        CHECK(strstr(e.msg, "No such file or directory") != NULL, "the cause survives a long context");
        err_os(&e, CLOCHE_E_MOUNT, ENOENT, "%s", long_context);
        CHECK(strstr(e.msg, "No such file or directory") != NULL, "and a long message");
        CHECK(strlen(e.msg) < sizeof(e.msg), "the text is terminated");
        CHECK(err_set(NULL, CLOCHE_E_MOUNT, "x") == -CLOCHE_E_MOUNT, "nobody needs to listen");
}

static void test_foreign_errors(void)
{
        struct cloche_err e = {.code = CLOCHE_E_MOUNT, .msg = "fine"};

        CHECK(err_check(&e) == 0 && e.code == CLOCHE_E_MOUNT, "a sound error of another process is taken");
        e.code = CLOCHE_CODE_COUNT;
        CHECK(err_check(&e) == -CLOCHE_E_PROTOCOL, "an unknown code is not: %s", e.msg);
        e.code = 1;
        memset(e.msg, 'x', sizeof(e.msg));
        CHECK(err_check(&e) == -CLOCHE_E_PROTOCOL, "nor an unterminated text");
}

static void test_names(void)
{
        for (unsigned code = 0; code < CLOCHE_CODE_COUNT; code++)
                CHECK(strcmp(cloche_code_name(code), "unknown") != 0, "code %u has a name: %s", code,
                      cloche_code_name(code));
        CHECK(strcmp(cloche_code_name(60000), "unknown") == 0, "a code of a newer version is no crash");
}

static void test_buffers(void)
{
        _cleanup_buf_ struct buf b = BUF_INIT(1000);
        char data[1001] = {0};

        CHECK(buf_append(&b, data, 1000) == 0 && b.size == 1000, "a buffer fills to its maximum");
        CHECK(buf_append(&b, data, 1) == -ENOBUFS && b.size == 1000, "and not further, unchanged");
        CHECK(buf_append(&b, data, SIZE_MAX) == -ENOBUFS, "sizes do not wrap");
        buf_consume(&b, 999);
        CHECK(b.size == 1, "what is consumed is gone");
        buf_consume(&b, 5);
        CHECK(b.size == 0, "consuming more than there is empties");
        CHECK(buf_append(&b, data, 1000) == 0, "the room is free again");
}

static void test_utf8(void)
{
        static const struct {
                const char *bytes, *valid;
                size_t character, good;
        } rows[] = {
                {"a", "a", 1, 1},
                {"\xc3\xa4", "\xc3\xa4", 2, 2},
                {"\xe2\x82\xac", "\xe2\x82\xac", 3, 3},
                {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80", 4, 4},
                {"\xe2\x82", UTF8_REPLACEMENT, 0, 2},
                {"\xe2\x82x", UTF8_REPLACEMENT "x", 0, 2},
                {"\x80", UTF8_REPLACEMENT, 0, 0},
                {"\xff\xff", UTF8_REPLACEMENT UTF8_REPLACEMENT, 0, 0},
                {"\xc0\xaf", UTF8_REPLACEMENT UTF8_REPLACEMENT, 0, 0},
                {"\xed\xa0\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT, 0, 1},
                {"\xf4\x90\x80\x80", UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT, 0, 1},
        };
        uint32_t code;
        size_t good;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                _cleanup_buf_ struct buf out = BUF_INIT(64);
                size_t size = strlen(rows[i].bytes);

                CHECK(utf8_character(rows[i].bytes, size, &good) == rows[i].character && good == rows[i].good,
                      "row %zu: a character of %zu bytes, %zu good", i, rows[i].character, rows[i].good);
                CHECK(utf8_append_valid(&out, rows[i].bytes, size) == 0 && out.size == strlen(rows[i].valid) &&
                              memcmp(out.data, rows[i].valid, out.size) == 0,
                      "row %zu: made valid", i);
                CHECK(utf8_is_valid(rows[i].bytes, size) == (strcmp(rows[i].bytes, rows[i].valid) == 0),
                      "row %zu: valid or not", i);
        }
        CHECK(utf8_decode("\xf0\x9f\x98\x80", 4, &code) == 4 && code == 0x1f600, "a code point");
        CHECK(utf8_character("", 0, &good) == 0 && good == 0 && utf8_is_valid("", 0), "no bytes");
        CHECK(utf8_count("a\xc3\xa4\xe2\x82\xac", 6) == 3 && utf8_offset("a\xc3\xa4\xe2\x82\xac", 6, 2) == 3 &&
                      utf8_offset("ab", 2, 9) == 2,
              "characters are counted");
        CHECK(utf8_cut("a\xc3\xa4", 3, 2) == 1 && utf8_cut("a\xc3\xa4", 3, 3) == 3 && utf8_cut("", 0, 4) == 0,
              "and not cut in two");
}

static void test_digits_and_dates(void)
{
        char text[CLOCK_TEXT_SIZE], digits[7];

        hex_write(digits, "\x00\x9f\xff", 3);
        CHECK(strcmp(digits, "009fff") == 0, "%s", digits);
        CHECK(hex_digit('0') == 0 && hex_digit('f') == 15 && hex_digit('F') == 15 && hex_digit('g') < 0 &&
                      hex_digit('@') < 0 && hex_digit('\0') < 0,
              "digits are read");
        CHECK(clock_write_utc(text, (struct timespec){1795342830, 165999999}) == 0 &&
                      strcmp(text, "2026-11-22T10:20:30.165Z") == 0,
              "%s", text);
        CHECK(clock_write_utc(text, (struct timespec){-46388592000, 0}) == 0 &&
                      strcmp(text, "0500-01-02T00:00:00.000Z") == 0,
              "%s", text);
        CHECK(clock_write_utc(text, (struct timespec){INT64_MAX, 0}) < 0 &&
                      clock_write_utc(text, (struct timespec){INT64_C(400000000000), 0}) < 0,
              "dates without such a form");
}

static void test_descriptors(void)
{
        int pair[2], got[2];
        size_t count = 1;
        _cleanup_fd_ int file_fd = fd_from_bytes("test", "hello", 5);
        struct rlimit before;
        char text[8] = {0};

        CHECK(file_fd >= 0 && fd_read_full(file_fd, text, 5) == 0 && strcmp(text, "hello") == 0, "bytes become a file");
        CHECK(write(file_fd, "x", 1) < 0 && errno == EPERM, "a sealed one");
        CHECK(fd_read_full(file_fd, text, 1) == -EPIPE, "an early end is an error");
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
                CHECK(0, "socketpair: %s", strerror(errno));
                return;
        }
        CHECK(fd_send(pair[0], "abc", 3, &file_fd, 1) == 0, "a packet with a descriptor is sent");
        CHECK(fd_receive(pair[1], text, sizeof(text), got, &count, 0) == 3 && count == 1, "and received");
        CHECK(count == 1 && (fcntl(got[0], F_GETFD) & FD_CLOEXEC), "close-on-exec");
        close(got[0]);
        fd_send(pair[0], "abcdefgh-too-long", 17, NULL, 0);
        count = 0;
        CHECK(fd_receive(pair[1], text, sizeof(text), NULL, &count, 0) == -EMSGSIZE,
              "a packet that was cut is refused");
        fd_send(pair[0], "abc", 3, &file_fd, 1);
        count = 0;
        CHECK(fd_receive(pair[1], text, sizeof(text), NULL, &count, 0) == -EMSGSIZE, "so are unexpected descriptors");
        fd_send(pair[0], "abc", 3, &file_fd, 1);
        count = 1;
        before = table_fill();
        CHECK(fd_receive(pair[1], text, sizeof(text), got, &count, 0) == -EMFILE && memcmp(text, "abc", 3) == 0,
              "a packet without room for its descriptors is whole");
        setrlimit(RLIMIT_NOFILE, &before);
        close(pair[0]);
        count = 0;
        CHECK(fd_receive(pair[1], text, sizeof(text), NULL, &count, 0) == 0, "the end is 0");
        close(pair[1]);
}

int main(void)
{
        test_errors();
        test_foreign_errors();
        test_names();
        test_buffers();
        test_utf8();
        test_digits_and_dates();
        test_descriptors();
        return tap_done();
}
