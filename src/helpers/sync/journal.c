/* Write and read the journal. Runs in: cloche-sync, as the directory's owner, Landlocked to it. */
#include "journal.h"

#include "base/err.h"
#include "base/fd.h"
#include "crash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#define MAGIC 0x31636e797363ull /* "csync1" */
#define HEAD_SIZE 8
#define STEP_FIXED_SIZE (4 * 4 + 8 * 7)

/* -- bytes ---------------------------------------------------------------------------------------------------- */

struct cursor {
        unsigned char *at;
};

static void put(struct cursor *c, uint64_t value, size_t size)
{
        for (size_t i = 0; i < size; i++)
                *c->at++ = (unsigned char)(value >> (8 * i));
}

static uint64_t get(struct cursor *c, size_t size)
{
        uint64_t value = 0;

        for (size_t i = 0; i < size; i++)
                value |= (uint64_t)*c->at++ << (8 * i);
        return value;
}

/* Reserve a record; its payload begins at HEAD_SIZE. NULL when out of memory. */
static unsigned char *start_record(struct buf *b, size_t size)
{
        unsigned char *at = (unsigned char *)buf_reserve(b, HEAD_SIZE + size);

        if (at)
                b->size += HEAD_SIZE + size;
        return at;
}

static uint32_t end_record(unsigned char *record, size_t size, uint32_t crc)
{
        struct cursor head = {record};

        put(&head, size, 4);
        crc = (uint32_t)crc32(crc32(crc, record, 4), record + HEAD_SIZE, (unsigned)size);
        put(&head, crc, 4);
        return crc;
}

/* -- writing -------------------------------------------------------------------------------------------------- */

static int add_numbers(struct buf *b, uint64_t first, uint64_t second, uint32_t *crc)
{
        unsigned char *record = start_record(b, 16);
        struct cursor c = {record ? record + HEAD_SIZE : NULL};

        if (!record)
                return -ENOMEM;
        put(&c, first, 8);
        put(&c, second, 8);
        *crc = end_record(record, 16, *crc);
        return 0;
}

static int add_step(struct buf *b, const struct step *step, uint32_t *crc)
{
        size_t path_size = strlen(step->path), size = STEP_FIXED_SIZE + path_size;
        unsigned char *record = start_record(b, size);
        struct cursor c = {record ? record + HEAD_SIZE : NULL};

        if (!record)
                return -ENOMEM;
        put(&c, step->op | step->flags << 8, 4);
        put(&c, step->number, 4);
        put(&c, step->displaced_mode, 4);
        put(&c, step->mode, 4);
        put(&c, step->displaced.dev, 8);
        put(&c, step->displaced.ino, 8);
        put(&c, step->displaced.size, 8);
        put(&c, (uint64_t)step->displaced.mtime_ns, 8);
        put(&c, (uint64_t)step->displaced.ctime_ns, 8);
        put(&c, step->moved, 8);
        put(&c, (uint64_t)step->mtime_ns, 8);
        memcpy(c.at, step->path, path_size);
        *crc = end_record(record, size, *crc);
        return 0;
}

int journal_encode(const struct journal *journal, struct buf *ret)
{
        uint32_t crc = 0;
        int r = add_numbers(ret, MAGIC, journal->transaction, &crc);

        for (size_t i = 0; r == 0 && i < journal->steps.count; i++)
                r = add_step(ret, &journal->steps.rows[i], &crc);
        return r < 0 ? r : add_numbers(ret, MAGIC, journal->steps.count, &crc);
}

/* -- reading -------------------------------------------------------------------------------------------------- */

struct reader {
        unsigned char *data;
        size_t size, at;
        uint32_t crc;
};

/* The next intact record; *ret_size is the size of its payload. */
static unsigned char *next_record(struct reader *r, size_t *ret_size)
{
        struct cursor head = {r->data + r->at};
        unsigned char *payload = r->data + r->at + HEAD_SIZE;
        size_t size;
        uint32_t crc;

        if (r->size - r->at < HEAD_SIZE)
                return NULL;
        size = get(&head, 4);
        if (size > r->size - r->at - HEAD_SIZE)
                return NULL;
        crc = (uint32_t)crc32(crc32(r->crc, r->data + r->at, 4), payload, (unsigned)size);
        if (crc != get(&head, 4))
                return NULL;
        r->crc = crc;
        r->at += HEAD_SIZE + size;
        *ret_size = size;
        return payload;
}

static int read_step(const unsigned char *payload, size_t size, struct steps *steps)
{
        struct cursor c = {(unsigned char *)(uintptr_t)payload};
        char path[LIST_PATH_MAX + 1];
        struct step *step;
        uint64_t op;

        if (size < STEP_FIXED_SIZE || size - STEP_FIXED_SIZE > LIST_PATH_MAX ||
            memchr(payload + STEP_FIXED_SIZE, '\0', size - STEP_FIXED_SIZE))
                return -EINVAL;
        memcpy(path, payload + STEP_FIXED_SIZE, size - STEP_FIXED_SIZE);
        path[size - STEP_FIXED_SIZE] = '\0';
        op = get(&c, 4);
        if ((op & 0xff) >= STEP_OP_COUNT || op >> 8 > STEP_FLAGS_ALL ||
            (list_path_fault(path) && (*path || (op & 0xff) != STEP_SET)))
                return -EINVAL;
        step = steps_add(steps, (enum step_op)(op & 0xff), (uint32_t)get(&c, 4), path);
        if (!step)
                return -ENOMEM;
        step->flags = (unsigned)(op >> 8);
        step->displaced_mode = (unsigned)get(&c, 4);
        step->mode = (unsigned)get(&c, 4);
        step->displaced.dev = get(&c, 8);
        step->displaced.ino = get(&c, 8);
        step->displaced.size = get(&c, 8);
        step->displaced.mtime_ns = (int64_t)get(&c, 8);
        step->displaced.ctime_ns = (int64_t)get(&c, 8);
        step->moved = get(&c, 8);
        step->mtime_ns = (int64_t)get(&c, 8);
        return 0;
}

static int read_numbers(struct reader *r, uint64_t *ret)
{
        size_t size = 0;
        unsigned char *payload = next_record(r, &size);
        struct cursor c = {payload};

        if (!payload || size != 16 || get(&c, 8) != MAGIC)
                return -EINVAL;
        *ret = get(&c, 8);
        return 0;
}

/* Read steps up to the last record, which holds their count. */
static int read_steps(struct reader *r, struct steps *steps)
{
        for (;;) {
                size_t begun = r->at, size = 0;
                struct reader before = *r;
                unsigned char *payload = next_record(r, &size);
                uint64_t count;
                int result;

                if (!payload)
                        return -EINVAL;
                if (size == 16) {
                        *r = before;
                        return read_numbers(r, &count) < 0 || count != steps->count || r->at != r->size ? -EINVAL : 0;
                }
                result = read_step(payload, size, steps);
                if (result < 0) {
                        r->at = begun;
                        return result;
                }
        }
}

int journal_decode(const char *data, size_t size, struct journal *ret, struct cloche_err *e)
{
        struct reader r = {.data = (unsigned char *)(uintptr_t)data, .size = size};
        int result;

        *ret = (struct journal){0};
        result = read_numbers(&r, &ret->transaction);
        if (result == 0)
                result = read_steps(&r, &ret->steps);
        if (result == -ENOMEM)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the journal");
        if (result < 0)
                return err_set(e, CLOCHE_E_STATE,
                               "the journal is damaged at byte %zu of %zu; " STAGE_NAME
                               " is left as it is: move its files to their places, and remove it",
                               r.at, size);
        return 0;
}

void journal_done(struct journal *journal)
{
        steps_done(&journal->steps);
}

/* -- the file ------------------------------------------------------------------------------------------------- */

int journal_write(const struct stage *stage, const struct journal *journal)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(JOURNAL_BYTES_MAX);
        _cleanup_fd_ int fd = -EBADF;
        int r = journal_encode(journal, &bytes);

        if (r < 0)
                return r;
        fd = openat(stage->dir_fd, stage_state_name(STAGE_DRAFT), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
        if (fd < 0)
                return -errno;
        crash_point();
        r = fd_write_full(fd, bytes.data, bytes.size);
        crash_point();
        return r;
}

int journal_read(const struct stage *stage, enum stage_state state, struct journal *ret, struct cloche_err *e)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(JOURNAL_BYTES_MAX);
        _cleanup_fd_ int fd =
                openat(stage->dir_fd, stage_state_name(state), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat st;
        char *at;

        *ret = (struct journal){0};
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_os(e, CLOCHE_E_STATE, errno, "open the journal");
        if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > JOURNAL_BYTES_MAX)
                return err_set(e, CLOCHE_E_STATE, "the journal is not a file, or has more than %u bytes",
                               JOURNAL_BYTES_MAX);
        at = buf_reserve(&bytes, (size_t)st.st_size);
        if (!at)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the journal");
        if (fd_read_full(fd, at, (size_t)st.st_size) < 0)
                return err_os(e, CLOCHE_E_STATE, EIO, "read the journal");
        return journal_decode(at, (size_t)st.st_size, ret, e);
}
