/* Translations of code that comes again (typescript), kept in memory for each template. A child
 * translates code that has been seen before, and tells the result before any of that code runs;
 * later children get it with their request. A translation belongs to its template, and so to a
 * tenant, an image and a set-up: code of others never has a part in it. */
#ifndef CLOCHE_ENGINE_WARM_TRANSLATION_H
#define CLOCHE_ENGINE_WARM_TRANSLATION_H

#include "artifact.h"
#include "wire/frame.h"
#include "wire/rpc.h"

#include <sys/queue.h>

#define TRANSLATIONS_MAX 64                   /* texts of a template, the longest unused is dropped */
#define TRANSLATION_BYTES_MAX (256u << 10)    /* larger ones are not kept */
#define TRANSLATIONS_BYTES_MAX (1u << 20)     /* of a template's translations together */
#define TRANSLATED_CODE_BYTES_MAX (64u << 10) /* longer code is translated each time */

struct translation; /* of one text */

TAILQ_HEAD(translation_rows, translation);

struct translations {
        struct translation_rows rows; /* the latest used first */
        unsigned count;
        size_t bytes;
};

/* A run's part. */
struct translation_use {
        char key[ARTIFACT_KEY_SIZE];
        json_t *param;    /* for its request: the translation, held; true to ask for it; NULL for neither */
        int is_requested; /* the agent will tell it, once */
};

void translations_init(struct translations *all);
void translations_done(struct translations *all);
/* Move all of them to another template, which has none yet. */
void translations_move(struct translations *from, struct translations *to);

/* Look up a run's code. The first time it is only noted: most code comes once. */
int translation_use(struct translations *all, const char *method, const char *filename, const char *code, size_t size,
                    struct translation_use *ret, struct cloche_err *e);
void translation_use_done(struct translation_use *use);
/* Handle the notification `translated` {translation: bytes, or null if the result cannot be
 * kept}. */
int translation_on_told(struct translations *all, struct translation_use *use, const struct rpc_message *m,
                        const struct frame *f, struct cloche_err *e);

#endif
