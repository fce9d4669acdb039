/* Programs in a box: requests to its PID 1, and their environment. */
#ifndef CLOCHE_SANDBOX_CORE_SPAWN_H
#define CLOCHE_SANDBOX_CORE_SPAWN_H

#include "sandboxes.h"

#define SANDBOX_ENV_MAX 4096 /* variables of one request */

struct spawn {
        struct control *control;
        const char *cwd;
        const char *const *argv; /* NULL-terminated */
        const char *const *env;  /* NULL-terminated, NAME=VALUE */
        int *fds;
        size_t fd_count;
        uint32_t flags, cols, rows;
};
int sandbox_send_spawn(const struct spawn *spawn, control_done done, void *data, struct cloche_err *e);
/* Start one of our programs, in "/" and with the environment of sandbox_env_list(). Negative fds
 * are /dev/null in the program; cwd and env are set. */
int sandbox_spawn_own(struct sandbox *s, const json_t *more, struct spawn *spawn, control_done done, void *data,
                      struct cloche_err *e);
/* Start the file program with this command line (NULL-terminated); in_fd, out_fd: borrowed, or
 * negative for none. */
int sandbox_start_files(struct sandbox *s, struct control *control, const char *const *argv, int in_fd, int out_fd,
                        control_done done, void *data, struct cloche_err *e);
int sandbox_send_kill(struct control *control, int32_t pid, int signal, uint32_t flags, const int32_t *spared,
                      size_t spared_count, control_done done, void *data, struct cloche_err *e);
/* Return the environment for a program: ours, the operator's, the sandbox's, then more (both
 * objects of text, null: unset; more may be NULL). Free it with sandbox_env_free(). */
char **sandbox_env_list(const struct sandbox *s, const json_t *more);
/* The same as an object; NULL: no memory. */
json_t *sandbox_env_object(const struct sandbox *s, const json_t *more);
/* True if the rows have our file of npm's authorities, with which npm takes none from
 * NODE_EXTRA_CA_CERTS. The lists above and below leave it out where that variable is set. */
int sandbox_env_has_npm_authorities(char *const *rows);
/* The same, on top of the variables that a shell had exported. */
char **sandbox_env_from(char *const *exported, const json_t *more);
void sandbox_env_free(char **env);
int sandbox_env_is_name(const char *name);
int sandbox_env_check(const json_t *env, struct cloche_err *e);
/* For env of a sandbox or session, which apply to all programs. */
int sandbox_env_check_of_all(const json_t *env, struct cloche_err *e);

#endif
