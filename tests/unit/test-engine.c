/* Pure parts of the engine: output, limits, paths, lists of files. */
#include "engine/box/files.h"
#include "engine/box/limits.h"
#include "engine/loop/output.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static void check_output(uint64_t limit, const char *const *pieces, const char *expected, uint64_t dropped)
{
        struct output o;
        struct buf text;

        output_init(&o, limit);
        for (; *pieces; pieces++)
                CHECK(output_append(&o, *pieces, strlen(*pieces)) == 0, "append %zu bytes", strlen(*pieces));
        CHECK(output_text(&o, &text) == 0 && text.size == strlen(expected) &&
                      memcmp(text.data ? text.data : "", expected, text.size) == 0,
              "kept of a limit of %llu: '%.*s'", (unsigned long long)limit, (int)text.size, text.data ? text.data : "");
        CHECK(output_dropped(&o) == dropped, "dropped: %llu", (unsigned long long)output_dropped(&o));
        buf_done(&text);
        output_done(&o);
}

static void test_output(void)
{
        check_output(8, (const char *[]){NULL}, "", 0);
        check_output(8, (const char *[]){"abc", NULL}, "abc", 0);
        check_output(8, (const char *[]){"abcdefgh", NULL}, "abcdefgh", 0);
        check_output(8, (const char *[]){"abcdefghi", NULL}, "abcd\n[… 1 bytes dropped …]\nfghi", 1);
        check_output(8, (const char *[]){"a", "b", "cd", "efghijklmnopqrstuvw", "x", "yz", NULL},
                     "abcd\n[… 18 bytes dropped …]\nwxyz", 18);
        check_output(1, (const char *[]){"abc", NULL}, "a\n[… 2 bytes dropped …]\n", 2);
        check_output(UINT64_MAX, (const char *[]){"abc", "def", NULL}, "abcdef", 0);
}

static void test_limits(void)
{
        struct cloche_limits asked = {0}, got;
        struct cloche_err e = {0};

        CHECK(limits_resolve(&asked, &got, &e) == 0 && got.wall_ms == 30000 && got.pids == 128, "0 means the default");
        asked.wall_ms = CLOCHE_UNLIMITED;
        CHECK(limits_resolve(&asked, &got, &e) == 0 && got.wall_ms == CLOCHE_UNLIMITED, "none stays none");
        asked.pids = 1;
        CHECK(limits_resolve(&asked, &got, &e) == -CLOCHE_E_INVALID_ARGUMENT && strstr(e.msg, "pids"),
              "out of range: %s", e.msg);
}

static void test_paths(void)
{
        static const struct {
                const char *path, *resolved;
        } rows[] = {
                {"a.txt", "/workspace/a.txt"},
                {"d/e/f", "/workspace/d/e/f"},
                {"/tmp/x", "/tmp/x"},
                {"/home/cloche/.x", "/home/cloche/.x"},
                {"..", NULL},
                {"../x", NULL},
                {"a/../b", NULL},
                {"", NULL},
                {"/", NULL},
                {"/.", NULL},
                {"a/./b", "/workspace/a/b"},
                {"a//b", "/workspace/a/b"},
                {"a/", "/workspace/a"},
                {"./a", "/workspace/a"},
                {"//tmp//x/.", "/tmp/x"},
                {"/etc/passwd", NULL},
                {"/workspacex", NULL},
                {"/tmp/../etc", NULL},
                {"/proc/self/mem", NULL},
        };
        char path[4096];
        struct cloche_err e = {0};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int r = files_resolve(rows[i].path, "/workspace", path, sizeof(path), &e);

                CHECK(rows[i].resolved ? r == 0 && strcmp(path, rows[i].resolved) == 0 : r < 0, "'%s': %s",
                      rows[i].path, r < 0 ? e.msg : path);
        }
}

static char *record(char *at, const char *path)
{
        struct init_entry entry = {.path_size = (uint32_t)strlen(path)};

        memcpy(at, &entry, sizeof(entry));
        memcpy(at + sizeof(entry), path, strlen(path));
        return at + sizeof(entry) + strlen(path);
}

static void test_lists(void)
{
        struct files files = {0};
        struct cloche_err e = {0};
        char *bytes = malloc(1000), *end = record(record(bytes, "b"), "a");

        CHECK(files_parse(bytes, (size_t)(end - bytes), &files, &e) == 0 && files.count == 2, "a list is read");
        CHECK(files.count == 2 && files.entries[0].path[0] == 'a', "and sorted");
        files_done(&files);
        bytes = malloc(1000);
        end = record(bytes, "name");
        CHECK(files_parse(bytes, (size_t)(end - bytes) - 1, &files, &e) == -CLOCHE_E_PROTOCOL,
              "one that ends early is refused: %s", e.msg);
}

int main(void)
{
        test_output();
        test_limits();
        test_paths();
        test_lists();
        return tap_done();
}
