/* Keys for ssh to sandboxes, made by ssh-keygen(1), in a directory of the user's: client/ has
 * the one key that logs into all sandboxes, hosts/NAME.cloche/ the host key of a sandbox with
 * its line of known_hosts. Functions print a line and return an exit code, or 0. */
#ifndef CLOCHE_CLI_SSH_KEYS_H
#define CLOCHE_CLI_SSH_KEYS_H

#include <stddef.h>

#define SSH_SUFFIX ".cloche" /* of host names: NAME.cloche */
#define SSH_PATH_BYTES 4096
#define SSH_KEY_BYTES 4096
#define SSH_NAME_MAX 63

struct ssh_keys {
        char host_key[SSH_KEY_BYTES];   /* private, for the sshd of the sandbox */
        char client_key[SSH_KEY_BYTES]; /* public, which may log in */
};

/* A sandbox's name from NAME or NAME.cloche. */
int ssh_keys_name(const char *word, char ret[SSH_NAME_MAX + 1]);
/* The directory that `named` (--keys, or NULL) or the user's settings name, as an absolute path. */
int ssh_keys_place(const char *named, char ret[SSH_PATH_BYTES]);
/* Make the client's key if it is missing. */
int ssh_keys_make_client(const char *place);
/* Make the host key of a sandbox too, and read both keys for its sshd. */
int ssh_keys_read(const char *place, const char *name, struct ssh_keys *ret);

#endif
