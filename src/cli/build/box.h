/* Steps that change files, in a sandbox each: for build-run.c, build-copy.c and pack.c. Functions
 * print a line and return an exit code, or 0. */
#ifndef CLOCHE_CLI_BUILD_BOX_H
#define CLOCHE_CLI_BUILD_BOX_H

#include "build.h"

#define BUILD_BOX "build"
#define BUILD_OTHER_BOX "from" /* of COPY --from */
#define BUILD_ARCHIVE "/tmp/.cloche-build"

int build_no_memory(const struct build *b);
void build_finish_hash(struct sha256_ctx *hash, char ret[BUILD_KEY_SIZE]);
/* All that a step's result depends on; the store adds the user. text: with its variables
 * replaced; files: hash of those that it copies, or of the key of another image. */
int build_make_key(struct build *b, const struct docker_step *step, const char *text, const char *files,
                   char ret[BUILD_KEY_SIZE]);
/* Print the step and a note. */
void build_show(const struct build *b, const char *note);
/* Take the result of an earlier build. 1: it is there; negative: an exit code. */
int build_take_result(struct build *b, const char *key);

/* Send one request of the daemon. params is stolen. ret: the answer in text form; may be NULL. */
int build_call(struct build *b, const char *method, json_t *params, json_t **ret);
enum build_box_kind {
        BUILD_READS,  /* its files are read */
        BUILD_WRITES, /* it has a writable root */
        BUILD_ONLINE, /* and the network of the build */
};
/* Make a sandbox, and the daemon before if there is none. env is stolen. */
int build_open_box(struct build *b, const char *name, const char *id, const char *tree, json_t *env,
                   enum build_box_kind kind);
int build_make_directory(struct build *b, const char *path);
/* Refuse a directory that no image keeps. */
int build_check_place(const struct build *b, const char *path);
/* Make the image of the step, and end the sandbox. */
int build_commit(struct build *b, const struct docker_step *step, const char *key);

#endif
