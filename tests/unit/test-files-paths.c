/* Texts that cloche-files checks: paths, members of archives, the type of a file's bytes. */
#include "base/utf8.h"
#include "box/files/archive/member.h"
#include "box/files/tree/contents.h"
#include "box/files/tree/path-set.h"
#include "box/files/tree/path.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static void absolute(const char *given, const char *expected)
{
        char *path = NULL;
        struct cloche_err e = {0};
        int r = path_absolute("/workspace", given, &path, &e);

        if (expected)
                CHECK(r == 0 && strcmp(path, expected) == 0, "%s is %s", given, expected);
        else
                CHECK(r == -CLOCHE_E_INVALID_ARGUMENT && e.msg[0], "%.40s is refused: %s", given, e.msg);
        free(path);
}

static void test_paths(void)
{
        char *many = malloc(PATH_BYTES_MAX + 2), *path;

        memset(many, 'a', PATH_BYTES_MAX + 1);
        many[PATH_BYTES_MAX + 1] = '\0';
        absolute("a", "/workspace/a");
        absolute("./a//b/./c/", "/workspace/a/b/c");
        absolute("/a/../b", "/a/../b");
        absolute("/", "/");
        absolute("//./", "/");
        absolute(".", "/workspace");
        absolute("..", "/workspace/..");
        absolute(".hidden/..x", "/workspace/.hidden/..x");
        absolute("", NULL);
        absolute(many, NULL);
        many[PATH_BYTES_MAX - 4] = '\0'; /* fits alone, but not below /workspace */
        absolute(many, NULL);
        free(many);
        path = path_parent("/a/b");
        CHECK(strcmp(path, "/a") == 0 && strcmp(path_name("/a/b"), "b") == 0, "a path's parent and name");
        free(path);
        path = path_parent("/a");
        CHECK(strcmp(path, "/") == 0, "the parent at the top");
        free(path);
        CHECK(path_is_temporary(".cloche-0123456789abcdef"), "a name of ours");
        CHECK(!path_is_temporary(".cloche-0123456789abcdeg") && !path_is_temporary(".cloche-upload") &&
                      !path_is_temporary(".cloche-0123456789abcdef0"),
              "names that are not ours");
}

static void member(const char *given, const char *expected)
{
        char path[MEMBER_PATH_MAX + 1];
        struct cloche_err e = {0};
        int r = member_path(given, path, &e);

        if (expected)
                CHECK(r == 0 && strcmp(path, expected) == 0, "the member %s is %s", given, expected);
        else
                CHECK(r == -CLOCHE_E_BAD_ARCHIVE && e.msg[0], "the member %.40s is refused: %.80s", given, e.msg);
}

static void link_to(const char *path, const char *target, int is_taken)
{
        struct cloche_err e = {0};

        CHECK((member_check_link(path, target, &e) == 0) == is_taken, "a link at %s to %s is %s %s", path, target,
              is_taken ? "taken" : "refused", e.msg);
}

static void test_members(void)
{
        char name[MEMBER_NAME_MAX + 2];

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        member("a/b", "a/b");
        member("./a//b/", "a/b");
        member("./", "");
        member("..a/b..", "..a/b..");
        member("/a", NULL);
        member("../a", NULL);
        member("a/../b", NULL);
        member("a/..", NULL);
        member(name, NULL);
        name[MEMBER_NAME_MAX] = '\0';
        member(name, name);
        link_to("a", "b", 1);
        link_to("a", "b/c/d", 1);
        link_to("d/a", "../b", 1);
        link_to("d/e/a", "../../b", 1);
        link_to("a", "./b", 1);
        link_to("d/a", "..", 1);
        link_to("a", "..", 0);
        link_to("a", "../b", 0);
        link_to("d/a", "../../b", 0);
        link_to("a", "/etc/passwd", 0);
        link_to("a", "b/../..", 0);
        link_to("d/a", "x/..", 0);
        link_to("a", "", 0);
}

static void test_path_set(void)
{
        struct path_set set = {0};
        int all = 1, none = 1;
        char path[32];

        CHECK(!path_set_has(&set, "a", 1), "nothing is in an empty set");
        for (int i = 0; i < 100000; i++) {
                int size = snprintf(path, sizeof(path), "d%d/f", i);

                all &= path_set_add(&set, path, (size_t)size) == 1;
        }
        for (int i = 0; i < 100000; i++) {
                int size = snprintf(path, sizeof(path), "d%d/f", i);

                all &= path_set_has(&set, path, (size_t)size) && path_set_add(&set, path, (size_t)size) == 0;
                none &= !path_set_has(&set, path, (size_t)size - 1);
        }
        CHECK(all && set.count == 100000, "each path is in it once");
        CHECK(none, "none but these are");
        path_set_done(&set);
}

static void utf8(const char *text, int is_utf8)
{
        CHECK(utf8_is_valid(text, strlen(text)) == is_utf8, "%zu bytes from %02x on are %sUTF-8", strlen(text),
              (unsigned char)*text, is_utf8 ? "" : "not ");
}

static void test_contents(void)
{
        utf8("", 1);
        utf8("plain", 1);
        utf8("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8d\x8f", 1);
        utf8("\xc3", 0);
        utf8("\xc0\xaf", 0);
        utf8("\xe0\x80\x80", 0);
        utf8("\xed\xa0\x80", 0);
        utf8("\xf4\x90\x80\x80", 0);
        utf8("\xf5\x80\x80\x80", 0);
        utf8("a\x80", 0);
        CHECK(utf8_is_valid("a\0b", 3), "NUL is UTF-8 like any other");
        CHECK(strcmp(contents_type("x.py", "print(1)", 8, 1), "text/x-python") == 0, "a type by the name");
        CHECK(strcmp(contents_type("x.py", "\xff\xfe", 2, 0), "application/octet-stream") == 0,
              "a name that promises text is not believed");
        CHECK(strcmp(contents_type("x.txt", "\x89PNG\r\n\x1a\n", 8, 0), "image/png") == 0,
              "the bytes are believed before the name");
        CHECK(strcmp(contents_type("README", "hello", 5, 1), "text/plain") == 0, "other text");
        CHECK(strcmp(contents_type("x", "", 0, 1), "text/plain") == 0, "nothing is text");
}

int main(void)
{
        test_paths();
        test_members();
        test_path_set();
        test_contents();
        return tap_done();
}
