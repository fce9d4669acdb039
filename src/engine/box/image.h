/* The images that runs, prefixes and sandboxes name. */
#ifndef CLOCHE_ENGINE_BOX_IMAGE_H
#define CLOCHE_ENGINE_BOX_IMAGE_H

#include "proto/keeper.h"

#include <cloche/engine.h>
#include <jansson.h>
#include <stdint.h>
#include <sys/queue.h>

/* Interpreters in an image of the store are kept for this time without use. */
#define IMAGE_IDLE_NS (UINT64_C(600) * 1000000000)

/* Environment, working directory, user and commands that an image states, shared by all that use
 * it. */
struct image_settings {
        SLIST_ENTRY(image_settings) link;
        unsigned refs; /* of images that are held */
        char *text;    /* its canonical JSON, the key */
        json_t *json;
        const json_t *env;         /* object of text by name; NULL: none */
        const char *directory;     /* NULL: none */
        struct jail_user user;     /* of its boxes */
        const char *start, *ready; /* commands of its sandboxes; NULL: none */
        uint64_t ready_ms;         /* the time that the second one has to succeed */
};

SLIST_HEAD(image_settings_list, image_settings);

/* A tree of the store, "": the engine's own image; and what is stated about it, or NULL. */
struct image {
        char name[KEEPER_TREE_SIZE];
        struct image_settings *settings;
};

/* Read sha256-DIGITS or sha256:DIGITS. 0 if it is neither. */
int image_read(const char *name, struct image *ret);

/* name: NULL or "" for the engine's own. The keeper reports whether there is such a tree. settings:
 * JSON text, or NULL for none. Call image_hold() before the loop goes on.
 * Errors  CLOCHE_E_INVALID_ARGUMENT: it is no digest, or the engine has no store, or the settings are invalid. */
CLOCHE_MUST_CHECK int image_take(cloche_engine *engine, const char *name, const char *settings, struct image *ret,
                                 struct cloche_err *e);
/* The same with the members image and imageSettings of a request. */
CLOCHE_MUST_CHECK int image_take_members(cloche_engine *engine, const json_t *object, struct image *ret,
                                         struct cloche_err *e);
/* The image with these commands instead of its own, {start, ready, readyMs}; NULL changes
 * nothing. Call image_hold() before the loop goes on. */
CLOCHE_MUST_CHECK int image_take_startup(cloche_engine *engine, const json_t *startup, struct image *image,
                                         struct cloche_err *e);
/* Pick imageSettings from what cloche-image says about an image; new, or NULL. */
json_t *image_settings_pick(const json_t *image);
/* The same settings without start and ready commands; new, or NULL. settings may be NULL. */
json_t *image_settings_without_startup(const json_t *settings);
/* The user of boxes of the image. */
struct jail_user image_runs_as(const struct image *image);
/* Keep the settings for the owner of *image; image_drop() ends that. */
void image_hold(struct image *image);
void image_drop(struct image *image);

/* Check and keep settings that nothing uses yet; *ret NULL if text is. */
CLOCHE_MUST_CHECK int image_settings_take(struct image_settings_list *list, const char *text,
                                          struct image_settings **ret, struct cloche_err *e);
void image_settings_free_all(struct image_settings_list *list);

/* True if its sandboxes run commands when they start. */
static inline int image_has_commands(const struct image *image)
{
        return image->settings && (image->settings->start || image->settings->ready);
}

static inline int image_equals(const struct image *one, const struct image *other)
{
        return one->settings == other->settings && strcmp(one->name, other->name) == 0;
}

#endif
