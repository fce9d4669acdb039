#include "artifact.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "CLOCHEN1"
#define ROWS_MAX 20000
#define PATH_BYTES 4096
#define DEPENDENCY_BYTES_MAX (64u << 20)

#define MARK_BEGIN UINT64_C(0xcbf29ce484222325)

/* magic · u32 flags · u32 rows · rows · u64 mark of the object · object; a row: u32 size of path
 * · path · u64 mark. Little endian, as an artifact is read by the kind of machine that wrote it. */

/* FNV-1a: against accidents. An attacker who could write an artifact could write a valid one. */
static uint64_t mark_bytes(uint64_t mark, const void *data, size_t size)
{
        const unsigned char *at = data;

        for (size_t i = 0; i < size; i++)
                mark = (mark ^ at[i]) * UINT64_C(0x100000001b3);
        return mark;
}

/* Files of the image are identified by their time; other files are new in every box and identified by their content. */
static int mark_of(const char *path, uint64_t *ret)
{
        uint64_t mark = MARK_BEGIN;
        unsigned char block[8192];
        size_t left = DEPENDENCY_BYTES_MAX;
        struct stat st;
        ssize_t n;
        _cleanup_fd_ int fd = -1;

        /* An artifact may name anything: devices and pipes are not even opened. */
        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        if (strncmp(path, "/usr/", 5) == 0) {
                uint64_t parts[3];

                parts[0] = (uint64_t)st.st_mtim.tv_sec;
                parts[1] = (uint64_t)st.st_mtim.tv_nsec;
                parts[2] = (uint64_t)st.st_size;
                *ret = mark_bytes(mark, parts, sizeof(parts));
                return 0;
        }
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
                return -1;
        while ((n = read(fd, block, sizeof(block))) > 0 && (size_t)n <= left) {
                mark = mark_bytes(mark, block, (size_t)n);
                left -= (size_t)n;
        }
        *ret = mark;
        return n == 0 ? 0 : -1;
}

static int append(struct buf *out, const void *data, size_t size)
{
        return buf_append(out, data, size) < 0 ? -1 : 0;
}

static int append_row(struct buf *out, const char *path, size_t size)
{
        char text[PATH_BYTES];
        uint32_t length = (uint32_t)size;
        uint64_t mark;

        if (size >= sizeof(text))
                return -1;
        memcpy(text, path, size);
        text[size] = '\0';
        if (mark_of(text, &mark) < 0)
                return -1;
        return append(out, &length, sizeof(length)) || append(out, text, size) || append(out, &mark, sizeof(mark));
}

static int append_file(struct buf *out, const char *path)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        uint64_t mark;
        char *room;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -1;
        room = buf_reserve(out, (size_t)st.st_size + sizeof(mark));
        if (!room || fd_read_full(fd, room + sizeof(mark), (size_t)st.st_size) < 0)
                return -1;
        mark = mark_bytes(MARK_BEGIN, room + sizeof(mark), (size_t)st.st_size);
        memcpy(room, &mark, sizeof(mark));
        out->size += (size_t)st.st_size + sizeof(mark);
        return 0;
}

int artifact_pack(const char *object, const struct buf *dependencies, unsigned flags, struct buf *out)
{
        uint32_t kept_flags = flags, rows = 0;
        size_t at = 0, end;

        if (dependencies->size > 0 && dependencies->data[dependencies->size - 1] != '\n')
                return -1;
        for (size_t i = 0; i < dependencies->size; i++)
                rows += dependencies->data[i] == '\n';
        if (rows > ROWS_MAX || append(out, MAGIC, 8) || append(out, &kept_flags, 4) || append(out, &rows, 4))
                return -1;
        for (; at < dependencies->size; at = end + 1) {
                for (end = at; dependencies->data[end] != '\n';)
                        end++;
                if (append_row(out, dependencies->data + at, end - at))
                        return -1;
        }
        return append_file(out, object);
}

struct cursor {
        const unsigned char *at;
        size_t left;
};

static int take(struct cursor *c, void *ret, size_t size)
{
        if (size > c->left)
                return 0;
        memcpy(ret, c->at, size);
        c->at += size;
        c->left -= size;
        return 1;
}

static int row_holds(struct cursor *c)
{
        char path[PATH_BYTES];
        uint32_t length;
        uint64_t then, now;

        if (!take(c, &length, sizeof(length)) || length >= sizeof(path) || !take(c, path, length))
                return 0;
        path[length] = '\0';
        return take(c, &then, sizeof(then)) && mark_of(path, &now) == 0 && now == then;
}

int artifact_unpack(const void *data, size_t size, const char *object, unsigned *ret_flags)
{
        struct cursor c = {data, size};
        char magic[8];
        uint32_t flags, rows;
        uint64_t mark;
        _cleanup_fd_ int fd = -1;

        if (!take(&c, magic, sizeof(magic)) || memcmp(magic, MAGIC, sizeof(magic)) != 0 || !take(&c, &flags, 4) ||
            !take(&c, &rows, 4) || rows > ROWS_MAX)
                return 0;
        while (rows-- > 0)
                if (!row_holds(&c))
                        return 0;
        if (!take(&c, &mark, sizeof(mark)) || mark != mark_bytes(MARK_BEGIN, c.at, c.left))
                return 0;
        fd = open(object, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        *ret_flags = flags;
        return fd >= 0 && fd_write_full(fd, c.at, c.left) == 0;
}
