/* The journal of a transaction: all of its steps, written once and never changed. The file's name
 * is the transaction's state:
 *
 *     draft ──commit──▶ journal ──all steps done──▶ done
 *                          └──a step failed──▶ undo ──all undone──▶ undone
 *
 * Nothing is displaced before the name is journal, so a draft is deleted unread. A journal is
 * accepted whole or rejected. It consists of records: u32 size · u32 crc · payload. Each crc
 * continues the one before (zlib); the last record is a count. Pure except for the last two
 * functions. */
#ifndef CLOCHE_HELPERS_SYNC_JOURNAL_H
#define CLOCHE_HELPERS_SYNC_JOURNAL_H

#include "step.h"

#include "base/buf.h"

#define JOURNAL_BYTES_MAX (1u << 30)

struct journal {
        uint64_t transaction;
        struct steps steps;
};

/* 0, -ENOMEM or -ENOBUFS. */
int journal_encode(const struct journal *journal, struct buf *ret);
/* -CLOCHE_E_STATE names the byte where the journal is damaged. Call journal_done() after a
 * failure too. */
int journal_decode(const char *data, size_t size, struct journal *ret, struct cloche_err *e);
void journal_done(struct journal *journal);

/* Write the draft without syncing it. 0 or -errno. */
int journal_write(const struct stage *stage, const struct journal *journal);
int journal_read(const struct stage *stage, enum stage_state state, struct journal *ret, struct cloche_err *e);

#endif
