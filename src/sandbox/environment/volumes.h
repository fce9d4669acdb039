/* Volumes: named directories of a principal, of a fixed size, that its sandboxes mount. */
#ifndef CLOCHE_SANDBOX_ENVIRONMENT_VOLUMES_H
#define CLOCHE_SANDBOX_ENVIRONMENT_VOLUMES_H

#include "sandbox/core/sandboxes.h"

#define VOLUME_NAME_MAX 64

enum volume_state {
        VOLUME_MAKING, /* its definition is written, its image perhaps not */
        VOLUME_READY,
        VOLUME_REMOVING, /* the reverse */
        VOLUME_STATES
};

struct sandbox_volume {
        int was_ready; /* it is being removed, and was whole before */
        TAILQ_ENTRY(sandbox_volume) link;
        struct sandboxes *all;
        char name[VOLUME_NAME_MAX], id[KEEPER_VOLUME_ID_SIZE];
        int64_t principal;
        enum volume_state state;
        uint64_t size_bytes, created_ms; /* real time */
        json_t *labels;
        unsigned users;            /* sandboxes that start or run with it, and requests that measure it */
        int is_open, is_requested; /* of the keeper; a request to open, measure or remove it is under way */
};

/* The volumes of a sandbox that starts or runs, in the order of its definition, and the scratch
 * volume in which a writable root lies. */
struct volume_uses {
        struct sandbox *sandbox;
        char scratch[KEEPER_VOLUME_ID_SIZE]; /* "": none */
        int is_scratch_open;
        size_t count;
        struct volume_use {
                struct sandbox_volume *volume;
                const char *path; /* of the definition */
                int is_read_only;
        } rows[KEEPER_MOUNTS_MAX];
};

/* volumes.c */
struct sandbox_volume *sandbox_volume_find(const struct sandboxes *all, int64_t principal, const char *name);
/* For somebody who uses it until sandbox_volume_leave: sandbox_on_volumes follows if it is not
 * open. */
CLOCHE_MUST_CHECK int sandbox_volume_enter(struct sandbox_volume *volume, struct cloche_err *e);
void sandbox_volume_leave(struct sandbox_volume *volume);
/* Fail unless the caller may reserve so many bytes more on the disk. */
CLOCHE_MUST_CHECK int sandbox_volumes_check_room(const struct sandboxes *all, int64_t principal, uint64_t bytes,
                                                 struct cloche_err *e);
int sandbox_volume_make_up_id(char ret[KEEPER_VOLUME_ID_SIZE]);
/* Read the definitions of a principal, and remove the leftovers of a killed daemon.
 * dir_fd: the principal's. */
void sandbox_volumes_load(struct sandboxes *all, int64_t principal, int dir_fd);
void sandbox_volumes_free(struct sandboxes *all);

/* volume-use.c: check the member "volumes" of a request that creates a sandbox. */
CLOCHE_MUST_CHECK int sandbox_volumes_check(const struct sandbox_request *request, struct cloche_err *e);
/* True if writable roots lie on the disk. */
int sandboxes_have_scratch(const struct sandboxes *all);
/* True if the definition names it. */
int sandbox_volumes_name(const struct sandbox *s, const char *volume);
/* Before the box is made: open them all. */
CLOCHE_MUST_CHECK int sandbox_volumes_prepare(struct sandbox *s, struct cloche_err *e);
int sandbox_volumes_are_open(const struct sandbox *s);
/* Put them behind the mounts of spec. */
void sandbox_volumes_describe(const struct volume_uses *volumes, struct keeper_box_spec *spec);
void sandbox_volumes_close(struct sandbox *s);

#endif
