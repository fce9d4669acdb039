/* cloche image build: the state of a build, and its steps. Functions print a line and
 * return an exit code, or 0. */
#ifndef CLOCHE_CLI_BUILD_BUILD_H
#define CLOCHE_CLI_BUILD_BUILD_H

#include "cli/options/options.h"
#include "cli/run/image-store.h"
#include "cli/sandbox/copy.h"
#include "cli/sandbox/daemon-private.h"
#include "context.h"
#include "dockerfile.h"

/* The name of processors in images (GOARCH). */
#if defined(__x86_64__)
#define BUILD_ARCHITECTURE "amd64"
#elif defined(__aarch64__)
#define BUILD_ARCHITECTURE "arm64"
#else
#error "name this processor as container engines do"
#endif
#define BUILD_KEY_SIZE 65
#define BUILD_SECRET_BYTES_MAX (1u << 20)

/* An image on the way: that of the last step which changed files, and the
 * configuration until now. */
struct stage {
        char *name;               /* of FROM … AS; NULL: none */
        char *id, *tree;          /* of the image in the store */
        json_t *config;           /* its members are those of a record (src/helpers/image/README.md) */
        json_t *args;             /* values of ARG by name */
        char key[BUILD_KEY_SIZE]; /* of all steps until now */
};

struct build {
        struct cli_request *request;
        const char *path; /* of the Dockerfile, for messages */
        struct dockerfile file;
        struct context context;
        struct stage *stages;
        size_t stage_count, stage_room;
        json_t *args;     /* ARG before the first FROM */
        int has_root;     /* the daemon is root's: steps run as root of their sandbox, until USER */
        json_t *declared; /* names of all ARGs, and null for each */
        json_t *triggers; /* instructions of ONBUILD that the step's image has; NULL: none */
        json_t *pulled;   /* names of the images of Debian that this build made */
        json_t *network;  /* the policy of all steps; NULL: none */
        size_t at;        /* the step that is carried out */
        struct daemon_private daemon;
        struct copy copy; /* the connection to the daemon */
        int has_daemon;
        struct image_store store;
        json_int_t time; /* of all files, in seconds; -1: their own */
};

/* Report an error of the current step with its line. Returns an exit code. */
int build_fail(const struct build *b, const struct cloche_err *e);
int build_bad(const struct build *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Return the stage that is built. */
static inline struct stage *build_stage(struct build *b)
{
        return &b->stages[b->stage_count - 1];
}

/* Return the working directory. */
const char *build_directory(const struct stage *stage);
/* Take the image of an answer of the store. */
int build_take_image(struct stage *stage, const json_t *image);
/* Replace variables of a text. *ret: free it. */
int build_expand(struct build *b, const char *text, char **ret);
/* {NAME: VALUE} of the configuration's env, without variables of the box. NULL: no memory. */
json_t *build_env(const struct stage *stage);

/* build-run.c and build-copy.c: steps that change files, in a sandbox, unless the store has their
 * result. */
int build_run(struct build *b, const struct docker_step *step);
int build_copy(struct build *b, const struct docker_step *step);
/* build-from.c: FROM begins a stage. */
int build_from(struct build *b, const struct docker_step *step);
/* The instructions that the image below has for those on it come next. */
int build_insert_triggers(struct build *b);
/* build-box.c: the members that a commit takes, of the configuration. NULL: no memory. */
json_t *build_config(const struct stage *stage);

#endif
