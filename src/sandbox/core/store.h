/* The saved state of sandboxes. */
#ifndef CLOCHE_SANDBOX_CORE_STORE_H
#define CLOCHE_SANDBOX_CORE_STORE_H

#include "sandboxes.h"

#define SANDBOX_STORE_FILES "files" /* the archive in a sandbox's directory */
#define SANDBOX_STORE_LOG "log"
#define SANDBOX_STORE_NEW ".new"

/* Return a directory, or -errno. make: make it if it is missing. */
int sandbox_store_open_below(int at_fd, const char *name, int make);
/* The directory of this name of a principal; -ENOENT without a state directory. */
int sandbox_store_open_named(const struct sandboxes *all, int64_t principal, const char *name, int make);
/* The sandbox's. */
int sandbox_store_open(const struct sandbox *s, int make);
/* Replace a file as a whole. 0 or -errno; a process that is killed meanwhile leaves the
 * name with SANDBOX_STORE_NEW. */
int sandbox_store_write_text(int dir_fd, const char *name, const char *text);
/* A new reference; NULL with the reason. */
json_t *sandbox_store_read_json(int fd, off_t size_max, json_error_t *ret_why);
/* Write the definition; 0 without a state directory. */
int sandbox_store_define(struct sandbox *s, struct cloche_err *e);
/* The definition as an object; NULL: no memory. sandbox_store_take does the reverse. */
json_t *sandbox_store_definition(struct sandbox *s);
int sandbox_store_take(struct sandbox *s, const json_t *object, struct cloche_err *e);
int sandbox_store_load(struct sandboxes *all, struct cloche_err *e);
void sandbox_store_remove(struct sandbox *s);
/* Called every second: end a save whose program does not go on, as a guest may stop it. */
void sandbox_store_tidy(struct sandbox *s);
/* Give its directory another name. 0 or -errno. */
int sandbox_store_rename(const struct sandbox *s, const char *name);
/* Report the changes between the last save and this real time as lost, and record that in the
 * definition. */
void sandbox_store_lost(struct sandbox *s, uint64_t to_ms);
/* True if all that it would have after the end of its box is what was saved, or what it began
 * with. */
int sandbox_has_saved_files(const struct sandbox *s);
/* Save the files; done is called once, also without a state directory. sandbox_store_restore
 * does the reverse, into a new box. */
void sandbox_store_save(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data);
/* The same. packed, which may be NULL, is called before, when the archive is whole and not on
 * the disk yet: sandbox_store_link gives it away then, and after done. */
void sandbox_store_save_for(struct sandbox *s, void (*packed)(void *data),
                            void (*done)(void *data, const struct cloche_err *e), void *data);
/* Link the archive into a directory. -ENOENT: the sandbox was never saved. */
int sandbox_store_link(const struct sandbox *s, int to_fd);
/* Drop the callbacks of waiters with this data. */
void sandbox_store_detach(struct sandbox *s, const void *data);
void sandbox_store_restore(struct sandbox *s, void (*done)(void *data, const struct cloche_err *e), void *data);
/* Fail with -CLOCHE_E_RESOURCE if this many bytes of files would not fit. It does not disturb
 * programs in the box. */
int sandbox_store_check_room(const struct sandbox *s, uint64_t bytes, struct cloche_err *e);
/* Record a failed save, and report it once. */
void sandbox_store_failed(struct sandbox *s, const struct cloche_err *e);
void sandbox_store_on_box_closed(struct sandbox *s);
void sandbox_stores_exited(struct sandbox *s, const struct init_answer *exit);

#endif
