/* The instructions of a Dockerfile, and the rules of words and variables in them.
 * Pure; the text is anyone's. */
#ifndef CLOCHE_CLI_BUILD_DOCKERFILE_H
#define CLOCHE_CLI_BUILD_DOCKERFILE_H

#include <cloche/error.h>
#include <jansson.h>
#include <stddef.h>

#define DOCKERFILE_BYTES_MAX (1u << 20)
#define DOCKERFILE_STEPS_MAX 1000
#define DOCKERFILE_WORDS_MAX 10000 /* of one instruction */

enum docker_word {
        DOCKER_FROM,
        DOCKER_RUN,
        DOCKER_COPY,
        DOCKER_ADD,
        DOCKER_ENV,
        DOCKER_ARG,
        DOCKER_WORKDIR,
        DOCKER_USER,
        DOCKER_CMD,
        DOCKER_ENTRYPOINT,
        DOCKER_LABEL,
        DOCKER_EXPOSE,
        DOCKER_SHELL,
        DOCKER_VOLUME,
        DOCKER_STOPSIGNAL,
        DOCKER_HEALTHCHECK,
        DOCKER_MAINTAINER,
        DOCKER_ONBUILD,
        DOCKER_WORDS,
};

struct docker_step {
        enum docker_word word;
        unsigned line;
        char *text;        /* without the word and the flags, continuation lines joined */
        json_t *list;      /* the same as a JSON list of texts; NULL: it is none, or the word has no such form */
        json_t *flags;     /* a list of texts, each NAME=VALUE */
        json_t *documents; /* here documents in order, each {name, text, isRaw: its variables stay}; NULL: none */
};

struct dockerfile {
        struct docker_step *steps;
        size_t count, room;
};

extern const char *const docker_names[DOCKER_WORDS];

/* The value of a flag; "" if it has none, NULL if it is not given. */
const char *docker_flag(const struct docker_step *step, const char *name);
/* Read a JSON list of texts; NULL: the text is none. */
json_t *docker_list(const char *text);
/* True for a word that names a here document: <<NAME, <<-NAME, with quotes <<"NAME". */
int docker_is_document(const char *word);

/* name: of the file, for messages. -CLOCHE_E_INVALID_ARGUMENT names the line and the word. */
CLOCHE_MUST_CHECK int dockerfile_read(const char *text, size_t size, const char *name, struct dockerfile *ret,
                                      struct cloche_err *e);
void dockerfile_done(struct dockerfile *file);
/* Read an instruction of ONBUILD, and put it behind the step at, with the line of that one. */
CLOCHE_MUST_CHECK int dockerfile_insert(struct dockerfile *file, size_t at, const char *text, const char *name,
                                        struct cloche_err *e);

/* Split at spaces outside of quotes, which stay. *ret: a list of texts. */
CLOCHE_MUST_CHECK int docker_split(const char *text, json_t **ret, struct cloche_err *e);
/* Return the value of a variable; NULL: it is not set. */
typedef const char *(*docker_lookup)(void *data, const char *name);
/* Replace variables, and remove quotes and backslashes. *ret: free it. */
CLOCHE_MUST_CHECK int docker_expand(const char *text, docker_lookup lookup, void *data, char **ret,
                                    struct cloche_err *e);

#endif
