/* Input of the agent of C and C++ that it did not make itself: an artifact (it begins with its magic), or a compiler's
 * list of dependencies. A valid artifact equals the packing of its parts; a list that can be packed gives a valid one.
 */
#include "../../runtimes/c/artifact.h"
#include "../../runtimes/c/dependencies.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MAX (2u << 20)
#define OWN "/tmp/cloche-"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/fuzz-artifact-XXXXXX", object[64], other[64];

static void remove_directory(void)
{
        unlink(object);
        unlink(other);
        rmdir(directory);
}

static void make_directory(void)
{
        FILE *file;

        if (!mkdtemp(directory))
                abort();
        snprintf(object, sizeof(object), "%s/object", directory);
        snprintf(other, sizeof(other), "%s/other", directory);
        file = fopen(other, "w");
        if (!file || fputs("an object", file) < 0 || fclose(file) != 0 || atexit(remove_directory) != 0)
                abort();
}

static uint32_t number_at(const uint8_t *data)
{
        uint32_t number;

        memcpy(&number, data, sizeof(number));
        return number;
}

/* The paths of an artifact that holds, a line each; 0: they cannot stand so. */
static int list_paths(const uint8_t *data, struct buf *list)
{
        uint32_t rows = number_at(data + 12);

        for (data += 16; rows > 0; rows--, data += 4 + number_at(data) + 8) {
                uint32_t size = number_at(data);

                if (memchr(data + 4, '\n', size) || memchr(data + 4, '\0', size))
                        return 0;
                dependencies_append(list, (const char *)data + 4, size);
        }
        return 1;
}

static void unpack(const uint8_t *data, size_t size)
{
        struct buf list = BUF_INIT(BYTES_MAX), again = BUF_INIT(BYTES_MAX);
        unsigned flags = 0;

        unlink(object);
        if (artifact_unpack(data, size, object, &flags) && list_paths(data, &list) &&
            (artifact_pack(object, &list, flags, &again) < 0 || again.size != size ||
             memcmp(again.data, data, size) != 0))
                abort();
        buf_done(&list);
        buf_done(&again);
}

/* Lines that are not empty, nor begin with the excluded prefix. */
static void must_be_lines(const struct buf *list)
{
        for (size_t at = 0, end; at < list->size; at = end + 1) {
                for (end = at; end < list->size && list->data[end] != '\n';)
                        end++;
                if (end == at || end == list->size ||
                    (end - at >= strlen(OWN) && memcmp(list->data + at, OWN, strlen(OWN)) == 0))
                        abort();
        }
}

/* The kernel may answer otherwise the next time. */
static int is_lasting(const struct buf *list)
{
        return list->size == 0 ||
               (!memmem(list->data, list->size, "proc", 4) && !memmem(list->data, list->size, "sys", 3));
}

static void parse(const char *text, size_t size)
{
        struct buf list = BUF_INIT(BYTES_MAX), made = BUF_INIT(BYTES_MAX);
        unsigned flags;

        dependencies_parse(text, size, OWN, &list);
        must_be_lines(&list);
        unlink(object);
        if (artifact_pack(other, &list, 1, &made) == 0 && is_lasting(&list) &&
            (!artifact_unpack(made.data, made.size, object, &flags) || flags != 1))
                abort();
        buf_done(&list);
        buf_done(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (!*object)
                make_directory();
        if (size >= 8 && memcmp(data, "CLOCHEN1", 8) == 0)
                unpack(data, size);
        else
                parse((const char *)data, size);
        return 0;
}
