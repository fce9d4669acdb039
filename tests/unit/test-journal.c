/* The journal of a sync: written entries are read again, and nothing else is. */
#include "helpers/sync/journal.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static void fill(struct journal *journal)
{
        static const struct {
                enum step_op op;
                const char *path;
                unsigned flags;
        } rows[] = {{STEP_SET, "", 0},
                    {STEP_TAKE, "a/b", STEP_FROM_OLD},
                    {STEP_PUT, "\xff\n", STEP_ANY},
                    {STEP_SWAP, "c", STEP_FLAGS_ALL}};

        journal->transaction = 0x1122334455667788;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct step *step = steps_add(&journal->steps, rows[i].op, (uint32_t)i * 7, rows[i].path);

                step->flags = rows[i].flags;
                step->displaced = (struct lower_identity){1, UINT64_MAX, 3, INT64_MIN, -5};
                step->displaced_mode = 0100644;
                step->moved = i << 40;
                step->mode = 07777;
                step->mtime_ns = -1;
        }
}

static void test_round_trip(void)
{
        struct journal written = {0}, read;
        struct buf bytes = BUF_INIT(1u << 20);
        struct cloche_err e = {0};

        fill(&written);
        CHECK(journal_encode(&written, &bytes) == 0, "a journal is written");
        CHECK(journal_decode(bytes.data, bytes.size, &read, &e) == 0, "and read: %s", e.msg);
        CHECK(read.transaction == written.transaction && read.steps.count == written.steps.count,
              "with its number and all steps");
        for (size_t i = 0; i < read.steps.count && i < written.steps.count; i++) {
                const struct step *a = &written.steps.rows[i], *b = &read.steps.rows[i];

                CHECK(strcmp(a->path, b->path) == 0 && a->op == b->op && a->flags == b->flags && a->number == b->number,
                      "step %zu: what and where", i);
                CHECK(memcmp(&a->displaced, &b->displaced, sizeof(a->displaced)) == 0 &&
                              a->displaced_mode == b->displaced_mode,
                      "step %zu: displaced", i);
                CHECK(a->moved == b->moved && a->mode == b->mode && a->mtime_ns == b->mtime_ns, "step %zu: the rest",
                      i);
        }
        journal_done(&read);
        journal_done(&written);
        buf_done(&bytes);
}

static int is_refused(const char *data, size_t size)
{
        struct journal read;
        struct cloche_err e = {0};
        int r = journal_decode(data, size, &read, &e);

        journal_done(&read);
        return r == -CLOCHE_E_STATE && strstr(e.msg, "damaged at byte") != NULL;
}

static void test_damage(void)
{
        struct journal written = {0};
        struct buf bytes = BUF_INIT(1u << 20);
        size_t believed = 0;
        char *copy;

        fill(&written);
        journal_encode(&written, &bytes);
        for (size_t i = 0; i < bytes.size; i++) {
                for (int bit = 0; bit < 8; bit++) {
                        bytes.data[i] ^= (char)(1 << bit);
                        believed += !is_refused(bytes.data, bytes.size);
                        bytes.data[i] ^= (char)(1 << bit);
                }
                copy = malloc(i + 1); /* its own piece of memory, so that a sanitizer detects reads past its end */
                memcpy(copy, bytes.data, i);
                believed += !is_refused(copy, i);
                free(copy);
        }
        CHECK(believed == 0, "none of %zu damaged journals is believed", bytes.size * 9);
        buf_append(&bytes, "x", 1);
        CHECK(is_refused(bytes.data, bytes.size), "nor one with more behind it");
        bytes.size--;
        CHECK(!is_refused(bytes.data, bytes.size), "whole it is");
        journal_done(&written);
        buf_done(&bytes);
}

/* Right sums do not make a step of it. */
static void test_impossible_steps(void)
{
        static const char *const paths[] =
                {"/etc", "..", "a/../b", "a//b", ".cloche-sync/n0", "a/.cloche-sync", "a/.CLOCHE-sync/b", ""};

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
                struct journal written = {0};
                struct buf bytes = BUF_INIT(1u << 20);

                steps_add(&written.steps, STEP_TAKE, 0, paths[i]);
                journal_encode(&written, &bytes);
                CHECK(is_refused(bytes.data, bytes.size), "a step at '%s' is refused", paths[i]);
                journal_done(&written);
                buf_done(&bytes);
        }
}

static void test_conflict_names(void)
{
        static const struct {
                const char *name, *expected;
        } rows[] = {{"a.txt", "a.cloche-conflict-2.txt"},
                    {"a", "a.cloche-conflict-2"},
                    {".env", ".env.cloche-conflict-2"},
                    {"a.b.c", "a.b.cloche-conflict-2.c"}};
        char name[LIST_NAME_MAX + 1], longest[LIST_NAME_MAX + 1];

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                CHECK(step_conflict_name(rows[i].name, 2, name) && strcmp(name, rows[i].expected) == 0, "%s beside: %s",
                      rows[i].name, name);
        memset(longest, 'x', LIST_NAME_MAX);
        longest[LIST_NAME_MAX] = '\0';
        CHECK(!step_conflict_name(longest, 1, name), "the longest name has no room for more");
}

int main(void)
{
        test_round_trip();
        test_damage();
        test_impossible_steps();
        test_conflict_names();
        return tap_done();
}
