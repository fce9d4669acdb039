/* Builds are kept by content, complete, owned by us, and within a bound. */
#include "engine/warm/artifact.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/test-artifact-XXXXXX";

static void key_of(const char *a, const char *b, char ret[ARTIFACT_KEY_SIZE])
{
        const struct artifact_part parts[] = {{a, strlen(a)}, {b, strlen(b)}};

        artifact_key(parts, 2, ret);
}

static void test_keys(void)
{
        char one[ARTIFACT_KEY_SIZE], other[ARTIFACT_KEY_SIZE];

        key_of("ab", "c", one);
        key_of("ab", "c", other);
        CHECK(strcmp(one, other) == 0 && strlen(one) == 64, "the same parts: %s", one);
        key_of("a", "bc", other);
        CHECK(strcmp(one, other) != 0, "where a part ends counts");
        key_of("ab", "d", other);
        CHECK(strcmp(one, other) != 0, "every byte counts");
}

static void test_save_and_load(int fd)
{
        struct buf found = BUF_INIT(ARTIFACT_BYTES_MAX);
        char key[ARTIFACT_KEY_SIZE], path[200];

        key_of("program", "flags", key);
        CHECK(artifact_load(fd, key, &found) == 0 && found.size == 0, "nothing yet");
        CHECK(artifact_save(fd, key, "abc\0d", 5) == 0, "saved");
        CHECK(artifact_load(fd, key, &found) == 1 && found.size == 5 && memcmp(found.data, "abc\0d", 5) == 0,
              "loaded: %zu", found.size);
        found.size = 0;
        CHECK(artifact_save(fd, key, "new", 3) == 0 && artifact_load(fd, key, &found) == 1 && found.size == 3,
              "replaced");
        snprintf(path, sizeof(path), "%s/%s", directory, key);
        chmod(path, 0666);
        CHECK(artifact_load(fd, key, &found) == 0, "one that others may write is not taken");
        unlink(path);
        CHECK(symlink("/etc/passwd", path) == 0 && artifact_load(fd, key, &found) == 0, "nor is a link");
        unlink(path);
        CHECK(artifact_save(fd, key, "x", ARTIFACT_BYTES_MAX + 1u) == -EFBIG, "too large");
        buf_done(&found);
        CHECK(artifact_load(-ENOENT, key, &found) == 0 && artifact_save(-ENOENT, key, "x", 1) == -ENOENT,
              "without a directory");
}

static int exists(const char *key)
{
        char path[200];

        snprintf(path, sizeof(path), "%s/%s", directory, key);
        return access(path, F_OK) == 0;
}

/* Sparse files stand for the files of a full directory; number 0 was used last, 5 longest ago. */
static void test_bound(int fd)
{
        char keys[6][ARTIFACT_KEY_SIZE], last[ARTIFACT_KEY_SIZE], number[16];

        for (int i = 0; i < 6; i++) {
                const struct timespec times[2] = {{1000000 - i, 0}, {1000000 - i, 0}};
                int made;

                snprintf(number, sizeof(number), "%d", i);
                key_of("old", number, keys[i]);
                made = openat(fd, keys[i], O_WRONLY | O_CREAT, 0600);
                CHECK(made >= 0 && ftruncate(made, 50 << 20) == 0 && futimens(made, times) == 0, "50 MiB of nothing");
                close(made);
        }
        key_of("new", "", last);
        CHECK(artifact_save(fd, last, "x", 1) == 0, "one more");
        CHECK(exists(last) && exists(keys[0]) && exists(keys[2]), "what was used lately stays");
        CHECK(!exists(keys[5]) && !exists(keys[4]) && !exists(keys[3]), "what was not goes");
}

static void test_directories(void)
{
        char path[200];
        int fd;

        CHECK(artifacts_open("", geteuid()) == -ENOENT, "none is wanted");
        snprintf(path, sizeof(path), "%s/a/b", directory);
        fd = artifacts_open(path, geteuid());
        CHECK(fd >= 0, "made where missing: %d", fd);
        close(fd);
        chmod(path, 0777);
        CHECK(artifacts_open(path, geteuid()) == -EPERM, "one that others may write to is refused");
        setenv("XDG_CACHE_HOME", directory, 1);
        fd = artifacts_open(NULL, geteuid());
        CHECK(fd >= 0 && exists("cloche"), "the default");
        close(fd);
        setenv("XDG_CACHE_HOME", "not/absolute", 1);
        setenv("HOME", "", 1);
        CHECK(artifacts_open(NULL, geteuid()) == -ENOENT, "no home");
}

int main(void)
{
        char command[200];
        int fd;

        if (!mkdtemp(directory))
                return 1;
        fd = artifacts_open(directory, geteuid());
        CHECK(fd >= 0, "open %s", directory);
        test_keys();
        test_save_and_load(fd);
        test_bound(fd);
        test_directories();
        close(fd);
        snprintf(command, sizeof(command), "rm -rf %s", directory);
        CHECK(system(command) == 0, "removed");
        return tap_done();
}
