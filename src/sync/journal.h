/* The journal of a transaction: all of its steps, written once and never changed. What has become of it is in its file's name:
 *
 *     draft ──commit──▶ journal ──all steps done──▶ done
 *                          └──a step failed──▶ undo ──all undone──▶ undone
 *
 * Until it is named journal nothing is displaced, so a draft is thrown away unread. A journal is believed whole or not at all: records
 * of u32 size · u32 crc · payload, each crc going on from the one before (zlib), the last a count. Pure but for the two at the end. */
#ifndef CLOCHE_SYNC_JOURNAL_H
#define CLOCHE_SYNC_JOURNAL_H

#include "step.h"

#include "base/buf.h"

#define JOURNAL_BYTES_MAX (1u << 30)

struct journal {
        uint64_t transaction;
        struct steps steps;
};

/* 0 or -ENOMEM, -ENOBUFS. */
int journal_encode(const struct journal *journal, struct buf *ret);
/* -CLOCHE_E_STATE says at which byte it is damaged. journal_done() also after a failure. */
int journal_decode(const char *data, size_t size, struct journal *ret, struct cloche_err *e);
void journal_done(struct journal *journal);

/* As the draft; not yet on the disk. 0 or -errno. */
int journal_write(const struct stage *stage, const struct journal *journal);
int journal_read(const struct stage *stage, enum stage_state state, struct journal *ret, struct cloche_err *e);

#endif
